//! Scalers of a workload: the HPAs and ScalingPolicies that name it, by their status. Look-ups, and the words for them.

use std::collections::BTreeSet;

use headroom_core::labels::ObjectKey;

use super::evidence::{Evidence, HpaSeen, PolicySeen};

/// Owner of a workload that changes its replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scaler<'a> {
    /// A ScalingPolicy, its HPA adopted where it has one.
    Policy(&'a PolicySeen),
    /// An HPA, run by the controller-manager.
    Hpa(&'a HpaSeen),
}

/// Everything that names a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scalers<'a> {
    /// Those that change its replicas; more than one only where two HPAs name it.
    pub acting: Vec<Scaler<'a>>,
    /// ScalingPolicies that do not.
    pub beside: Vec<&'a PolicySeen>,
    /// HPAs that no acting policy adopts while another policy has the workload.
    pub unused: Vec<&'a HpaSeen>,
}

/// Namespace, kind and name of a workload.
pub type Workload = (String, String, String);

impl Evidence {
    /// Returns the scalers of a workload.
    #[must_use]
    pub fn scalers_of(&self, kind: &str, key: &ObjectKey) -> Scalers<'_> {
        let mut scalers = Scalers::default();
        let direct = self.policies.iter().filter(|policy| {
            policy.key.namespace == key.namespace
                && (policy.target.0.as_str(), policy.target.1.as_str()) == (kind, &*key.name)
        });
        let (acting, beside): (Vec<_>, Vec<_>) = direct.partition(|policy| policy.acts());
        scalers.acting.extend(acting.into_iter().map(Scaler::Policy));
        let taken = !scalers.acting.is_empty();
        for hpa in self.hpas.iter().filter(|hpa| hpa.scales(kind, key)) {
            let home = self.home_of(hpa);
            match home.filter(|home| home.acts()) {
                Some(home) => scalers.acting.push(Scaler::Policy(home)),
                // A policy gives way to an HPA that the controller-manager runs, as soon as it has seen it.
                None if taken => scalers.unused.push(hpa),
                None => scalers.acting.push(Scaler::Hpa(hpa)),
            }
            scalers.beside.extend(home.filter(|home| !home.acts()));
        }
        scalers.beside.extend(beside);
        scalers
    }

    /// The policy that adopts an HPA: one that is not Stalled, if there are several.
    #[must_use]
    pub fn home_of(&self, hpa: &HpaSeen) -> Option<&PolicySeen> {
        let adopts = |policy: &&PolicySeen| {
            policy.key.namespace == hpa.key.namespace
                && (policy.target.0.as_str(), policy.target.1.as_str()) == ("HPA", &*hpa.key.name)
        };
        let homes = || self.policies.iter().filter(adopts);
        homes().find(|home| home.stalled().is_none()).or_else(|| homes().next())
    }

    /// The workloads that HPAs and policies name. A policy whose HPA does not exist names a workload of kind `HPA`.
    #[must_use]
    pub fn scaled_workloads(&self) -> BTreeSet<Workload> {
        let of_policy = |policy: &PolicySeen| {
            let hpa = self.hpas.iter().find(|hpa| {
                policy.target.0 == "HPA"
                    && hpa.key.namespace == policy.key.namespace
                    && *hpa.key.name == *policy.target.1
            });
            let target = hpa.map_or(&policy.target, |hpa| &hpa.target);
            (policy.key.namespace.to_string(), target.0.clone(), target.1.clone())
        };
        let of_hpa =
            |hpa: &HpaSeen| (hpa.key.namespace.to_string(), hpa.target.0.clone(), hpa.target.1.clone());
        self.policies.iter().map(of_policy).chain(self.hpas.iter().map(of_hpa)).collect()
    }
}

impl HpaSeen {
    /// True if this is the workload that it names.
    #[must_use]
    pub fn scales(&self, kind: &str, key: &ObjectKey) -> bool {
        self.key.namespace == key.namespace && self.target.0 == kind && self.target.1 == *key.name
    }
}

impl PolicySeen {
    /// Reason for which the policy does nothing until somebody edits it or its rival.
    #[must_use]
    pub fn stalled(&self) -> Option<&str> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|one| one.type_ == "Stalled" && one.status == "True").map(|one| one.reason.as_str())
    }

    /// True if the policy has its workload: it is neither Stalled nor only looks on.
    #[must_use]
    pub fn acts(&self) -> bool {
        self.stalled().is_none() && !self.looks_on()
    }

    /// Describes the policy as one beside the owner of the workload.
    #[must_use]
    pub fn beside(&self) -> String {
        match self.stalled() {
            Some(reason) => format!("scalingpolicy {}, which does nothing ({reason})", self.key),
            None => format!("scalingpolicy {}, which only looks on", self.key),
        }
    }
}

impl<'a> Scalers<'a> {
    /// The policy that matters most to the workload: one that acts, else that of the HPA that acts, else any.
    #[must_use]
    pub fn policy(&self) -> Option<&'a PolicySeen> {
        let acting = self.acting.iter().find_map(|scaler| match scaler {
            Scaler::Policy(policy) => Some(*policy),
            Scaler::Hpa(_) => None,
        });
        let home = || {
            let hpa = self.hpa()?;
            let adopts =
                |policy: &&&PolicySeen| policy.target.0 == "HPA" && *policy.target.1 == *hpa.key.name;
            self.beside.iter().find(adopts).copied()
        };
        let any = || self.beside.first().copied().filter(|_| self.acting.is_empty());
        acting.or_else(home).or_else(any)
    }

    /// The HPA that the controller-manager runs; the first, if there are several.
    #[must_use]
    pub fn hpa(&self) -> Option<&'a HpaSeen> {
        self.acting.iter().find_map(|scaler| match scaler {
            Scaler::Hpa(hpa) => Some(*hpa),
            Scaler::Policy(_) => None,
        })
    }

    /// Describes the scalers of the workload; `of` gives the name of an object.
    #[must_use]
    pub fn words(&self, of: impl Fn(&ObjectKey) -> String) -> String {
        let names = self.acting.iter().map(|scaler| match scaler {
            Scaler::Policy(policy) => format!("scalingpolicy {}", of(&policy.key)),
            Scaler::Hpa(hpa) => format!("hpa {}", of(&hpa.key)),
        });
        names.collect::<Vec<_>>().join(" and ")
    }
}
