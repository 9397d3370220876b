//! `make cluster`: the local control plane with KWOK, metrics-server and our CRDs, in the foreground until Ctrl-C;
//! `make aws-cluster`: the same with a simulated AWS, whose instances become nodes;
//! `make capi-cluster`: the same with Cluster API's controllers, whose machines are KWOK nodes.

use std::sync::Arc;

use anyhow::Result;
use clap::Parser;
use e2e::aws::{Aws, Bridge, OPERATOR_KEY, REGION};
use e2e::cluster_api::ClusterApi;
use e2e::control_plane::{ControlPlane, Options};
use tokio::signal::unix::{SignalKind, signal};

/// Most machines of the MachineDeployment.
const MACHINES: u32 = 20;

/// Starts a local Kubernetes control plane whose nodes and pods are played by KWOK.
#[derive(Debug, Parser)]
struct Args {
    /// Leave HorizontalPodAutoscalers to the operator.
    #[arg(long)]
    without_hpa_controller: bool,
    /// Start without metrics-server.
    #[arg(long)]
    without_metrics_server: bool,
    /// Start a simulated AWS too, with the Auto Scaling groups web-a and web-b.
    #[arg(long)]
    aws: bool,
    /// Start Cluster API's controllers too, with the MachineDeployment web.
    #[arg(long)]
    cluster_api: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let mut options = Options::new();
    if args.without_hpa_controller {
        options = options.without_hpa_controller();
    }
    if !args.without_metrics_server {
        options = options.with_metrics_server();
    }
    // Before the start, so that an early Ctrl-C ends it as cleanly as a late one.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut cluster = tokio::select! {
        biased;
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
        started = ControlPlane::start(options) => started?,
    };
    print_usage(&cluster);
    let cloud = match args.aws {
        true => Some(start_aws(&cluster).await?),
        false => None,
    };
    if let Some((aws, _)) = &cloud {
        print_aws_usage(aws);
    }
    let _controllers = match args.cluster_api {
        true => Some(start_cluster_api(&cluster).await?),
        false => None,
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        ended = first_to_end(&cluster) => {
            cluster.keep_folder();
            eprintln!("{ended:#}\nlogs are kept in {}", cluster.folder().display());
        }
    }
    println!("stopping");
    Ok(())
}

fn print_usage(cluster: &ControlPlane) {
    let kubectl = cluster.kubectl_path();
    println!("The control plane is ready. Ctrl-C stops it and forgets everything. In another terminal:");
    println!();
    println!("  export KUBECONFIG={}", cluster.kubeconfig().display());
    if let Some(folder) = kubectl.parent() {
        println!("  export PATH=\"{}:$PATH\"    # kubectl", folder.display());
    }
    println!();
    println!("Logs: {}", cluster.folder().join("logs").display());
}

/// The simulator with two zonal groups, and what makes nodes of their instances.
async fn start_aws(cluster: &ControlPlane) -> Result<(Arc<Aws>, Bridge)> {
    let aws = Arc::new(Aws::start(&cluster.folder().join("logs")).await?);
    aws.walk_through_groups().await?;
    let bridge = Bridge::start(cluster.client(), &aws);
    Ok((aws, bridge))
}

/// The controllers with one MachineDeployment.
async fn start_cluster_api(cluster: &ControlPlane) -> Result<ClusterApi> {
    let controllers = ClusterApi::start(cluster).await?;
    controllers.deployment(cluster, "web", MACHINES).await?;
    println!("Cluster API runs, with the MachineDeployment web of the Cluster prod in namespace capi.");
    Ok(controllers)
}

fn print_aws_usage(aws: &Aws) {
    println!(
        "AWS is simulated, with the Auto Scaling groups web-a and web-b. For the operator, and for curl:"
    );
    println!();
    println!("  export AWS_ENDPOINT_URL={} AWS_REGION={REGION}", aws.url());
    println!(
        "  export AWS_ACCESS_KEY_ID={OPERATOR_KEY} AWS_SECRET_ACCESS_KEY=secret AWS_EC2_METADATA_DISABLED=true"
    );
    println!();
}

/// Returns what is wrong once a program of the control plane has ended by itself.
async fn first_to_end(cluster: &ControlPlane) -> anyhow::Error {
    let mut looks = tokio::time::interval(std::time::Duration::from_secs(1));
    loop {
        looks.tick().await;
        if let Err(ended) = cluster.check_running() {
            return ended;
        }
    }
}
