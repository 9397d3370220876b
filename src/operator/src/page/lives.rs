//! The nodes of a page one by one: when each was asked for, joined, was ready, left, and how many pods it had. It decides nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::{Decision, NodeLife};

/// Nodes that stood when the record began are kept up to this number, first by name.
const STOOD_MAX: usize = 100;
/// Nodes that came since are kept up to this number; beyond it those go first that have gone first.
const CAME_MAX: usize = 300;
/// Changes of the number of pods that are kept of a node.
const PODS_MAX: usize = 120;
/// A node that comes later than this many seconds after a decision is not its.
const ASKED_AGE_MAX: i64 = 3_600;

/// A node as it is now.
#[derive(Clone, Copy, Debug)]
pub struct NodeNow<'a> {
    /// Its name.
    pub name: &'a Arc<str>,
    /// Its pool, if it has one.
    pub pool: Option<&'a str>,
    /// Its group, if it has one.
    pub group: Option<&'a str>,
    /// True if it takes pods.
    pub ready: bool,
    /// True if it is on its way out.
    pub leaving: bool,
}

/// Record of the nodes so far.
#[derive(Clone, Debug, Default)]
pub struct NodeLives {
    stood: BTreeMap<Arc<str>, Life>,
    came: BTreeMap<Arc<str>, Life>,
    /// Names of gone nodes in the order in which they went.
    gone: VecDeque<Arc<str>>,
    /// Nodes that are there and not kept.
    ignored: BTreeSet<Arc<str>>,
    /// Number of nodes that were not kept, or not to the end.
    omitted: u64,
}

#[derive(Clone, Debug)]
struct Life {
    life: NodeLife,
    group: Option<String>,
}

impl NodeLives {
    /// Takes in a node as it is at this second; `stood` is true if it was there before the record began.
    pub fn see(&mut self, node: NodeNow<'_>, second: i64, stood: bool) {
        if let Some(known) = self.known(node.name) {
            known.see(node, second);
            return;
        }
        if self.ignored.contains(node.name) {
            return;
        }
        let (lives, most) = if stood { (&mut self.stood, STOOD_MAX) } else { (&mut self.came, CAME_MAX) };
        if most <= lives.len() {
            self.omitted += 1;
            // One that came again under its name is not gone.
            let is_gone = |name: &Arc<str>| lives.get(name).is_some_and(|life| life.life.gone.is_some());
            while self.gone.front().is_some_and(|name| !is_gone(name)) {
                self.gone.pop_front();
            }
            let oldest = if stood { None } else { self.gone.pop_front() };
            let Some(oldest) = oldest else {
                self.ignored.insert(node.name.clone());
                return;
            };
            lives.remove(&oldest);
        }
        let life = NodeLife {
            name: node.name.to_string(),
            pool: node.pool.map(str::to_owned),
            joined: (!stood).then_some(second),
            ..NodeLife::default()
        };
        let mut life = Life { life, group: node.group.map(str::to_owned) };
        life.see(node, second);
        lives.insert(node.name.clone(), life);
    }

    /// Notes that a node is gone.
    pub fn went(&mut self, name: &str, second: i64) {
        self.ignored.remove(name);
        let came = self.came.get_key_value(name).map(|(name, _)| name.clone());
        let Some(life) = self.known(name) else { return };
        life.life.gone = Some(second);
        self.gone.extend(came);
    }

    /// Notes how many pods a node has.
    pub fn pods(&mut self, name: &str, count: i64, second: i64) {
        let Some(life) = self.known(name) else { return };
        let pods = &mut life.life.pods;
        if pods.last().map_or(0, |(_, last)| *last) != count && pods.len() < PODS_MAX {
            pods.push((second, count));
        }
    }

    /// Names of all nodes that were seen and have not gone.
    pub fn present(&self) -> impl Iterator<Item = &Arc<str>> {
        let kept = self.stood.iter().chain(&self.came);
        let kept = kept.filter(|(_, life)| life.life.gone.is_none()).map(|(name, _)| name);
        kept.chain(&self.ignored)
    }

    fn known(&mut self, name: &str) -> Option<&mut Life> {
        match self.came.get_mut(name) {
            Some(life) if life.life.gone.is_none() => Some(life),
            _ => self.stood.get_mut(name).filter(|life| life.life.gone.is_none()),
        }
    }

    /// The nodes in the order in which they came, and the number of those that are left out. A node is taken to be the first that a
    /// decision on its group has not got yet.
    #[must_use]
    pub fn list(&self, decisions: &[Decision]) -> (Vec<NodeLife>, u64) {
        let mut lives: Vec<Life> = self.stood.values().chain(self.came.values()).cloned().collect();
        lives.sort_by(|a, b| (a.life.joined, &a.life.name).cmp(&(b.life.joined, &b.life.name)));
        // With nodes left out it is not known which of a decision's nodes are here.
        if self.omitted == 0 {
            let mut asked = asked(decisions);
            for life in &mut lives {
                life.life.asked = life.asked(&mut asked);
            }
        }
        (lives.into_iter().map(|life| life.life).collect(), self.omitted)
    }
}

