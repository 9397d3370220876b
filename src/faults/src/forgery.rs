//! Well-formed intents that nobody decided on, as somebody with write access to a status may store them.

use serde_json::{Value, json};

use headroom_simulator::store::{Kind, ObjectKey, Store, labels, text};

/// The phases of a removal.
const PHASES: [&str; 5] = ["Journalled", "Marked", "Draining", "Deleting", "Undoing"];
/// Reasons of removals that are carried out differently.
const REASONS: [&str; 4] = ["Underutilized", "Empty", "Unready", "NeverRegistered"];
/// Victims of forged removals.
const VICTIMS: [ForgedVictim; 5] = [
    ForgedVictim::Own,
    ForgedVictim::Ghost,
    ForgedVictim::Nameless,
    ForgedVictim::Swapped,
    ForgedVictim::Foreign,
];

/// A removal that nobody decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forgery {
    phase: &'static str,
    reason: &'static str,
    victim: ForgedVictim,
    /// Index of the node of the pool that it strikes, counted round.
    node: usize,
}

/// Victim of a forged removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgedVictim {
    /// A node of the pool, by its own id.
    Own,
    /// The id of a running machine under the name of a node that is not there.
    Ghost,
    /// The id of a running machine without a name, as of one that never became a node.
    Nameless,
    /// A node of the pool, by the id of another.
    Swapped,
    /// A node that is not the pool's.
    Foreign,
}

impl Forgery {
    /// Forgeries that differ in more than the node they strike.
    pub const COUNT: u64 = (PHASES.len() * REASONS.len() * VICTIMS.len()) as u64;

    /// The `index`th of all there are, counted round: so many in a row are each of them once.
    pub fn nth(index: u64, random: &mut fastrand::Rng) -> Self {
        let index = usize::try_from(index % Self::COUNT).unwrap_or(0);
        let (phase, rest) = (index % PHASES.len(), index / PHASES.len());
        let (victim, reason) = (rest % VICTIMS.len(), rest / VICTIMS.len());
        Self {
            phase: PHASES[phase],
            reason: REASONS[reason],
            victim: VICTIMS[victim],
            node: random.usize(0..64),
        }
    }

    /// The intent for a pool with this status; `None` where there is nothing to strike.
    pub fn intent(&self, store: &Store, pool: &str, status: &Value) -> Option<Value> {
        let nodes: Vec<(&ObjectKey, &Value)> =
            store.all(Kind::Node).map(|(key, node)| (key, &**node)).collect();
        let is_own =
            |node: &Value| label(node, "headroom.dev/pool").or_else(|| label(node, "pool")) == Some(pool);
        let (own, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|(_, node)| is_own(node));
        let nth = |list: &[(&ObjectKey, &Value)], index: usize| {
            let (key, node) = list.get(index % list.len().max(1))?;
            Some((key.name.to_string(), machine_id(node), zone(node).to_owned()))
        };
        let (name, id, zone) = nth(&own, self.node)?;
        let (name, id) = match self.victim {
            ForgedVictim::Own => (name, id),
            ForgedVictim::Ghost => ("ghost".to_owned(), id),
            ForgedVictim::Nameless => (String::new(), id),
            ForgedVictim::Swapped => (name, nth(&own, self.node + 1)?.1),
            ForgedVictim::Foreign => {
                let (name, id, _) = nth(&others, self.node)?;
                (name, id)
            }
        };
        Some(json!({
            "id": "1-9998", "epoch": 1, "action": "Remove", "phase": self.phase,
            "group": group_of(status, &zone)?, "instances": [{"node": name, "id": id}],
            "reason": self.reason, "startedAt": "1999-01-01T00:00:00Z", "phaseSince": "1999-01-01T00:00:00Z",
            "deadline": "2999-01-01T00:00:00Z",
        }))
    }
}

/// The id by which providers know the machine: its own, at the end of what AWS writes.
fn machine_id(node: &Value) -> String {
    let id = text(node, &["spec", "providerID"]).unwrap_or_default();
    let own = id.strip_prefix("aws://").and_then(|rest| rest.rsplit('/').next());
    own.unwrap_or(id).to_owned()
}

fn zone(node: &Value) -> &str {
    label(node, "topology.kubernetes.io/zone").unwrap_or_default()
}

fn label<'a>(node: &'a Value, key: &str) -> Option<&'a str> {
    labels(node).find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// The group of a zone, or else the first one.
fn group_of(status: &Value, zone: &str) -> Option<Value> {
    let groups = status.get("groups")?.as_array()?;
    let of_zone = groups.iter().find(|group| group["zone"].as_str() == Some(zone));
    Some(of_zone.or(groups.first())?["id"].clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn as_many_in_a_row_as_there_are_is_each_forgery_once() {
        let mut random = fastrand::Rng::with_seed(7);
        let drawn: BTreeSet<String> = (1_000..1_000 + Forgery::COUNT)
            .map(|index| Forgery { node: 0, ..Forgery::nth(index, &mut random) })
            .map(|forgery| format!("{forgery:?}"))
            .collect();
        assert_eq!(drawn.len(), 100);
    }
}
