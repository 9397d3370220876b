//! Conditions on machines, and the order in which machines that meet them are considered. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_provider::aws::{Managed, Operator, Requirement, RequirementKey};

use super::calls::InstanceType;

/// Word of a market in requirements.
pub(crate) const SPOT: &str = "spot";
/// Likewise.
pub(crate) const ON_DEMAND: &str = "on-demand";

/// Parts of a type's name: of `m7g.2xlarge` the category `m`, generation 7, family `m7g` and size `2xlarge`.
struct Parts<'n> {
    category: &'n str,
    generation: Option<u32>,
    family: &'n str,
    size: &'n str,
}

/// Source: karpenter-provider-aws, which reads category and generation from the beginning of the name. Names such as
/// `u-6tb1.metal` have their size in between.
fn parts(name: &str) -> Parts<'_> {
    let (family, size) = name.split_once('.').unwrap_or((name, ""));
    let letters = family.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(family.len());
    let (category, rest) = family.split_at(letters);
    let rest = match rest.strip_prefix('-').and_then(|rest| rest.split_once("tb")) {
        Some((_, rest)) => rest,
        None => rest,
    };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Parts { category, generation: rest[..digits].parse().ok(), family, size }
}

/// True if the value of a property, `None` where the machine has none, meets the condition.
fn holds(requirement: &Requirement, value: Option<&str>) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let named = || value.is_some_and(|value| requirement.values.iter().any(|other| other == value));
    let bound = || value.and_then(number).zip(requirement.values.first().and_then(|text| number(text)));
    match requirement.operator {
        Operator::In => named(),
        Operator::NotIn => !named(),
        Operator::Gt => bound().is_some_and(|(value, bound)| bound < value),
        Operator::Lt => bound().is_some_and(|(value, bound)| value < bound),
    }
}

/// True if the machine meets the conditions on its type, and is not of a kind that has to be asked for by name.
#[must_use]
pub(crate) fn meets(machine: &InstanceType, requirements: &[Requirement]) -> bool {
    let parts = parts(&machine.name);
    let property = |key: RequirementKey| -> Option<String> {
        Some(match key {
            RequirementKey::Cpu => machine.cpus.to_string(),
            RequirementKey::Memory => machine.memory_mib.to_string(),
            RequirementKey::Gpus => machine.gpus.to_string(),
            RequirementKey::Category => parts.category.to_owned(),
            RequirementKey::Generation => parts.generation?.to_string(),
            RequirementKey::Family => parts.family.to_owned(),
            RequirementKey::Size => parts.size.to_owned(),
            RequirementKey::InstanceType => machine.name.to_string(),
            RequirementKey::Architecture => if machine.arm64 { "arm64" } else { "amd64" }.to_owned(),
            RequirementKey::Market | RequirementKey::Zone => return None,
        })
    };
    let of_type = |one: &&Requirement| !matches!(one.key, RequirementKey::Market | RequirementKey::Zone);
    let named = |keys: &[RequirementKey]| {
        requirements.iter().any(|one| keys.contains(&one.key) && one.operator == Operator::In)
    };
    let wants_gpus = requirements.iter().any(|one| one.key == RequirementKey::Gpus);
    let by_name = named(&[RequirementKey::InstanceType]);
    let by_family = by_name || named(&[RequirementKey::Family]);
    let architecture = requirements.iter().any(|one| one.key == RequirementKey::Architecture);
    requirements.iter().filter(of_type).all(|one| holds(one, property(one.key).as_deref()))
        && (architecture || !machine.arm64)
        && (!machine.bare_metal || by_name)
        && (!machine.accelerated || by_family || wants_gpus)
        && (!machine.previous_generation || by_family)
}

/// True if machines may be in this zone.
#[must_use]
pub(crate) fn zone_may_be(zone: &str, requirements: &[Requirement]) -> bool {
    requirements.iter().filter(|one| one.key == RequirementKey::Zone).all(|one| holds(one, Some(zone)))
}

