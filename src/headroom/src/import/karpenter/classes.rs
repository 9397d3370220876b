//! Classes of machines of Karpenter: an EC2NodeClass as groups of AWS, which the operator makes where its subnets are known and else a
//! person, and a KWOKNodeClass as zones of KWOK.

use serde_json::{Value, json};

use super::requirements::Markets;
use super::{given, managed, requirements, text};
use crate::import::durations::{go_seconds, written};
use crate::import::input::Source;
use crate::import::output::Draft;
use crate::import::tables::karpenter::{EC2_NODE_CLASS, KWOK_NODE_CLASS};

/// A class that is known, by kind and group.
const EC2: (&str, &str) = ("EC2NodeClass", "karpenter.k8s.aws");
const KWOK: (&str, &str) = ("KWOKNodeClass", "karpenter.kwok.sh");

/// Zone of a KWOK pool that names none.
const KWOK_ZONE: &str = "test-zone-a";
/// Machine of a KWOK pool that names none: a guess, which is said.
const KWOK_MACHINE: (&str, &str) = ("4", "16Gi");

/// The class that a NodePool names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class<'a> {
    /// `nodeClassRef`.
    named: &'a Value,
    /// The object, where it was given.
    found: Option<&'a Source>,
}

/// True if it is a class of machines that is read.
pub(super) fn is_class(source: &Source) -> bool {
    [EC2, KWOK].contains(&(source.kind(), source.group()))
}

impl<'a> Class<'a> {
    /// The class of a pool.
    pub(super) fn of(pool: &'a Source, sources: &'a [Source]) -> Self {
        let named = &pool.object["spec"]["template"]["spec"]["nodeClassRef"];
        let is_it = |source: &&Source| {
            is_class(source)
                && source.object["metadata"]["name"] == named["name"]
                && source.kind() == named["kind"]
                && source.group() == named["group"]
        };
        Self { named, found: sources.iter().find(is_it) }
    }

    /// True if its machines are Node objects only.
    pub(super) fn is_kwok(&self) -> bool {
        self.named["kind"] == KWOK.0 && self.named["group"] == KWOK.1
    }

    /// The provider of the pool, and what it makes machines of.
    pub(super) fn machines(&self, draft: &mut Draft, pool: &Source, markets: &Markets, market: &str) {
        match self.managed() {
            _ if self.is_kwok() => self.kwok(draft, pool),
            Some((class, subnets)) => managed::convert(draft, class, subnets, pool, markets),
            None => groups(draft, pool, market),
        }
    }

    /// True if the operator makes the groups of its pools.
    pub(super) fn is_managed(&self) -> bool {
        self.managed().is_some()
    }

    fn managed(&self) -> Option<(&'a Source, Vec<Value>)> {
        let class = self.found.filter(|_| !self.is_kwok())?;
        Some((class, managed::subnets(class)?))
    }

    /// Comments on the class.
    pub(super) fn say(&self, draft: &mut Draft) {
        let kind = text(&self.named["kind"]);
        match self.found {
            Some(class) => {
                let table = if self.is_kwok() { KWOK_NODE_CLASS } else { EC2_NODE_CLASS };
                table.say(draft, &format!("{} ", class.title()), &class.object["spec"]);
                if !self.is_kwok() && !self.is_managed() {
                    draft.say(format!(
                        "{} subnetSelectorTerms {}: no counterpart: VPCZoneIdentifier of the Auto Scaling group, by id: one subnet, and so \
                         one zone, a group.",
                        class.title(),
                        class.object["spec"]["subnetSelectorTerms"]
                    ));
                }
            }
            None if self.is_kwok() => {
                draft.say(format!("{} {}: not given: nodes join after 1s.", KWOK.0, self.name()));
            }
            None if self.named.is_null() || (kind == EC2.0 && self.named["group"] == EC2.1) => draft.say(format!(
                "{} {}: not given. Its image, subnets, security groups and user data belong into the group's launch template.",
                EC2.0,
                self.name()
            )),
            None => {
                draft.say(format!(
                    "nodeClassRef {}: no counterpart: classes of machines are {} of {} and {} of {}. The pool is printed as one of AWS: \
                     set spec.provider to the groups that launch its machines.",
                    self.named, EC2.0, EC2.1, KWOK.0, KWOK.1
                ));
                draft.only_preview("its class of machines is not known, see above");
            }
        }
    }

    fn name(&self) -> &str {
        self.named["name"].as_str().unwrap_or("without a name")
    }

    /// A pool of Node objects that KWOK brings to life.
    fn kwok(&self, draft: &mut Draft, pool: &Source) {
        draft.set("provider.type", "KWOK", &format!("nodeClassRef {}", KWOK.0));
        let zones = requirements::zones(draft, pool);
        match zones.is_empty() {
            true => {
                draft.push("provider.kwok.zones", KWOK_ZONE, "it names no zone: name those that you want")
            }
            false => zones.iter().for_each(|zone| draft.push("provider.kwok.zones", zone.as_str(), "")),
        }
        if let Some(delay) =
            self.found.and_then(|class| given(&class.object["spec"]["nodeRegistrationDelay"]))
        {
            match go_seconds(&delay) {
                Some(seconds) => draft.set(
                    "provider.kwok.simulation.joinDelay",
                    written(seconds),
                    &format!("nodeRegistrationDelay {delay}"),
                ),
                None => draft.say(format!(
                    "nodeRegistrationDelay {delay}: cannot be read. Nothing was made of it: write a duration such as 30s."
                )),
            }
        }
        let of = |what: &str| requirements::only_value(pool, &format!("{}/instance-{what}", KWOK.1));
        let (cpu, memory) = (of("cpu"), of("memory"));
        if cpu.is_none() || memory.is_none() {
            draft.say(format!(
                "template.capacity: Karpenter chooses among its instance types; here a pool has one machine, of {} CPUs and {} for want of \
                 a requirement of one value: set the one that you mean, and make a pool for each other one.",
                KWOK_MACHINE.0, KWOK_MACHINE.1
            ));
            draft.only_preview("the capacity of its machine is a guess, see above");
        }
        draft.set("template.capacity.cpu", cpu.as_deref().unwrap_or(KWOK_MACHINE.0), "");
        draft.set("template.capacity.memory", memory.as_deref().unwrap_or(KWOK_MACHINE.1), "");
    }
}

/// The groups that a person has to make: one a zone.
fn groups(draft: &mut Draft, pool: &Source, market: &str) {
    let name = draft.name().to_owned();
    draft.set("provider.type", "AWS", "");
    let zones = requirements::zones(draft, pool);
    let market_words = if market == "spot" { "spot instances only" } else { "on-demand instances only" };
    if zones.is_empty() {
        draft.push(
            "provider.aws.nodeGroups",
            json!({ "name": name }),
            "make this Auto Scaling group; better one a zone",
        );
    }
    for zone in &zones {
        let note = format!("make this Auto Scaling group in {zone}");
        draft.push("provider.aws.nodeGroups", json!({"name": format!("{name}-{zone}")}), &note);
    }
    draft.say(format!(
        "Karpenter launches machines itself; here they come from Auto Scaling groups, which you make: MinSize 0, {market_words}, \
         with a launch template whose user data joins the cluster."
    ));
}
