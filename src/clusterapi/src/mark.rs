//! The mark on a Machine that is to leave: Cluster API reads its key, and its value is what a later process knows of it.

use headroom_core::time::UnixTime;

/// Annotation on a Machine that Cluster API copies to its Node, which proves that its controllers have seen the mark.
pub(crate) const ACKNOWLEDGED: &str = "node.cluster.x-k8s.io/headroom-mark";
/// Age from which no write of the mark's step can take effect any more: a step's deadline and the longest request of an
/// API server.
pub(crate) const FENCE_SECONDS: i64 = 70;
/// Longest time from a mark to the lowering.
pub(crate) const STEP_SECONDS: i64 = 10;
const PREFIX: &str = "headroom/";

/// A mark of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The pool.
    pub pool: String,
    /// The intent's id.
    pub intent: String,
    /// The group's generation when it was marked.
    pub generation: i64,
    /// The group's size when it was marked.
    pub replicas: u32,
    /// Machines that were marked together.
    pub count: u32,
    /// Time at which it was marked.
    pub at: UnixTime,
}

impl Mark {
    /// The value of the annotation.
    #[must_use]
    pub(crate) fn written(&self) -> String {
        let Self { pool, intent, generation, replicas, count, at } = self;
        format!(
            "{PREFIX}{pool}/{intent} generation={generation} replicas={replicas} count={count} at={}",
            at.0
        )
    }

    /// The mark that a value is; `None` for a mark of somebody else.
    #[must_use]
    pub(crate) fn parse(value: &str) -> Option<Self> {
        let mut words = value.strip_prefix(PREFIX)?.split(' ');
        let (pool, intent) = words.next()?.split_once('/')?;
        let fields: Vec<(&str, &str)> = words.filter_map(|word| word.split_once('=')).collect();
        let field = |name| fields.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        Some(Self {
            pool: pool.to_owned(),
            intent: intent.to_owned(),
            generation: field("generation")?.parse().ok()?,
            replicas: field("replicas")?.parse().ok()?,
            count: field("count")?.parse().ok()?,
            at: UnixTime(field("at")?.parse().ok()?),
        })
    }

    /// True if the group's size was written since, by the mark's step or by somebody else.
    #[must_use]
    pub(crate) fn has_moved(&self, generation: i64) -> bool {
        self.generation != generation
    }

    /// True if no write of the mark's step can take effect any more.
    #[must_use]
    pub(crate) fn is_old(&self, now: UnixTime) -> bool {
        FENCE_SECONDS <= now.since(self.at).0
    }
}

/// True if a value has our form, readable or not.
#[must_use]
pub(crate) fn is_ours(value: &str) -> bool {
    value.starts_with(PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back_and_others_marks_are_not_ours() {
        let mark = Mark {
            pool: "general".to_owned(),
            intent: "3-17".to_owned(),
            generation: 9,
            replicas: 5,
            count: 2,
            at: UnixTime(1_000),
        };
        assert_eq!(Mark::parse(&mark.written()), Some(mark.clone()));
        for other in
            ["", "yes", "2026-11-24", "headroom/", "headroom/a/b generation=x replicas=1 count=1 at=1"]
        {
            assert_eq!(Mark::parse(other), None, "{other}");
        }
        assert!(!mark.is_old(UnixTime(1_069)) && mark.is_old(UnixTime(1_070)));
        assert!(mark.has_moved(10) && !mark.has_moved(9));
    }
}
