//! The input of the loop families. Unknown fields fail.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::settings::Options;
use crate::choice::Priorities;
use crate::model::{Group, Node, Pod, Toleration};
use crate::removals::{BudgetInput, ControllerInput};

/// One case.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    pub(crate) options: Options,
    pub(crate) groups: Vec<Group>,
    #[serde(default)]
    pub(crate) nodes: Option<Vec<Node>>,
    #[serde(default)]
    pub(crate) pods: Option<Vec<Pod>>,
    #[serde(default)]
    pub(crate) daemonsets: Option<Vec<Set>>,
    #[serde(default)]
    pub(crate) controllers: Option<Vec<ControllerInput>>,
    #[serde(default)]
    pub(crate) pdbs: Option<Vec<BudgetInput>>,
    #[serde(default)]
    pub(crate) events: Option<Vec<Event>>,
    #[serde(default)]
    pub(crate) priorities: Option<Priorities>,
    pub(crate) ticks: i64,
    pub(crate) tick_s: i64,
}

/// A DaemonSet.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Set {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) ns: Option<String>,
    #[serde(default)]
    pub(crate) cpu_m: i64,
    #[serde(default)]
    pub(crate) mem: i64,
    #[serde(default)]
    pub(crate) node_selector: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) tolerations: Vec<Toleration>,
}

/// Event just before a tick.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Event {
    pub(crate) tick: i64,
    #[serde(default)]
    pub(crate) add_pods: Option<Vec<Pod>>,
    #[serde(default)]
    pub(crate) delete_pods: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) update_nodes: Option<Vec<Node>>,
    #[serde(default)]
    pub(crate) set_pdbs: Option<Vec<BudgetInput>>,
    #[serde(default)]
    pub(crate) fail_delete: BTreeMap<String, String>,
}
