//! Says which permissions of the operator no test has used, and fails if there are any.
//!
//! `unused_permissions FILE`: FILE is what the tests recorded with HEADROOM_USED_PERMISSIONS=FILE.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Parser;
use e2e::permissions::{granted, read_record};

/// Kinds that the control plane of the tests lacks, or has for one test only: every test lists them, and they are watched where they
/// are served. A watch is recorded when it ends.
const RARELY_SERVED: [(&str, &str); 4] = [
    ("scheduling.k8s.io", "podgroups"),
    ("scheduling.k8s.io", "workloads"),
    ("scheduling.volcano.sh", "podgroups"),
    ("scheduling.x-k8s.io", "podgroups"),
];

#[derive(Debug, Parser)]
struct Args {
    /// Record of the tests.
    record: PathBuf,
}

fn main() -> Result<()> {
    let Args { record } = Args::parse();
    let used = read_record(&record)?;
    let granted = granted()?;
    let idle: Vec<String> = granted
        .iter()
        .filter(|grant| !grant.is_for_conflicts() && !used.iter().any(|call| grant.covers(call)))
        .filter(|grant| {
            let kind = (&*grant.group, &*grant.resource);
            !(grant.verb == "watch" && RARELY_SERVED.contains(&kind))
        })
        .map(|grant| format!("{} {}/{}", grant.verb, grant.group, grant.resource))
        .collect();
    println!("{} of {} granted permissions were used", granted.len() - idle.len(), granted.len());
    ensure!(
        idle.is_empty(),
        "granted and used by no test; take it out of charts/headroom/templates/rbac.yaml, or add a test that needs it:\n  {}",
        idle.join("\n  ")
    );
    Ok(())
}
