//! `headroom snapshot` and `headroom replay`: the decision input of a cluster as a file, and the same decisions again.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use headroom_core::pods::record::{ReplicaDecision, Undecided};
use headroom_core::printable;
use serde::Serialize;

use crate::source::{self, Live, Output};
use crate::{gather, terminal};
use headroom_explain::Case;
use headroom_explain::explanation::counted;
use headroom_explain::table::wrap;
use headroom_explain::{overview, replicas};
use headroom_observe::host::Host;
use headroom_operator::controllers::facts;

/// Examples of `headroom snapshot`.
pub const SNAPSHOT_EXAMPLES: &str = "Examples:
  headroom snapshot -o cluster.json.gz
  headroom snapshot -o cluster.json.gz --hash-names
  kubectl port-forward -n headroom-system deploy/headroom 8082 &
  headroom snapshot -o cluster.json.gz --operator http://127.0.0.1:8082

Reads only, with the permissions of the ClusterRole headroom-viewer. Secrets, environment variables, images,
commands, and annotations that decisions do not read are never in the file.";

/// Examples of `headroom replay`.
pub const REPLAY_EXAMPLES: &str = "Examples:
  headroom replay cluster.json.gz
  headroom replay cluster.json.gz -o json | jq .steps
  headroom replay cluster.json.gz -o json | jq '.replicas[].steps'";

/// Options of `headroom snapshot`.
#[derive(Args, Clone, Debug)]
pub struct SnapshotOptions {
    /// File to write: packed if the name ends in .gz, `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// Replace names of objects and values of labels by codes, the same code for the same name; sentences go
    #[arg(long)]
    pub hash_names: bool,

    /// Make the codes from this text, so that two files have the same ones; drawn anew each time if not given
    #[arg(long, value_name = "TEXT", requires = "hash_names")]
    pub salt: Option<String>,

    /// Cluster to read.
    #[command(flatten)]
    pub live: Live,
}

/// Options of `headroom replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayOptions {
    /// The snapshot
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Format of the output.
    #[command(flatten)]
    pub output: Output,
}

/// Writes the snapshot of a live cluster.
///
/// # Errors
/// If the cluster cannot be read, or the file not written.
pub async fn snapshot(options: SnapshotOptions) -> anyhow::Result<()> {
    let mut case = gather::whole_case(&options.live).await?;
    for gap in &case.evidence.gaps {
        terminal::complain(&format!("headroom: not in the file: {}", printable::line(gap)));
    }
    match &case.input.replicas {
        Some(record) => {
            for Undecided { policy, why } in &record.undecided {
                let why = printable::line(why);
                terminal::complain(&format!(
                    "headroom: not in the file: what scalingpolicy {policy} decides from: {why}"
                ));
            }
        }
        None => terminal::complain(
            "headroom: not in the file: what replicas are decided from; the operator is an older one",
        ),
    }
    if options.hash_names {
        let host = Host::machine();
        let salt = options.salt.unwrap_or_else(|| format!("{:x}{:x}", host.random(), host.random()));
        case.hide_names(&|name| code(&salt, name));
    }
    let bytes = source::write(&options.output, &case)?;
    if options.output.as_os_str() != "-" {
        terminal::complain(&format!(
            "{}: {}, {}, {}, {}, {} KB",
            options.output.display(),
            counted(case.input.world.nodes.len(), "node"),
            counted(case.input.world.pods.len(), "pod"),
            counted(case.input.config.pools.len(), "pool"),
            counted(
                case.input.replicas.as_ref().map_or(0, |record| record.workloads.len()),
                "scaled workload"
            ),
            bytes / 1000
        ));
    }
    Ok(())
}

/// A code of 13 letters and digits, which is a valid name of any object and value of any label.
fn code(salt: &str, name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (salt, name).hash(&mut hasher);
    let mut rest = hasher.finish();
    let mut code = String::from("x");
    for _ in 0..12 {
        let digit = char::from_digit(u32::try_from(rest % 36).unwrap_or(0), 36);
        code.push(digit.unwrap_or('0'));
        rest /= 36;
    }
    code
}

/// Prints the plan of a snapshot, and the last decision on each workload's replicas.
///
/// # Errors
/// If the file is not a snapshot.
pub fn replay(options: &ReplayOptions) -> anyhow::Result<()> {
    let case = options.output.read(&options.file)?;
    let name = options.file.display();
    let opened = case.open().with_context(|| format!("failed to replay {name}"))?;
    let record = case.input.replicas.as_ref();
    let replayed = Replayed {
        at: case.input.now.to_rfc3339(),
        plan: &opened.plan,
        replicas: opened.replicas.as_deref(),
        undecided: record.map(|record| &*record.undecided),
    };
    options.output.print(&replayed, || text(&case, &opened))
}

#[derive(Serialize)]
struct Replayed<'a> {
    at: String,
    #[serde(flatten)]
    plan: &'a headroom_core::plan::Plan,
    /// Null where the file holds no inputs.
    replicas: Option<&'a [ReplicaDecision]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undecided: Option<&'a [Undecided]>,
}

/// Steps, how replicas came about, then what is stuck, as a person reads it.
pub(super) fn text(case: &Case, opened: &headroom_explain::case::Opened<'_>) -> String {
    let mut text = format!("Plan of {} ({})\n\nSTEPS\n", case.input.now, case.written_by);
    let mut steps: Vec<String> = opened.plan.steps.iter().map(facts::in_words).collect();
    steps.extend(opened.replicas.iter().flatten().filter_map(replicas::in_words));
    if steps.is_empty() {
        steps.push("none".to_owned());
    }
    for step in steps {
        text += &format!("{}\n", wrap(&format!("  {step}"), 4));
    }
    let overview = overview::overview(opened);
    text + "\n" + &replicas::section(opened) + "\n" + &overview.text()
}
