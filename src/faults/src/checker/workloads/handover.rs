//! Ownership of workloads that change hands: policies that are not applied, and HPAs that the controller-manager runs
//! too. It knows none of the questions by which the operator finds out.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::super::Checker;
use super::super::terms::Knowledge;
use super::{WorkloadRecord, Workloads, Wrong};
use headroom_simulator::store::{Entry, Kind, ObjectKey, at, number, text, timestamp};

/// Period with which the controller-manager looks at each HPA. By its first look, a period after its start, it leaves a
/// trace of itself in the HPA's status, if the operator runs the HPA; from then on the operator has as long as for
/// hearing of an edit.
const LOOKS_EVERY: SignedDuration = SignedDuration::from_secs(15);

/// Effect of a policy's mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// It is decided and done.
    Apply,
    /// It is decided and reported: the policy conflicts with nobody, and whoever else wants the workload has it.
    Preview,
    /// Nothing is decided: the policy keeps the workload, and leaves it as it is.
    Suspend,
}

impl Mode {
    /// Of the spec of a policy.
    pub(super) fn of(spec: &Value) -> Mode {
        match text(spec, &["mode"]) {
            Some("Preview") => Mode::Preview,
            Some("Suspend") => Mode::Suspend,
            _ => Mode::Apply,
        }
    }
}

impl WorkloadRecord {
    /// The mode in which an HPA is run: that of its policy, a user's before the operator's own, then the oldest. The
    /// operator makes one where there is none.
    pub(super) fn mode_of_hpa(&self, name: &str) -> Mode {
        let policies = self.objects.iter().filter(|((kind, _), _)| *kind == Kind::ScalingPolicy);
        let homes = policies.filter_map(|((_, key), object)| {
            let spec = at(object, &["spec"])?;
            let own = object.pointer("/metadata/ownerReferences/0").is_some();
            let created = text(object, &["metadata", "creationTimestamp"]).unwrap_or_default();
            let adopts = text(spec, &["target", "hpa", "name"]) == Some(name);
            adopts.then(|| ((own, created.to_owned(), key.name.clone()), Mode::of(spec)))
        });
        homes.min_by(|(one, _), (other, _)| one.cmp(other)).map_or(Mode::Apply, |(_, mode)| mode)
    }

    /// The HPA that a policy adopts.
    pub(super) fn hpa_of(&self, policy: &ObjectKey) -> Option<ObjectKey> {
        let policy = self.objects.get(&(Kind::ScalingPolicy, policy.clone()))?;
        let name = text(policy, &["spec", "target", "hpa", "name"])?;
        Some(ObjectKey::new(&self.scaled.key.namespace, name))
    }

    /// I20: returns a violation if the controller-manager runs the HPA of this policy, since `others_since`, and the
    /// operator must know.
    ///
    /// It must where both the HPA and that controller had been there for a look at `since`, the oldest that the operator may
    /// believe: then the operator has never had a reason to take it for gone, however silent watches were. Whoever lays hands
    /// on a policy's status may say there that the HPA is the operator's: it believes that until the next look of the other.
    pub(super) fn run_by_others(
        &self,
        policy: &ObjectKey,
        others_since: Option<Timestamp>,
        since: Timestamp,
    ) -> Option<Wrong> {
        let began_at = others_since?;
        let hpa = self.hpa_of(policy)?;
        let object = self.objects.get(&(Kind::HorizontalPodAutoscaler, hpa.clone()))?;
        let made_at = timestamp(object, &["metadata", "creationTimestamp"])?;
        let there = [Some(began_at), Some(made_at), self.struck_at];
        let noticed = there.into_iter().flatten().max()?.saturating_add(LOOKS_EVERY).ok()?;
        let message =
            || format!("by policy {policy}, and the controller-manager runs HPA {hpa} since {began_at}");
        (noticed < since).then(|| ("I20", message()))
    }

    /// True if it is an HPA's now.
    pub(super) fn is_of_hpa(&self) -> bool {
        let owner = self.owners.last().and_then(|(_, owner)| owner.as_ref());
        owner.is_some_and(|owner| owner.kind == Kind::HorizontalPodAutoscaler)
    }

    /// The size was changed, by the operator or by somebody else: the result of a change that was not reported then is
    /// known to nobody for certain.
    pub(super) fn note_size(&mut self, entry: &Entry) {
        let size = |object: &Value| number(object, &["spec", "replicas"]);
        let before = entry.before.as_deref().and_then(size);
        if entry.key != self.scaled.key || before == size(&entry.object) {
            return;
        }
        let own = |(version, _): &(u64, i64)| entry.revision <= *version;
        if self.written.as_ref().is_some_and(own) {
            return;
        }
        self.written = None;
        let last = self.changes.values_mut().filter_map(|changes| changes.last_mut());
        for change in last.filter(|one| one.known == Knowledge::BySize) {
            if Some(change.from) == size(&entry.object) {
                change.known = Knowledge::Undone;
            }
        }
    }

    /// A policy's newest decision is stored: if it says that it is done, the operator knows of the change.
    pub(super) fn note_answered(&mut self, policy: &ObjectKey, decision: &Value) {
        let Some(change) = self.changes.get_mut(policy).and_then(|changes| changes.last_mut()) else {
            return;
        };
        let sizes = (number(decision, &["from"]), number(decision, &["to"]));
        if text(decision, &["outcome"]) == Some("Done") && sizes == (Some(change.from), Some(change.to)) {
            change.known = Knowledge::Answered;
        }
    }
}

impl Checker {
    /// A size was changed by anybody.
    pub(in crate::checker) fn note_size(&mut self, entry: &Entry) {
        if let Some(record) = self.workloads.all.get_mut(&*entry.key.namespace) {
            record.note_size(entry);
        }
    }
}

impl Workloads {
    /// True if this is a Deployment whose size is checked.
    pub(in crate::checker) fn checks(&self, key: &ObjectKey) -> bool {
        self.all.get(&*key.namespace).is_some_and(|record| record.scaled.key == *key)
    }

    /// Time since which the controller-manager has been running HPAs, if it does at `now`.
    pub(super) fn run_by_others_since(&self, now: Timestamp) -> Option<Timestamp> {
        let running = |(from, until): &&(Timestamp, Option<Timestamp>)| {
            *from <= now && until.is_none_or(|until| now < until)
        };
        self.others.iter().find(running).map(|(from, _)| *from)
    }
}
