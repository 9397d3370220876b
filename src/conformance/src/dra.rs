//! The families of device allocation: claims on one node, and single selectors on single devices.
//!
//! The answer that counts is the one of Kubernetes 1.37 with its defaults, `later` where it differs from 1.35. Texts of
//! errors are not compared, their kinds are.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::quantity::Quantity;
use headroom_core::scheduling::devices::{
    self, AllocatedDevice, Answer, Claim, ClaimAllocation, Class, Device, DeviceError, DeviceId,
    DeviceSelector, Held, InUse, NodeSelector, Offer, SelectorError, Selectors, Slice,
};
use headroom_core::scheduling::node_affinity::LabelledNode;
use serde::Deserialize;

use crate::outcome::Outcome;

/// Maximum number of allocations of the same claims.
const MOST_FILLS: u32 = 12;

/// One case of either kind.
#[derive(Deserialize)]
pub(crate) struct Case {
    /// Its name.
    pub(crate) id: String,
    #[serde(flatten)]
    what: What,
    expect: Expected,
    later: Option<Expected>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum What {
    Allocation { input: Box<Input> },
    Selector { driver: String, device: Box<Device>, expression: String },
}

#[derive(Deserialize)]
struct Input {
    node: Node,
    classes: Vec<Class>,
    slices: Option<Vec<Slice>>,
    allocated: Option<Vec<Allocated>>,
    claims: Vec<Claim>,
}

#[derive(Deserialize)]
struct Node {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl LabelledNode for Node {
    fn node_name(&self) -> &str {
        &self.name
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }
}

/// Device that another claim holds.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Allocated {
    driver: Arc<str>,
    pool: Arc<str>,
    device: Arc<str>,
    #[serde(default)]
    admin_access: bool,
    #[serde(rename = "shareID")]
    share_id: Option<String>,
    #[serde(default)]
    consumed_capacity: BTreeMap<Arc<str>, Quantity>,
}

#[derive(Debug, Deserialize)]
struct Expected {
    outcome: String,
    kind: Option<String>,
    claims: Option<Vec<ExpectedClaim>>,
    fill: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExpectedClaim {
    #[serde(default)]
    results: Vec<ExpectedDevice>,
    node_selector: Option<NodeSelector>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExpectedDevice {
    request: Arc<str>,
    driver: Arc<str>,
    pool: Arc<str>,
    device: Arc<str>,
    #[serde(default)]
    admin_access: bool,
    #[serde(default)]
    shared: bool,
    #[serde(default)]
    consumed_capacity: BTreeMap<Arc<str>, Quantity>,
    #[serde(default)]
    binding_conditions: Vec<Arc<str>>,
}

impl Case {
    /// The name of its family in the table.
    #[must_use]
    pub(crate) fn kind(&self) -> &'static str {
        match self.what {
            What::Allocation { .. } => "dra",
            What::Selector { .. } => "dra_cel",
        }
    }
}

/// Runs a case and compares its outcome.
#[must_use]
pub(crate) fn compare(case: &Case) -> Outcome {
    let expected = case.later.as_ref().unwrap_or(&case.expect);
    let found = match &case.what {
        What::Allocation { input } => compare_allocation(input, expected),
        What::Selector { driver, device, expression } => {
            let found = selector_outcome(driver, device, expression);
            if found.0 == expected.outcome { Ok(()) } else { Err(format!("{expression}: {found:?}")) }
        }
    };
    match found {
        Ok(()) => Outcome::Same,
        Err(got) => Outcome::Failed(format!("expected {expected:?}\n       got {got}")),
    }
}

/// The outcome in the words of the vectors, and the text of an error.
fn selector_outcome(driver: &str, device: &Device, expression: &str) -> (&'static str, String) {
    let selector = match DeviceSelector::compile(expression) {
        Ok(selector) => selector,
        Err(error) => return ("compileError", error.to_string()),
    };
    match selector.accepts(driver, device) {
        Ok(true) => ("true", String::new()),
        Ok(false) => ("false", String::new()),
        Err(error) => ("runtimeError", error.to_string()),
    }
}

fn compare_allocation(input: &Input, expected: &Expected) -> Result<(), String> {
    let classes = input.classes.iter().map(|class| (class.name.clone(), class.clone())).collect();
    let mut held = Held::default();
    for allocated in input.allocated.iter().flatten() {
        held.add(&taken(allocated));
    }
    let slices: Vec<&Slice> = input.slices.iter().flatten().collect();
    let nothing = Held::default();
    let mut selectors = Selectors::default();
    let mut once = |held: &Held| {
        let held = InUse { own: held, wide: &nothing };
        let taint_rules = &BTreeMap::new();
        let offer = Offer { slices: &slices, classes: &classes, taint_rules, held };
        devices::allocate(&input.node, offer, &input.claims, &mut selectors)
    };
    let answer = once(&held);
    let (outcome, kind) = match &answer {
        Ok(Answer::Allocated(_)) => ("allocated", None),
        Ok(Answer::DoesNotFit) => ("none", None),
        Err(error) if error.is_of_node() => ("nodeError", Some(kind(error))),
        Err(error) => ("error", Some(kind(error))),
    };
    if (outcome, kind) != (&*expected.outcome, expected.kind.as_deref()) {
        return Err(format!("{answer:?}"));
    }
    let Ok(Answer::Allocated(claims)) = answer else { return Ok(()) };
    let wanted: Vec<ClaimAllocation> = expected.claims.iter().flatten().map(ExpectedClaim::to_core).collect();
    if claims != wanted {
        return Err(format!("{claims:?}"));
    }
    let mut fill = 1;
    hold(&mut held, &claims);
    while fill < MOST_FILLS {
        let Ok(Answer::Allocated(claims)) = once(&held) else { break };
        hold(&mut held, &claims);
        fill += 1;
    }
    if expected.fill == Some(fill) { Ok(()) } else { Err(format!("the same, but fill {fill}")) }
}

fn hold(held: &mut Held, claims: &[ClaimAllocation]) {
    for device in claims.iter().flat_map(|claim| &claim.devices) {
        held.add(device);
    }
}

fn taken(allocated: &Allocated) -> AllocatedDevice {
    AllocatedDevice {
        request: Arc::default(),
        id: DeviceId {
            driver: allocated.driver.clone(),
            pool: allocated.pool.clone(),
            device: allocated.device.clone(),
        },
        admin_access: allocated.admin_access,
        shared: allocated.share_id.is_some(),
        consumed_capacity: allocated.consumed_capacity.clone(),
        binding_conditions: Vec::new(),
    }
}

impl ExpectedClaim {
    fn to_core(&self) -> ClaimAllocation {
        let selector = self.node_selector.as_ref();
        let term = selector.and_then(|selector| selector.node_selector_terms.first());
        ClaimAllocation {
            devices: self.results.iter().map(ExpectedDevice::to_core).collect(),
            node_selector: term.cloned(),
        }
    }
}

impl ExpectedDevice {
    fn to_core(&self) -> AllocatedDevice {
        AllocatedDevice {
            request: self.request.clone(),
            id: DeviceId {
                driver: self.driver.clone(),
                pool: self.pool.clone(),
                device: self.device.clone(),
            },
            admin_access: self.admin_access,
            shared: self.shared,
            consumed_capacity: self.consumed_capacity.clone(),
            binding_conditions: self.binding_conditions.clone(),
        }
    }
}

/// The kind of an error in the words of the vectors.
fn kind(error: &DeviceError) -> &'static str {
    match error {
        DeviceError::UnknownClass { .. } => "unknownClass",
        DeviceError::Selector { error: SelectorError::Compile(_), .. } => "celCompile",
        DeviceError::Selector { error: SelectorError::Runtime(_), .. } => "celRuntime",
        DeviceError::AllFromIncompletePool { .. } => "allFromIncompletePool",
        DeviceError::AllFromInvalidPool { .. } => "allFromInvalidPool",
        DeviceError::TooManyDevices { .. } => "tooManyDevices",
        DeviceError::AllAgainstConstraint { .. } => "allAgainstConstraint",
        DeviceError::UnknownConstraint { .. } => "constraintNotKnown",
        DeviceError::Capacity { .. } => "capacity",
        DeviceError::InvalidPools => "invalidPools",
        DeviceError::UnknownRequest { .. }
        | DeviceError::UnknownNodeSelector
        | DeviceError::SearchTooLarge => "other",
    }
}
