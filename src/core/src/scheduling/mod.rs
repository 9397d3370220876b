//! Does this pod fit this node: one file a predicate, each named after kube-scheduler's plugin.

pub mod constraints;
