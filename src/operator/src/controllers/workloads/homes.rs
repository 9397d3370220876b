//! The policies that the operator keeps for HPAs without one: their names, and which of them are to be made, renamed, given
//! away or deleted. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::labels::ObjectKey;
use headroom_core::time::UnixTime;
use kube::Resource;
use serde_json::{Value, json};

use headroom_api::{
    GROUP, HpaName, MANAGED_BY, PolicyObject, ScalingPolicySpec, StoredScalingPolicy, VERSION,
};
use headroom_api::{Target, TargetType};
use headroom_observe::HpaObject;

pub(super) type Policy = PolicyObject<ScalingPolicySpec>;
pub(super) type Policies = BTreeMap<ObjectKey, Arc<Policy>>;
pub(super) type Hpas = BTreeMap<ObjectKey, Arc<HpaObject>>;

/// Longest name of an object.
const NAME_MAX: usize = 253;
/// Characters of the HPA's unique id in the name of its policy.
const ID_LENGTH: usize = 8;

/// The policy of each HPA, and what is to be done about the operator's own policies.
#[derive(Clone, Debug, Default)]
pub struct Homes {
    /// The policy that holds the memory of each HPA: a user's before the operator's own, then the oldest.
    pub of_hpa: BTreeMap<ObjectKey, ObjectKey>,
    /// HPAs without a policy.
    pub homeless: Vec<Arc<HpaObject>>,
    /// The operator's own policies that a user's has replaced.
    pub retired: Vec<Arc<Policy>>,
    /// The operator's own policies under a name of an earlier version, with their HPA.
    pub renamed: Vec<(Arc<HpaObject>, Arc<Policy>)>,
    /// Policies that the operator made and a user has edited since: from now on the user's.
    pub released: Vec<Arc<Policy>>,
    /// Policies that nothing is decided by: the retired ones, and unfinished copies of renamed ones.
    pub idle: BTreeSet<ObjectKey>,
}

impl Homes {
    /// True if there is nothing to make, rename, give away or delete.
    #[must_use]
    pub fn are_in_order(&self) -> bool {
        self.homeless.is_empty()
            && self.retired.is_empty()
            && self.renamed.is_empty()
            && self.released.is_empty()
    }

    /// What is to be done in some namespaces.
    #[must_use]
    pub(super) fn only(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let of_policies = |policies: &[Arc<Policy>]| {
            policies.iter().filter(|policy| wanted(&policy.namespace)).cloned().collect()
        };
        Self {
            homeless: self.homeless.iter().filter(|hpa| wanted(&hpa.key.namespace)).cloned().collect(),
            retired: of_policies(&self.retired),
            renamed: self.renamed.iter().filter(|(hpa, _)| wanted(&hpa.key.namespace)).cloned().collect(),
            released: of_policies(&self.released),
            ..Self::default()
        }
    }

    /// Compares policies and HPAs.
    #[must_use]
    pub fn find(policies: &Policies, hpas: &Hpas) -> Self {
        let mut homes = Self::default();
        let by_uid: BTreeMap<(&str, &str), &Arc<HpaObject>> =
            hpas.values().map(|hpa| ((&*hpa.key.namespace, &*hpa.uid), hpa)).collect();
        let mut candidates: BTreeMap<ObjectKey, Vec<(bool, UnixTime, ObjectKey)>> = BTreeMap::new();
        for (key, policy) in policies {
            let uid = policy.controller_uid.as_deref().filter(|_| policy.managed).unwrap_or_default();
            let maker = by_uid.get(&(&*key.namespace, uid));
            let own = maker.is_some_and(|hpa| is_unedited(policy, hpa));
            // Nor does the operator write a spec that it cannot read.
            if maker.is_some() && !own {
                homes.released.push(policy.clone());
            }
            if let Some(hpa) = adopted(policy) {
                let hpa = ObjectKey::new(key.namespace.clone(), hpa);
                candidates.entry(hpa).or_default().push((own, policy.created_at, key.clone()));
            }
        }
        for (hpa, object) in hpas {
            if !candidates.contains_key(hpa) && !object.deleting {
                homes.homeless.push(object.clone());
            }
        }
        for (hpa, mut candidates) in candidates {
            candidates.sort();
            homes.settle(policies, hpas.get(&hpa), &hpa, candidates);
        }
        homes
    }

