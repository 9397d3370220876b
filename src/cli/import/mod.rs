//! `headroom import`: objects of other autoscalers as ours, with a comment on each difference. It writes nothing.

pub mod cluster_autoscaler;
mod durations;
mod hpa;
mod input;
mod karpenter;
mod keda;
mod names;
mod output;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::telemetry;

/// Shown under `--help`.
pub const EXAMPLES: &str = "\
It prints YAML and changes nothing: read its comments, then apply it.

Examples:
  kubectl -n kube-system get deployment,configmap -o yaml > ca.yaml
  aws autoscaling describe-auto-scaling-groups > groups.json
  headroom import cluster-autoscaler ca.yaml groups.json > pools.yaml
  headroom import cluster-autoscaler --live --live-groups --preview | kubectl apply -f -
  kubectl get horizontalpodautoscalers.v2.autoscaling -A -o yaml | headroom import hpa -
  headroom import karpenter --live
  headroom import keda scaledobjects.yaml";

const CLUSTER_AUTOSCALER: &str = "\
Examples:
  kubectl -n kube-system get deployment,configmap -o yaml > ca.yaml
  aws autoscaling describe-auto-scaling-groups > groups.json
  headroom import cluster-autoscaler ca.yaml groups.json
  headroom import cluster-autoscaler --live --live-groups --region eu-west-1 --preview";
const HPA: &str = "\
Examples:
  headroom import hpa web-hpa.yaml
  headroom import hpa --live -n shop --preview | kubectl apply -f -";
const KARPENTER: &str = "\
Examples:
  headroom import karpenter nodepools.yaml nodeclasses.yaml
  headroom import karpenter --live --preview > pools.yaml";
const KEDA: &str = "\
Examples:
  headroom import keda scaledobjects.yaml
  headroom import keda --live -n shop --preview > policies.yaml";

/// Options of `headroom import`.
#[derive(Args, Clone, Debug)]
pub struct ImportOptions {
    #[command(subcommand)]
    from: From,
}

#[derive(Subcommand, Clone, Debug)]
enum From {
    /// NodePools and a ClusterScalingPolicy from the flags of Cluster Autoscaler on AWS
    #[command(after_help = CLUSTER_AUTOSCALER)]
    ClusterAutoscaler {
        #[command(flatten)]
        input: Input,

        /// Read the Auto Scaling groups from AWS, by the usual chain of credentials; nothing is written
        #[arg(long)]
        live_groups: bool,

        /// Their region; else the Deployment's AWS_REGION, else the environment's
        #[arg(long, value_name = "REGION")]
        region: Option<String>,
    },
    /// ScalingPolicies from HorizontalPodAutoscalers
    #[command(after_help = HPA)]
    Hpa(Input),
    /// NodePools from Karpenter's NodePools and EC2NodeClasses
    #[command(after_help = KARPENTER)]
    Karpenter(Input),
    /// ScalingPolicies from KEDA's ScaledObjects
    #[command(after_help = KEDA)]
    Keda(Input),
}

/// What all imports read and print.
#[derive(Args, Clone, Debug)]
struct Input {
    /// Files of YAML or JSON, - for standard input: manifests, Lists, and answers of the AWS command line
    #[arg(value_name = "FILE", required_unless_present = "live")]
    files: Vec<PathBuf>,

    /// Read the objects from the cluster that KUBECONFIG names
    #[arg(long)]
    live: bool,

    /// With --live, the namespace to read; all of them by default
    #[arg(long, short, value_name = "NAMESPACE", requires = "live")]
    namespace: Option<String>,

    /// Print objects of mode Preview: they show what would happen and do nothing
    #[arg(long)]
    preview: bool,
}

impl Input {
    async fn read(&self, kinds: &[input::Kind]) -> anyhow::Result<Vec<input::Source>> {
        let mut sources = input::read_files(&self.files)?;
        if self.live {
            sources.extend(input::read_live(kinds, self.namespace.as_deref()).await?);
        }
        Ok(sources)
    }
}

/// Reads, converts and prints.
///
/// # Errors
/// When something cannot be read, or what came of it would not be accepted; the words name the cause and the fix.
pub async fn import(options: ImportOptions) -> anyhow::Result<()> {
    telemetry::start_quiet();
    let (input, mut drafts) = match options.from {
        From::ClusterAutoscaler { mut input, live_groups, region } => {
            if input.live && input.namespace.is_none() {
                input.namespace = Some("kube-system".to_owned());
            }
            let sources = input.read(cluster_autoscaler::KINDS).await?;
            let drafts = cluster_autoscaler::convert(&sources, live_groups, region.as_deref()).await?;
            (input, drafts)
        }
        From::Hpa(input) => (input.clone(), hpa::convert(&input.read(hpa::KINDS).await?)?),
        From::Karpenter(input) => (input.clone(), karpenter::convert(&input.read(karpenter::KINDS).await?)?),
        From::Keda(input) => (input.clone(), keda::convert(&input.read(keda::KINDS).await?)?),
    };
    if input.preview {
        for draft in &mut drafts {
            draft.preview();
        }
    }
    let text = output::render_all(&drafts)?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// Says which of the files' objects an import has made nothing of.
fn say_passed_over(
    draft: &mut output::Draft,
    sources: &[input::Source],
    is_used: impl Fn(&input::Source) -> bool,
) {
    // Of a live cluster whole kinds were read, most of whose objects are somebody else's.
    let others = sources.iter().filter(|source| !is_used(source) && source.from != input::CLUSTER);
    let titles: Vec<String> = others.map(input::Source::title).collect();
    if !titles.is_empty() {
        draft.say(format!("Passed over, for this import does not read them: {}.", titles.join(", ")));
    }
}
