//! Rules that the golden vectors do not have, or have only in passing. `headroom-conformance` runs the vectors.

use super::*;
use crate::scheduling::constraints::NodeSelectorTerm;
use headroom_values::quantity::Quantity;

struct Node(&'static str);

impl LabelledNode for Node {
    fn node_name(&self) -> &str {
        self.0
    }

    fn label(&self, _key: &str) -> Option<&str> {
        None
    }
}

fn slice(name: &str, node: &str, count: i64, devices: Vec<Device>) -> Slice {
    let pool = PoolRef { name: node.into(), generation: 1, resource_slice_count: count };
    let (driver, node_name) = (Arc::from("gpu.example.com"), Some(node.into()));
    Slice { name: name.into(), spec: SliceSpec { driver, pool, node_name, devices, ..SliceSpec::default() } }
}

fn device(name: &str) -> Device {
    Device { name: name.into(), ..Device::default() }
}

fn devices(count: usize) -> Vec<Device> {
    (0..count).map(|number| device(&format!("gpu-{number:03}"))).collect()
}

fn wish(count: u64) -> DeviceRequest {
    DeviceRequest { device_class_name: "gpu".into(), count, ..DeviceRequest::default() }
}

fn request(name: &str, exactly: DeviceRequest) -> Request {
    Request { name: name.into(), exactly: Some(exactly), first_available: Vec::new() }
}

fn claim(requests: Vec<Request>) -> Claim {
    let devices = ClaimDevices { requests, constraints: Vec::new() };
    Claim { name: "claim".into(), spec: ClaimSpec { devices } }
}

fn selector(expression: &str) -> Selector {
    Selector { cel: CelSelector { expression: expression.into() } }
}

fn run(slices: &[Slice], held: &Held, claims: &[Claim]) -> Result<Answer, DeviceError> {
    let classes = BTreeMap::from([(Arc::from("gpu"), Class { name: "gpu".into(), ..Class::default() })]);
    let slices: Vec<&Slice> = slices.iter().collect();
    let held = InUse { own: held, wide: &Held::default() };
    let taint_rules = &BTreeMap::new();
    let offer = Offer { slices: &slices, classes: &classes, taint_rules, held };
    allocate(&Node("n1"), offer, claims, &mut Selectors::default())
}

fn names(answer: &Result<Answer, DeviceError>) -> Vec<String> {
    let Ok(Answer::Allocated(claims)) = answer else { panic!("{answer:?}") };
    claims.iter().flat_map(|claim| &claim.devices).map(|device| device.id.device.to_string()).collect()
}

#[test]
fn search_that_explodes_is_ended_by_its_steps() {
    // No three devices share a root, which the first request finds out in some steps.
    let mut all = devices(120);
    for (number, device) in all.iter_mut().enumerate() {
        device.attributes.insert("root".into(), Attribute::Int(i64::try_from(number / 2).unwrap()));
    }
    let slices = [slice("s", "n1", 1, all)];
    let mut asking = claim((0..9).map(|number| request(&format!("r{number}"), wish(3))).collect());
    asking.spec.devices.constraints = (0..9)
        .map(|number| Constraint {
            requests: vec![format!("r{number}").into()],
            match_attribute: Some("gpu.example.com/root".into()),
            distinct_attribute: None,
        })
        .collect();
    assert_eq!(run(&slices, &Held::default(), &[asking.clone()]), Ok(Answer::DoesNotFit));
    // The last request wants more devices than there are, after every choice of the requests before it.
    for constraint in &mut asking.spec.devices.constraints {
        constraint.match_attribute = None;
        constraint.distinct_attribute = Some("gpu.example.com/root".into());
    }
    asking.spec.devices.requests[8] = request("r8", wish(8));
    asking.spec.devices.requests[8].exactly.as_mut().unwrap().selectors =
        vec![selector(r#"device.attributes["gpu.example.com"].root < 4"#)];
    asking.spec.devices.constraints[8].requests = Vec::new();
    let error = run(&slices, &Held::default(), &[asking]).unwrap_err();
    assert_eq!(error, DeviceError::SearchTooLarge);
    assert!(error.is_of_node());
}

#[test]
fn devices_that_make_no_difference_are_tried_once() {
    // The last request cannot be met whatever twelve of forty the first one takes: there are billions of choices.
    let mut all = devices(40);
    for (number, device) in all.iter_mut().enumerate() {
        device.attributes.insert("uuid".into(), Attribute::String(format!("GPU-{number}").into()));
        device.attributes.insert("large".into(), Attribute::Bool(number < 3));
    }
    let slices = [slice("s", "n1", 1, all)];
    let mut large = wish(4);
    large.selectors = vec![selector(r#"device.attributes["gpu.example.com"].large"#)];
    let asking = [claim(vec![request("any", wish(12)), request("large", large.clone())])];
    assert_eq!(run(&slices, &Held::default(), &asking), Ok(Answer::DoesNotFit));
    large.count = 3;
    let asking = [claim(vec![request("any", wish(12)), request("large", large)])];
    let found = names(&run(&slices, &Held::default(), &asking));
    assert_eq!((&*found[0], &*found[11], &*found[12]), ("gpu-003", "gpu-014", "gpu-000"));
}

#[test]
fn pods_with_more_devices_than_the_search_is_deep_are_refused_beforehand() {
    let slices = [slice("s", "n1", 1, devices(4))];
    let many: Vec<Claim> = (0..=MAX_DEVICES).map(|_| claim(Vec::new())).collect();
    assert_eq!(run(&slices, &Held::default(), &many), Err(DeviceError::SearchTooLarge));
    assert!(matches!(run(&slices, &Held::default(), &many[1..]), Ok(Answer::Allocated(_))));
}

#[test]
fn as_many_devices_as_the_search_is_deep_can_be_had() {
    let slices: Vec<Slice> =
        (0..4).map(|number| slice(&format!("s{number}"), "n1", 1, devices(128))).collect();
    let slices: Vec<Slice> = slices
        .into_iter()
        .enumerate()
        .map(|(number, mut slice)| {
            slice.spec.pool.name = format!("pool-{number}").into();
            slice
        })
        .collect();
    let claims: Vec<Claim> = (0..MAX_DEVICES / MAX_DEVICES_OF_CLAIM)
        .map(|_| claim(vec![request("r", wish(u64::try_from(MAX_DEVICES_OF_CLAIM).unwrap()))]))
        .collect();
    assert_eq!(names(&run(&slices, &Held::default(), &claims)).len(), MAX_DEVICES);
}

#[test]
fn what_is_given_back_can_be_taken_by_a_later_alternative() {
    let mut sets = slice("counters", "n1", 2, Vec::new());
    let amount = |units| Amount { value: Quantity::from_units(units) };
    sets.spec.shared_counters =
        vec![CounterSet { name: "gpu".into(), counters: BTreeMap::from([("memory".into(), amount(4))]) }];
    let part = |name: &str, size: i64| Device {
        consumes_counters: vec![CounterConsumption {
            counter_set: "gpu".into(),
            counters: BTreeMap::from([("memory".into(), amount(size))]),
        }],
        attributes: BTreeMap::from([("size".into(), Attribute::Int(size))]),
        ..device(name)
    };
    let parts = vec![part("whole", 4), part("half-1", 2), part("half-2", 2), part("quarter", 1)];
    let slices = [sets, slice("devices", "n1", 2, parts)];
    let mut quarter = wish(1);
    quarter.selectors = vec![selector(r#"device.attributes["gpu.example.com"].size == 1"#)];
    // The whole first leaves nothing for the quarter, and so do two halves.
    let list = Request {
        name: "list".into(),
        exactly: None,
        first_available: [("two", 2), ("one", 1)]
            .map(|(name, count)| DeviceRequest { name: name.into(), ..wish(count) })
            .into(),
    };
    let answer = run(&slices, &Held::default(), &[claim(vec![list, request("quarter", quarter)])]);
    assert_eq!(names(&answer), ["half-1", "quarter"]);
    let Ok(Answer::Allocated(claims)) = &answer else { panic!() };
    assert_eq!(&*claims[0].devices[0].request, "list/one");
}

#[test]
fn share_is_given_back_with_its_amount() {
    let mut shared = device("nic");
    shared.allow_multiple_allocations = true;
    let bandwidth = Capacity { value: Quantity::from_units(10), request_policy: None };
    shared.capacity = BTreeMap::from([("bandwidth".into(), bandwidth)]);
    let slices = [slice("s", "n1", 1, vec![shared])];
    let part = |amount| DeviceRequest {
        capacity: Some(CapacityRequest {
            requests: BTreeMap::from([("bandwidth".into(), Quantity::from_units(amount))]),
        }),
        ..wish(1)
    };
    let mut held = Held::default();
    for left in [6, 2] {
        let answer = run(&slices, &held, &[claim(vec![request("r", part(4))])]);
        let Ok(Answer::Allocated(claims)) = &answer else { panic!("{answer:?}, {left} left") };
        assert_eq!(claims[0].devices[0].consumed_capacity["bandwidth"], Quantity::from_units(4));
        held.add(&claims[0].devices[0]);
    }
    assert_eq!(run(&slices, &held, &[claim(vec![request("r", part(4))])]), Ok(Answer::DoesNotFit));
    let list = Request {
        name: "list".into(),
        exactly: None,
        first_available: vec![
            DeviceRequest { name: "large".into(), ..part(9) },
            DeviceRequest { name: "small".into(), ..part(1) },
        ],
    };
    // The first part stays while the large one is given back.
    let all = [claim(vec![request("first", part(1)), list, request("last", part(8))])];
    let Ok(Answer::Allocated(claims)) = run(&slices, &Held::default(), &all) else { panic!() };
    let requests: Vec<&str> = claims[0].devices.iter().map(|device| &*device.request).collect();
    assert_eq!(requests, ["first", "list/small", "last"]);
}

#[test]
fn slices_are_tried_by_name_whatever_their_order() {
    let slices = [slice("b", "n1", 2, vec![device("second")]), slice("a", "n1", 2, vec![device("first")])];
    assert_eq!(
        names(&run(&slices, &Held::default(), &[claim(vec![request("r", wish(2))])])),
        ["first", "second"]
    );
}

#[test]
fn incomplete_pool_says_how_many_slices_are_missing() {
    let slices = [slice("a", "n1", 2, devices(1)), slice("c", "n2", 1, devices(1))];
    let pools = pools_of(&Node("n1"), &slices.iter().collect::<Vec<_>>());
    let states: Vec<&PoolState> = pools.iter().map(|pool| &pool.state).collect();
    assert_eq!(states, [&PoolState::Incomplete { found: 1, wanted: 2, generation: 1 }]);
}

#[test]
fn amounts_beyond_the_range_are_an_error_of_the_attempt() {
    let policy = RequestPolicy {
        valid_range: Some(ValidRange {
            min: Some(Quantity::from_units(1)),
            max: None,
            step: Some(Quantity::from_units(10)),
        }),
        ..RequestPolicy::default()
    };
    let mut shared = device("nic");
    shared.allow_multiple_allocations = true;
    let bandwidth = Capacity { value: Quantity::from_units(10), request_policy: Some(policy) };
    shared.capacity = BTreeMap::from([("bandwidth".into(), bandwidth)]);
    let slices = [slice("s", "n1", 1, vec![shared])];
    let mut huge = wish(1);
    let requests = BTreeMap::from([("bandwidth".into(), Quantity::from_units(i64::MAX))]);
    huge.capacity = Some(CapacityRequest { requests });
    let error = run(&slices, &Held::default(), &[claim(vec![request("r", huge)])]).unwrap_err();
    assert!(
        matches!(&error, DeviceError::Capacity { capacity, .. } if &**capacity == "bandwidth"),
        "{error}"
    );
    assert!(!error.is_of_node());
}

#[test]
fn error_names_the_owner_and_the_place_of_a_selector() {
    let slices = [slice("s", "n1", 1, devices(1))];
    let mut asking = wish(1);
    asking.selectors =
        vec![selector("true"), selector(r#"device.attributes["gpu.example.com"].model == "x""#)];
    let error = run(&slices, &Held::default(), &[claim(vec![request("r", asking)])]).unwrap_err();
    assert_eq!(error.to_string(), "claim claim, request r, selector #1: fails: no such key: model");
}

#[test]
fn device_and_request_with_an_unknown_field_are_not_read() {
    let read = |text: &str| serde_json::from_str::<Device>(text).map_err(|error| error.to_string());
    assert!(read(r#"{"name": "a", "attributes": {"n": {"int": 1}}, "taints": null}"#).is_ok());
    assert!(
        read(r#"{"name": "a", "compatibilityGroups": ["x"]}"#).unwrap_err().contains("compatibilityGroups")
    );
    assert!(read(r#"{"name": "a", "attributes": {"n": {"ints": [1]}}}"#).unwrap_err().contains("ints"));
    let claim =
        r#"{"devices": {"config": [{}], "requests": [{"name": "r", "exactly": {"derivedAttributes": []}}]}}"#;
    let error = serde_json::from_str::<ClaimSpec>(claim).unwrap_err().to_string();
    assert!(error.contains("derivedAttributes"), "{error}");
}

#[test]
fn node_selectors_of_several_slices_are_joined_once_each() {
    let term = |key: &str| -> NodeSelector {
        let text = format!(
            r#"{{"nodeSelectorTerms": [{{"matchExpressions": [{{"key": "{key}", "operator": "DoesNotExist"}}]}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    };
    let mut slices =
        [slice("a", "n1", 1, devices(1)), slice("b", "n2", 1, devices(1)), slice("c", "n3", 1, devices(1))];
    for (slice, key) in slices.iter_mut().zip(["x", "y", "x"]) {
        slice.spec.node_name = None;
        slice.spec.node_selector = Some(term(key));
    }
    let Ok(Answer::Allocated(claims)) = run(&slices, &Held::default(), &[claim(vec![request("r", wish(3))])])
    else {
        panic!()
    };
    let NodeSelectorTerm { match_expressions, match_fields } = claims[0].node_selector.clone().unwrap();
    let keys: Vec<&str> = match_expressions.iter().map(|one| &*one.key).collect();
    assert_eq!((keys, match_fields.len()), (vec!["x", "y"], 0));
}

#[test]
fn first_slice_of_the_node_is_believed_where_slices_contradict_each_other() {
    let mut shared = slice("a", "n1", 3, devices(1));
    shared.spec.node_name = None;
    shared.spec.all_nodes = true;
    let own = slice("b", "n1", 2, vec![device("own")]);
    let slices = [shared, own];
    let pools = pools_of(&Node("n1"), &slices.iter().collect::<Vec<_>>());
    assert_eq!(pools[0].state, PoolState::Complete);
}

/// A small cluster: devices by roots and sizes, what is held, and claims over them.
#[derive(Clone, Debug)]
struct Drawn {
    devices: Vec<(i64, bool, i64)>,
    held: Vec<usize>,
    claims: Vec<Vec<(u64, bool, bool)>>,
    constraint: Option<bool>,
}

fn drawn() -> impl proptest::strategy::Strategy<Value = Drawn> {
    use proptest::prelude::*;
    let devices = proptest::collection::vec((0_i64..3, any::<bool>(), 1_i64..4), 1..7);
    let request = (1_u64..4, any::<bool>(), proptest::bool::weighted(0.2));
    let claims = proptest::collection::vec(proptest::collection::vec(request, 1..3), 1..3);
    let held = proptest::collection::vec(0_usize..6, 0..3);
    (devices, held, claims, any::<Option<bool>>()).prop_map(|(devices, held, claims, constraint)| Drawn {
        devices,
        held,
        claims,
        constraint,
    })
}

impl Drawn {
    fn slices(&self) -> Vec<Slice> {
        let devices = self.devices.iter().enumerate().map(|(number, (root, shared, size))| Device {
            attributes: BTreeMap::from([("root".into(), Attribute::Int(*root))]),
            capacity: BTreeMap::from([(
                "size".into(),
                Capacity { value: Quantity::from_units(*size), request_policy: None },
            )]),
            allow_multiple_allocations: *shared,
            ..device(&format!("d{number}"))
        });
        vec![slice("s", "n1", 1, devices.collect())]
    }

    fn claims(&self) -> Vec<Claim> {
        let of_claim = |requests: &Vec<(u64, bool, bool)>| {
            let requests = requests.iter().enumerate().map(|(number, (count, part, admin))| {
                let one = BTreeMap::from([("size".into(), Quantity::from_units(1))]);
                let capacity = part.then_some(CapacityRequest { requests: one });
                let admin_access = admin.then_some(true);
                request(&format!("r{number}"), DeviceRequest { capacity, admin_access, ..wish(*count) })
            });
            let mut claim = claim(requests.collect());
            let attribute: Option<Arc<str>> = Some("gpu.example.com/root".into());
            claim.spec.devices.constraints.extend(self.constraint.map(|distinct| Constraint {
                match_attribute: attribute.clone().filter(|_| !distinct),
                distinct_attribute: attribute.filter(|_| distinct),
                requests: Vec::new(),
            }));
            claim
        };
        self.claims.iter().map(of_claim).collect()
    }

    fn held(&self) -> Held {
        let mut held = Held::default();
        for number in &self.held {
            held.add(&AllocatedDevice {
                request: "r".into(),
                id: DeviceId {
                    driver: "gpu.example.com".into(),
                    pool: "n1".into(),
                    device: format!("d{number}").into(),
                },
                admin_access: false,
                shared: false,
                consumed_capacity: BTreeMap::new(),
                binding_conditions: Vec::new(),
            });
        }
        held
    }
}

proptest::proptest! {
    #[test]
    fn no_device_is_given_twice_and_no_share_beyond_its_size(drawn in drawn()) {
        let (slices, claims, held) = (drawn.slices(), drawn.claims(), drawn.held());
        let Ok(Answer::Allocated(found)) = run(&slices, &held, &claims) else { return Ok(()) };
        let mut taken: BTreeMap<&str, i64> = BTreeMap::new();
        for (claim, found) in claims.iter().zip(&found) {
            let wanted: u64 = claim.spec.devices.requests.iter().flat_map(|one| &one.exactly).map(|one| one.count).sum();
            proptest::prop_assert_eq!(u64::try_from(found.devices.len()).unwrap(), wanted);
            let mut roots = Vec::new();
            for given in &found.devices {
                let device = slices[0].spec.devices.iter().find(|device| device.name == given.id.device).unwrap();
                roots.push(device.attributes["root"].clone());
                proptest::prop_assert!(given.admin_access || !held.is_in_use(&given.id));
                proptest::prop_assert_eq!(given.shared, device.allow_multiple_allocations);
                let size = device.capacity["size"].value.units();
                let amount = given.consumed_capacity.get("size").map_or(size, |amount| amount.units());
                if !given.admin_access || given.shared {
                    *taken.entry(&device.name).or_default() += amount;
                    proptest::prop_assert!(taken[&*device.name] <= size, "{}", device.name);
                }
            }
            let different = |roots: &[Attribute]| (1..roots.len()).filter(|at| !roots[..*at].contains(&roots[*at])).count() + 1;
            match drawn.constraint {
                Some(true) => proptest::prop_assert_eq!(different(&roots), roots.len()),
                Some(false) => proptest::prop_assert_eq!(different(&roots), 1),
                None => {}
            }
        }
    }

    #[test]
    fn claims_that_fit_beside_holders_fit_without_them(drawn in drawn()) {
        let (slices, claims) = (drawn.slices(), drawn.claims());
        if let Ok(Answer::Allocated(_)) = run(&slices, &drawn.held(), &claims) {
            proptest::prop_assert!(matches!(run(&slices, &Held::default(), &claims), Ok(Answer::Allocated(_))));
        }
    }
}
