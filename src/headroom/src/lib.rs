//! The command line: one file a command. It decides nothing itself.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod crds;
mod evidence;
pub mod explain;
mod gather;
pub mod import;
pub mod lint;
pub mod object;
mod options;
pub mod progress;
pub mod release;
pub mod run;
mod scalers;
pub mod scorecard;
mod scorekeeping;
pub mod simulate;
pub mod snapshot;
pub mod source;
pub mod telemetry;
pub mod terminal;
mod what_if;

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::options::{LogFormat, RunOptions};

/// A quarter of a simulated day is spent in glibc's allocator, and musl's, which the static binary of the images would have,
/// takes one lock for all threads (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "Examples:
  headroom simulate examples/rush-hour          no cluster, no network: a day in seconds
  headroom lint nodepool.yaml                   before it is applied
  headroom run                                  on the cluster that KUBECONFIG points to
  kubectl headroom status                       once `headroom` is on the PATH as kubectl-headroom
  kubectl headroom explain pod web-0 -n shop    why it waits, or how it came to run

Each command's own help has more: headroom help explain";

/// Keeps the right number of pods and of nodes.
#[derive(Debug, Parser)]
#[command(name = "headroom", version, about, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator against the cluster that KUBECONFIG, or the pod's service account, points to
    #[command(after_help = "Example:\n  headroom run --metrics-address 127.0.0.1:8080")]
    Run(RunOptions),
    /// Explain why a pod waits, a node stays, or a workload has its size: one timeline of causes
    #[command(after_help = explain::EXPLAIN_EXAMPLES)]
    Explain(explain::ExplainOptions),
    /// Show the cluster on one screen: pools, workloads, what is going on, what is stuck
    #[command(after_help = explain::STATUS_EXAMPLES)]
    Status(explain::ViewOptions),
    /// List decisions over time, of pools and of workloads
    #[command(after_help = explain::HISTORY_EXAMPLES)]
    History(explain::HistoryOptions),
    /// Show what is requested, used and wasted in each pool, with its cost where prices are declared
    #[command(after_help = explain::TOP_EXAMPLES)]
    Top(explain::ViewOptions),
    /// Show what would have been done by what is only previewed or observed, beside what is
    #[command(after_help = explain::COMPARE_EXAMPLES)]
    Compare(explain::ViewOptions),
    /// Show what was done in the last days beside what Headroom would have done: node hours, price, waits
    #[command(after_help = scorecard::EXAMPLES)]
    Scorecard(scorecard::ScorecardOptions),
    /// Write the decision input of a live cluster to a file, without secrets
    #[command(after_help = snapshot::SNAPSHOT_EXAMPLES)]
    Snapshot(snapshot::SnapshotOptions),
    /// Plan a snapshot again: the same file always gives the same plan
    #[command(after_help = snapshot::REPLAY_EXAMPLES)]
    Replay(snapshot::ReplayOptions),
    /// Check manifests without a cluster: each object, and what no rule of one object sees
    #[command(after_help = lint::EXAMPLES)]
    Lint(lint::LintOptions),
    /// Print the custom resource definitions
    #[command(after_help = "Example:\n  headroom crds | kubectl apply --server-side -f -")]
    Crds {
        /// Print the page of all their fields instead, in Markdown
        #[arg(long)]
        docs: bool,
    },
    /// Run the operator on a simulated cluster in virtual time: no cluster, no network, seconds
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(simulate::SimulateOptions),
    /// Print objects of other autoscalers as ours, with a comment on each difference
    #[command(after_help = import::EXAMPLES)]
    Import(import::ImportOptions),
    /// Take every mark of the operator off the nodes, for an uninstall
    #[command(
        after_help = "Stop the operator first, or take its lease: it would put its marks on again.\n\nExamples:\n  headroom release\n  headroom release --take-lease --leader-election-namespace headroom-system"
    )]
    Release(release::ReleaseOptions),
    /// Print the script by which a shell completes commands
    #[command(
        after_help = "Examples:\n  source <(headroom completion bash)\n  headroom completion zsh > \"${fpath[1]}/_headroom\"\n  headroom completion fish > ~/.config/fish/completions/headroom.fish"
    )]
    Completion {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

/// Reads the command line and runs the command.
///
/// The exit code is 0 when it worked, 1 when it did not, 2 for a command line that makes no sense.
#[must_use]
pub fn main() -> ExitCode {
    let matches = command_line().get_matches();
    let parsed = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let result = match parsed.command {
        Command::Run(options) => {
            telemetry::start(options.log_format);
            in_runtime(run::run(options))
        }
        Command::Explain(options) => in_runtime(explain::explain(options)),
        Command::Status(options) => in_runtime(explain::status(options)),
        Command::History(options) => in_runtime(explain::history(options)),
        Command::Top(options) => in_runtime(explain::top(options)),
        Command::Compare(options) => in_runtime(explain::compare(options)),
        Command::Scorecard(options) => in_runtime(scorecard::scorecard(options)),
        Command::Snapshot(options) => in_runtime(snapshot::snapshot(options)),
        Command::Replay(options) => snapshot::replay(&options),
        Command::Lint(options) => lint::lint(&options),
        Command::Crds { docs: true } => {
            terminal::print_generated(crds::field_docs::render().as_bytes()).map_err(anyhow::Error::from)
        }
        Command::Crds { docs: false } => {
            let yaml = crds::render_all().map_err(anyhow::Error::from);
            yaml.and_then(|yaml| Ok(terminal::print_generated(yaml.as_bytes())?))
        }
        Command::Simulate(options) => simulate::simulate(&options),
        Command::Import(options) => in_runtime(import::import(options)),
        Command::Release(options) => {
            telemetry::start(LogFormat::Text);
            in_runtime(release::release(options))
        }
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "headroom", &mut script);
            terminal::print_generated(&script).map_err(anyhow::Error::from)
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Only the first line is at the margin, whatever the error quotes.
            terminal::complain(&format!("headroom: {error:#}").replace('\n', "\n  "));
            ExitCode::FAILURE
        }
    }
}