impl Life {
    fn see(&mut self, node: NodeNow<'_>, second: i64) {
        let life = &mut self.life;
        if node.ready && life.ready.is_none() {
            life.ready = Some(life.joined.map_or(0, |_| second));
        }
        life.leaving = match (node.leaving, life.leaving) {
            (true, None) => Some(second),
            (true, since) => since,
            // A removal may be undone.
            (false, _) => None,
        };
    }

    fn asked(&self, asked: &mut BTreeMap<(String, String), VecDeque<i64>>) -> Option<i64> {
        let joined = self.life.joined?;
        let key = (self.life.pool.clone()?, self.group.clone()?);
        let times = asked.get_mut(&key)?;
        while times.front().is_some_and(|at| *at + ASKED_AGE_MAX < joined) {
            times.pop_front();
        }
        times.pop_front_if(|at| *at <= joined)
    }
}

/// The time of the decision of each node that was asked for, by pool and group, oldest first.
fn asked(decisions: &[Decision]) -> BTreeMap<(String, String), VecDeque<i64>> {
    let mut asked: BTreeMap<(String, String), VecDeque<i64>> = BTreeMap::new();
    for decision in decisions.iter().filter(|decision| decision.action == "ScaleUp") {
        if let (Some(group), Some(from), Some(to)) = (&decision.group, decision.from, decision.to) {
            let times = asked.entry((decision.pool.clone(), group.clone())).or_default();
            times.extend((from..to).map(|_| decision.second));
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(lives: &mut NodeLives, name: &str, state: (bool, bool), second: i64, stood: bool) {
        let (ready, leaving) = state;
        let name = &name.into();
        lives.see(NodeNow { name, pool: Some("web"), group: Some("a"), ready, leaving }, second, stood);
    }

    fn up(second: i64, from: i32, to: i32) -> Decision {
        let text = str::to_owned;
        Decision {
            id: second.to_string(),
            second,
            pool: text("web"),
            action: text("ScaleUp"),
            group: Some(text("a")),
            from: Some(from),
            to: Some(to),
            reason: String::new(),
            message: None,
            outcome: None,
            pods_count: None,
            pods: Vec::new(),
            cause: None,
            considered: Vec::new(),
        }
    }

    #[test]
    fn a_node_has_the_times_of_its_life_and_those_that_stood_have_no_beginning() {
        let mut lives = NodeLives::default();
        see(&mut lives, "old", (true, false), 0, true);
        see(&mut lives, "new", (false, false), 40, false);
        see(&mut lives, "new", (true, false), 45, false);
        lives.pods("new", 3, 50);
        lives.pods("new", 3, 55);
        see(&mut lives, "new", (true, true), 60, false);
        see(&mut lives, "new", (true, false), 65, false);
        see(&mut lives, "new", (true, true), 70, false);
        lives.went("new", 80);
        let (list, omitted) = lives.list(&[up(10, 1, 2)]);
        let life = |asked, joined, ready, leaving, gone| (asked, joined, ready, leaving, gone);
        let found: Vec<_> =
            list.iter().map(|l| life(l.asked, l.joined, l.ready, l.leaving, l.gone)).collect();
        assert_eq!(found[0], life(None, None, Some(0), None, None));
        assert_eq!(found[1], life(Some(10), Some(40), Some(45), Some(70), Some(80)));
        assert_eq!((&list[1].pods[..], omitted), (&[(50, 3)][..], 0));
    }

    #[test]
    fn nodes_belong_to_decisions_in_their_order_and_not_to_old_ones() {
        let mut lives = NodeLives::default();
        for (name, joined) in [("b", 30), ("a", 31), ("c", 50), ("d", 9_000)] {
            see(&mut lives, name, (true, false), joined, false);
        }
        let (list, _) = lives.list(&[up(10, 0, 2), up(40, 2, 5)]);
        let asked: Vec<_> = list.iter().map(|life| (life.name.as_str(), life.asked)).collect();
        assert_eq!(asked, [("b", Some(10)), ("a", Some(10)), ("c", Some(40)), ("d", None)]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_newest_of_those_that_came() {
        let mut lives = NodeLives::default();
        for index in 0..1_000 {
            let name = format!("s{index:04}");
            see(&mut lives, &name, (true, false), 0, true);
            // Seen again later it is none that has come.
            see(&mut lives, &name, (true, false), 1, false);
        }
        for index in 0..1_000 {
            let name = format!("c{index:04}");
            see(&mut lives, &name, (true, false), index, false);
            lives.went(&name, index);
        }
        let (list, omitted) = lives.list(&[]);
        assert_eq!((list.len(), omitted), (STOOD_MAX + CAME_MAX, 900 + 700));
        assert_eq!(list.last().map(|life| life.name.as_str()), Some("c0999"));
    }
}