    /// Decides which of the candidates is the home of one HPA; they are sorted, users' policies first.
    fn settle(
        &mut self,
        policies: &Policies,
        object: Option<&Arc<HpaObject>>,
        hpa: &ObjectKey,
        candidates: Vec<(bool, UnixTime, ObjectKey)>,
    ) {
        let own = object.map(|object| own_name(object)).unwrap_or_default();
        let is_old = |(kept, _, key): &&(bool, UnixTime, ObjectKey)| *kept && *key.name != *own;
        let users = candidates.first().is_some_and(|(kept, _, _)| !kept);
        let old = candidates.iter().find(is_old).filter(|_| !users);
        let Some((_, _, home)) = old.or(candidates.first()) else { return };
        if let (Some(object), true, Some(policy)) = (object, old.is_some(), policies.get(home)) {
            self.renamed.push((object.clone(), policy.clone()));
        }
        for (_, _, key) in candidates.iter().filter(|(kept, _, key)| *kept && key != home) {
            self.idle.insert(key.clone());
            // The copy of a renamed policy waits until its original is gone.
            let is_copy = old.is_some() && *key.name == *own;
            self.retired.extend(policies.get(key).filter(|_| !is_copy).cloned());
        }
        self.of_hpa.insert(hpa.clone(), home.clone());
    }
}

/// The name of the HPA that a policy is for, if it can be read.
fn adopted(policy: &Policy) -> Option<&str> {
    policy.spec.as_ref().ok()?.target.hpa.as_ref().map(|hpa| hpa.name.as_str())
}

/// True if the spec is what the operator writes for this HPA.
fn is_unedited(policy: &Policy, hpa: &HpaObject) -> bool {
    policy.spec.as_ref().is_ok_and(|spec| *spec == spec_for(hpa))
}

fn spec_for(hpa: &HpaObject) -> ScalingPolicySpec {
    let name = HpaName { name: hpa.key.name.to_string() };
    let target = Target { type_: TargetType::HPA, hpa: Some(name), scale: None };
    ScalingPolicySpec { target, ..ScalingPolicySpec::default() }
}

/// Name of the operator's own policy for an HPA: neither the HPA's, which `headroom import` prints and users choose, nor that
/// of an earlier HPA of the same name.
#[must_use]
pub(super) fn own_name(hpa: &HpaObject) -> String {
    let id = hpa.uid.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase());
    let suffix: String = "-hpa-".chars().chain(id.take(ID_LENGTH)).collect();
    let stem = headroom_core::text::cut(&hpa.key.name, NAME_MAX - suffix.len());
    format!("{}{suffix}", stem.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()))
}