/// The command line, which speaks of `kubectl headroom` where kubectl has called it: under the name kubectl-headroom.
fn command_line() -> clap::Command {
    let called = std::env::args_os().next();
    let plugin = called
        .as_deref()
        .and_then(|path| Path::new(path).file_stem())
        .is_some_and(|name| name == "kubectl-headroom");
    if plugin { Cli::command().bin_name("kubectl headroom") } else { Cli::command() }
}

/// Runs a command on one thread, as simulations do: nothing of it needs two.
fn in_runtime(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command and all beneath it, each with the words that call it.
    fn all(command: &clap::Command, before: &str) -> Vec<(String, clap::Command)> {
        let mut found = Vec::new();
        for one in command.get_subcommands().filter(|one| one.get_name() != "help") {
            let name = format!("{before} {}", one.get_name());
            found.extend(all(one, &name));
            found.push((name, one.clone()));
        }
        found
    }

    #[test]
    fn the_help_of_every_command_shows_examples() {
        let commands = all(&Cli::command(), "headroom");
        assert!(commands.iter().any(|(name, _)| name == "headroom import hpa"), "none beneath import");
        for (name, command) in commands {
            let shown = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(shown.contains("xample") && shown.contains(&name), "{name}: {shown}");
            // Whoever types it as it stands is understood.
            let lines = shown.lines().map(str::trim).filter(|line| line.starts_with(&name));
            for line in lines.filter(|line| !line.contains(['|', '>', '<', '$', '&'])) {
                let words = line.split("   ").next().unwrap_or(line).split_whitespace();
                let parsed = Cli::command().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{line}: {parsed:?}");
            }
        }
    }

    #[test]
    fn help_fits_a_hundred_columns_and_breaks_no_example() {
        for (name, mut command) in all(&Cli::command(), "headroom") {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let help = command.render_long_help().to_string();
            for line in help.lines() {
                assert!(line.chars().count() <= 100, "{name}: {line}");
            }
            for line in examples.lines().filter(|line| line.starts_with("  headroom")) {
                assert!(help.lines().any(|shown| shown == line), "{name} breaks the line: {line}");
            }
        }
    }
}