/// The markets in which the machine may be bought, spot first; true stands for spot.
#[must_use]
pub(crate) fn markets(machine: &InstanceType, requirements: &[Requirement]) -> Vec<bool> {
    let of_market = || requirements.iter().filter(|one| one.key == RequirementKey::Market);
    let asked = |word: &str| of_market().all(|one| holds(one, Some(word)));
    let mut markets = Vec::new();
    // Spot is bought only where it is asked for.
    if 0 < of_market().count() && asked(SPOT) && machine.spot {
        markets.push(true);
    }
    if asked(ON_DEMAND) {
        markets.push(false);
    }
    markets
}

/// Patterns of names that all machines that meet the conditions have; empty for any.
#[must_use]
pub(crate) fn patterns(managed: &Managed) -> Vec<Arc<str>> {
    let named = |key: RequirementKey| {
        managed.requirements.iter().find(|one| one.key == key && one.operator == Operator::In)
    };
    let (requirement, end) = match () {
        () if let Some(types) = named(RequirementKey::InstanceType) => (types, ""),
        () if let Some(families) = named(RequirementKey::Family) => (families, ".*"),
        () if let Some(categories) = named(RequirementKey::Category) => (categories, "*"),
        () => return Vec::new(),
    };
    requirement.values.iter().map(|value| format!("{value}{end}").into()).collect()
}

/// Machines in the order in which they are considered: of each size the cheapest first, where no price is known the newest
/// generation, then of each size the next one, and so on; small sizes before large ones. So a bound on their number leaves
/// each size a type.
#[must_use]
pub(crate) fn in_order(
    machines: Vec<InstanceType>,
    price: impl Fn(&InstanceType) -> Option<i64>,
) -> Vec<InstanceType> {
    let mut sizes: BTreeMap<(u32, u64, u32), Vec<InstanceType>> = BTreeMap::new();
    for machine in machines {
        sizes.entry((machine.cpus, machine.memory_mib, machine.gpus)).or_default().push(machine);
    }
    let mut layers: Vec<(usize, InstanceType)> = Vec::new();
    for (_, mut alike) in sizes {
        alike.sort_by_cached_key(|one| (price(one).is_none(), price(one), preference(one)));
        layers.extend(alike.into_iter().enumerate());
    }
    // Stable: within a layer the sizes stay in order.
    layers.sort_by_key(|(layer, _)| *layer);
    layers.into_iter().map(|(_, machine)| machine).collect()
}

/// Order of machines of one size and price: newer generations first, then plain families before special ones.
fn preference(machine: &InstanceType) -> (Reverse<u32>, usize, Arc<str>) {
    let Parts { generation, family, .. } = parts(&machine.name);
    (Reverse(generation.unwrap_or(0)), family.len(), machine.name.clone())
}