/// The operator's own policy for an HPA. It is deleted with the HPA.
#[must_use]
pub(super) fn own_policy(hpa: &HpaObject) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": StoredScalingPolicy::kind(&()),
        "metadata": {
            "name": own_name(hpa),
            "namespace": &*hpa.key.namespace,
            "labels": {MANAGED_BY.0: MANAGED_BY.1},
            "ownerReferences": [{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "name": &*hpa.key.name, "uid": &*hpa.uid, "controller": true}],
        },
        "spec": spec_for(hpa),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_api::json_text::JsonText;

    fn hpa(name: &str, uid: &str) -> (ObjectKey, Arc<HpaObject>) {
        let key = ObjectKey::new("shop", name);
        let object = HpaObject {
            key: key.clone(),
            uid: uid.into(),
            resource_version: "1".into(),
            generation: 1,
            created_at: UnixTime(1),
            deleting: false,
            spec: Value::Null,
            status: JsonText::default(),
            observed_generation: None,
            status_writers: Vec::new(),
        };
        (key, Arc::new(object))
    }

    /// A policy for the HPA `web`; the operator's own if it has the HPA's unique id.
    fn policy(name: &str, uid: Option<&str>, spec: Value) -> (ObjectKey, Arc<Policy>) {
        let object = PolicyObject {
            name: name.into(),
            namespace: "shop".into(),
            uid: format!("uid-of-{name}").into(),
            resource_version: "1".into(),
            generation: 1,
            created_at: UnixTime(2),
            deleting: false,
            controller_uid: uid.map(Into::into),
            managed: uid.is_some(),
            spec: serde_json::from_value(spec).map_err(|error| error.to_string()),
            status: JsonText::default(),
        };
        (ObjectKey::new("shop", name), Arc::new(object))
    }

    fn bare() -> Value {
        json!({"target": {"type": "HPA", "hpa": {"name": "web"}}})
    }

    const UID: &str = "59fed7eb-1111-2222";

    fn names<'a>(policies: impl IntoIterator<Item = &'a Arc<Policy>>) -> Vec<&'a str> {
        policies.into_iter().map(|policy| &*policy.name).collect()
    }

    fn home(homes: &Homes) -> Option<&str> {
        homes.of_hpa.get(&ObjectKey::new("shop", "web")).map(|key| &*key.name)
    }

    #[test]
    fn own_name_is_valid_and_differs_from_the_hpas_and_from_that_of_an_earlier_hpa() {
        assert_eq!(own_name(&hpa("web", UID).1), "web-hpa-59fed7eb");
        let long = own_name(&hpa(&format!("{}.b", "a".repeat(239)), "F-1").1);
        assert_eq!(long, format!("{}.b-hpa-f1", "a".repeat(239)));
        let cut = own_name(&hpa(&format!("{}.{}", "a".repeat(239), "b".repeat(13)), UID).1);
        assert_eq!(cut, format!("{}-hpa-59fed7eb", "a".repeat(239)));
    }

    #[test]
    fn policy_under_the_hpas_own_name_is_renamed_and_stays_the_home_until_it_is_gone() {
        let hpas = Hpas::from([hpa("web", UID)]);
        let mut policies = Policies::from([policy("web", Some(UID), bare())]);
        for copied in [false, true] {
            policies.extend(copied.then(|| policy("web-hpa-59fed7eb", Some(UID), bare())));
            let homes = Homes::find(&policies, &hpas);
            assert_eq!(names(homes.renamed.iter().map(|(_, policy)| policy)), ["web"]);
            assert_eq!(
                (home(&homes), homes.retired.len(), homes.idle.len()),
                (Some("web"), 0, copied.into())
            );
        }
        policies.remove(&ObjectKey::new("shop", "web"));
        let homes = Homes::find(&policies, &hpas);
        assert_eq!((home(&homes), homes.renamed.len()), (Some("web-hpa-59fed7eb"), 0));
    }

    #[test]
    fn policy_that_a_user_has_edited_is_the_users() {
        let hpas = Hpas::from([hpa("web", UID)]);
        let elsewhere = json!({"maxReplicas": 3, "target": {"type": "Scale",
            "scale": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
        let policies = Policies::from([policy("web", Some(UID), elsewhere)]);
        let homes = Homes::find(&policies, &hpas);
        assert_eq!((names(&homes.released), homes.homeless.len()), (vec!["web"], 1));
        let mut scheduled = bare();
        scheduled["fallback"] = json!({"replicas": "3"});
        let policies =
            Policies::from([policy("web", Some(UID), scheduled), policy("own", Some(UID), bare())]);
        let homes = Homes::find(&policies, &hpas);
        assert_eq!((names(&homes.released), names(&homes.retired)), (vec!["web"], vec!["own"]));
        assert_eq!(home(&homes), Some("web"));
    }

    #[test]
    fn policy_that_an_edit_has_made_unreadable_is_the_users_and_not_deleted_with_the_hpa() {
        let hpas = Hpas::from([hpa("web", UID)]);
        let policies = Policies::from([policy("web-hpa-59fed7eb", Some(UID), json!({"target": 3}))]);
        let homes = Homes::find(&policies, &hpas);
        assert_eq!(names(&homes.released), ["web-hpa-59fed7eb"]);
    }

    #[test]
    fn policy_that_a_user_ties_to_an_hpa_keeps_its_owner_reference() {
        let hpas = Hpas::from([hpa("web", UID)]);
        let (key, users) = policy("web", Some(UID), bare());
        let users = Policy { managed: false, ..(*users).clone() };
        let homes = Homes::find(&Policies::from([(key, Arc::new(users))]), &hpas);
        assert_eq!((homes.released.len(), homes.renamed.len(), home(&homes)), (0, 0, Some("web")));
    }

    #[test]
    fn own_policy_as_written_counts_as_unedited() {
        let (_, object) = hpa("web", UID);
        let written: ScalingPolicySpec = serde_json::from_value(own_policy(&object)["spec"].clone()).unwrap();
        assert_eq!(written, spec_for(&object));
    }
}
