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
pub struct Input {
    pub options: Options,
    pub groups: Vec<Group>,
    #[serde(default)]
    pub nodes: Option<Vec<Node>>,
    #[serde(default)]
    pub pods: Option<Vec<Pod>>,
    #[serde(default)]
    pub daemonsets: Option<Vec<Set>>,
    #[serde(default)]
    pub controllers: Option<Vec<ControllerInput>>,
    #[serde(default)]
    pub pdbs: Option<Vec<BudgetInput>>,
    #[serde(default)]
    pub events: Option<Vec<Event>>,
    #[serde(default)]
    pub priorities: Option<Priorities>,
    pub ticks: i64,
    pub tick_s: i64,
}

/// A DaemonSet.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    pub name: String,
    #[serde(default)]
    pub ns: Option<String>,
    #[serde(default)]
    pub cpu_m: i64,
    #[serde(default)]
    pub mem: i64,
    #[serde(default)]
    pub node_selector: BTreeMap<String, String>,
    #[serde(default)]
    pub tolerations: Vec<Toleration>,
}

/// What happens just before a tick.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    pub tick: i64,
    #[serde(default)]
    pub add_pods: Option<Vec<Pod>>,
    #[serde(default)]
    pub delete_pods: Option<Vec<String>>,
    #[serde(default)]
    pub update_nodes: Option<Vec<Node>>,
    #[serde(default)]
    pub set_pdbs: Option<Vec<BudgetInput>>,
    #[serde(default)]
    pub fail_delete: BTreeMap<String, String>,
}
