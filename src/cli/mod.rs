//! The command line: one file a command; each hands over to the rooms and decides nothing.

pub mod crds;
pub mod release;
pub mod run;
pub mod simulate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::options::{LogFormat, RunOptions};
use crate::telemetry;

/// Keeps the right number of pods and of nodes.
#[derive(Debug, Parser)]
#[command(name = "headroom", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator against the cluster that KUBECONFIG, or the pod's service account, points to
    #[command(after_help = "Example:\n  headroom run --metrics-address 127.0.0.1:8080")]
    Run(RunOptions),
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
    /// Take every mark of the operator off the nodes, for an uninstall
    #[command(
        after_help = "Stop the operator first, or take its lease: it would put its marks on again.\n\nExamples:\n  headroom release\n  headroom release --take-lease --leader-election-namespace headroom-system"
    )]
    Release(release::ReleaseOptions),
}

/// Reads the command line and does what it says.
///
/// The exit code is 0 when it worked, 1 when it did not, 2 for a command line that makes no sense.
#[must_use]
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(options) => {
            telemetry::start(options.log_format);
            in_runtime(run::run(options))
        }
        Command::Crds { docs: true } => {
            print!("{}", crds::field_docs::render());
            Ok(())
        }
        Command::Crds { docs: false } => {
            crds::render_all().map(|yaml| print!("{yaml}")).map_err(anyhow::Error::from)
        }
        Command::Simulate(options) => simulate::simulate(&options),
        Command::Release(options) => {
            telemetry::start(LogFormat::Text);
            in_runtime(release::release(options))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("headroom: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command on one thread, as simulations do: nothing of it needs two.
fn in_runtime(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(command)
}