/// Key by which groups are ranked: small machines first, spot before on demand, then newer generations. Prices
/// have no part in it: they move.
pub(crate) fn rank_key(machine: &InstanceType, spot: bool) -> impl Ord + use<> {
    (machine.cpus, machine.memory_mib, machine.gpus, !spot, preference(machine))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, cpus: u32, gib: u64) -> InstanceType {
        InstanceType {
            name: name.into(),
            cpus,
            memory_mib: gib * 1024,
            spot: true,
            ..InstanceType::default()
        }
    }

    fn rule(key: RequirementKey, operator: Operator, values: &[&str]) -> Requirement {
        Requirement { key, operator, values: values.iter().map(|value| (*value).to_owned()).collect() }
    }

    #[test]
    fn names_are_taken_apart_as_karpenter_does() {
        let of = |name| {
            let Parts { category, generation, family, size } = parts(name);
            (category, generation, family, size)
        };
        assert_eq!(of("m7g.2xlarge"), ("m", Some(7), "m7g", "2xlarge"));
        assert_eq!(of("u-6tb1.112xlarge"), ("u", Some(1), "u-6tb1", "112xlarge"));
        assert_eq!(of("inf2.xlarge"), ("inf", Some(2), "inf2", "xlarge"));
        assert_eq!(of("c7gn.metal-24xl"), ("c", Some(7), "c7gn", "metal-24xl"));
    }

    #[test]
    fn each_property_and_relation_counts() {
        use Operator::{Gt, In, Lt, NotIn};
        use RequirementKey::{Category, Cpu, Family, Generation, InstanceType, Memory, Size};
        let large = machine("m7i.2xlarge", 8, 32);
        let meets = |key, operator, values: &[&str]| super::meets(&large, &[rule(key, operator, values)]);
        assert!(meets(Cpu, In, &["4", "8"]) && !meets(Cpu, NotIn, &["8"]));
        assert!(meets(Cpu, Gt, &["4"]) && !meets(Cpu, Gt, &["8"]) && meets(Cpu, Lt, &["9"]));
        assert!(meets(Memory, Lt, &["40000"]) && !meets(Memory, Lt, &["32768"]));
        assert!(meets(Generation, Gt, &["6"]) && meets(Category, In, &["c", "m"]));
        assert!(meets(Family, In, &["m7i"]) && !meets(Family, In, &["m7"]));
        assert!(meets(Size, NotIn, &["metal"]) && meets(InstanceType, In, &["m7i.2xlarge"]));
    }

    #[test]
    fn what_a_plain_pool_does_not_want_is_left_out_unless_it_is_named() {
        use Operator::In;
        let gpu = InstanceType { gpus: 1, accelerated: true, ..machine("g5.xlarge", 4, 16) };
        let metal = InstanceType { bare_metal: true, ..machine("m5.metal", 96, 384) };
        let old = InstanceType { previous_generation: true, ..machine("m3.large", 2, 7) };
        let arm = InstanceType { arm64: true, ..machine("m7g.large", 2, 8) };
        for machine in [&gpu, &metal, &old, &arm] {
            assert!(!meets(machine, &[]), "{}", machine.name);
        }
        let name = |name: &str| [rule(RequirementKey::InstanceType, In, &[name])];
        assert!(meets(&gpu, &name("g5.xlarge")) && meets(&metal, &name("m5.metal")));
        assert!(meets(&old, &[rule(RequirementKey::Family, In, &["m3"])]));
        assert!(meets(&gpu, &[rule(RequirementKey::Gpus, Operator::Gt, &["0"])]));
        assert!(meets(&arm, &[rule(RequirementKey::Architecture, In, &["arm64"])]));
    }

    #[test]
    fn spot_is_bought_only_where_it_is_asked_for() {
        let machine = machine("m7i.large", 2, 8);
        let market = |values: &[&str]| [rule(RequirementKey::Market, Operator::In, values)];
        assert_eq!(markets(&machine, &[]), [false]);
        assert_eq!(markets(&machine, &market(&["on-demand", "spot"])), [true, false]);
        assert_eq!(markets(&machine, &market(&["spot"])), [true]);
        let never = InstanceType { spot: false, ..machine };
        assert!(markets(&never, &market(&["spot"])).is_empty());
    }

    #[test]
    fn each_size_comes_once_before_one_comes_twice() {
        let all = vec![
            machine("m5.large", 2, 8),
            machine("m7i.xlarge", 4, 16),
            machine("m7i.large", 2, 8),
            machine("m7i-flex.large", 2, 8),
            machine("c7i.xlarge", 4, 8),
        ];
        let order: Vec<_> =
            in_order(all.clone(), |_| None).into_iter().map(|machine| machine.name.to_string()).collect();
        assert_eq!(order, ["m7i.large", "c7i.xlarge", "m7i.xlarge", "m7i-flex.large", "m5.large"]);
        let price = |machine: &InstanceType| machine.name.starts_with("m5").then_some(1);
        assert_eq!(&*in_order(all, price)[0].name, "m5.large", "the one whose price is known comes first");
    }
}
