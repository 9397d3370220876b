//! `headroom import`: objects of other autoscalers as ours, with a comment on each difference. It writes nothing.

pub mod cluster_autoscaler;
mod durations;
mod hpa;
mod input;
mod karpenter;
mod keda;
mod names;
mod output;
pub mod tables;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use headroom_core::printable;
use serde_json::Value;

use crate::telemetry;
use crate::terminal;

/// Shown under `--help`.
pub const EXAMPLES: &str = "\
It prints YAML and changes nothing: read its comments, then apply it. What would be scaled otherwise than before is
printed with mode: Preview. An object that cannot be converted is left out, named in a comment and on standard error,
and the exit code is 1; the others are printed.

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
    /// NodePools and a ClusterScalingPolicy from the flags of Cluster Autoscaler on AWS, clusterapi or externalgrpc
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
    /// NodePools from Karpenter's NodePools, EC2NodeClasses, KWOKNodeClasses and NodeOverlays
    #[command(after_help = KARPENTER)]
    Karpenter(Input),
    /// ScalingPolicies from KEDA's ScaledObjects
    #[command(after_help = KEDA)]
    Keda(Input),
}

/// Input and options that all imports have.
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
    async fn read(&self, kinds: &[input::Kind]) -> anyhow::Result<input::Read> {
        let mut read = input::read_files(&self.files)?;
        if self.live {
            read.sources.extend(input::read_live(kinds, self.namespace.as_deref()).await?);
        }
        Ok(read)
    }
}

/// An import.
type Convert = fn(&[input::Source]) -> anyhow::Result<Made>;

/// Result of an import.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Made {
    /// The objects.
    drafts: Vec<output::Draft>,
    /// Objects and flags that were left out, each with the reason.
    left_out: Vec<String>,
}

impl Made {
    /// Takes in the result of one object.
    fn take(&mut self, made: anyhow::Result<output::Draft>) {
        match made {
            Ok(draft) => self.drafts.push(draft),
            Err(error) => self.left_out.push(format!("{error:#}")),
        }
    }

    /// Converts the documents that could be read, and names those that could not.
    fn of(read: input::Read, convert: Convert) -> anyhow::Result<Self> {
        Self::beside(read.unreadable, convert(&read.sources))
    }

    /// Puts documents that cannot be read first.
    fn beside(unreadable: Vec<String>, made: anyhow::Result<Self>) -> anyhow::Result<Self> {
        match made {
            Ok(mut made) => {
                made.left_out.splice(0..0, unreadable);
                Ok(made)
            }
            Err(error) if unreadable.is_empty() => Err(error),
            Err(error) => Err(error.context(unreadable.join("; "))),
        }
    }

    /// YAML with comments, and the reason for each object that is left out of it. A draft that cannot be written as YAML
    /// is one of those.
    fn render(self) -> anyhow::Result<(String, Vec<String>)> {
        let Self { drafts, mut left_out } = self;
        let mut documents = Vec::new();
        for draft in &drafts {
            match draft.render() {
                Ok(document) => documents.push(document),
                Err(error) => left_out.push(format!("{error:#}")),
            }
        }
        let mut text = String::new();
        for reason in &left_out {
            output::wrap(&format!("LEFT OUT: {reason}"), &mut text);
        }
        text.push_str(&documents.join("---\n"));
        Ok((text, left_out))
    }
}

/// Reads, converts and prints.
///
/// # Errors
/// If something cannot be read, or something had to be left out; the message names the cause and the fix.
pub async fn import(options: ImportOptions) -> anyhow::Result<()> {
    telemetry::start_quiet();
    let (input, mut made) = match options.from {
        From::ClusterAutoscaler { mut input, live_groups, region } => {
            if input.live && input.namespace.is_none() {
                input.namespace = Some("kube-system".to_owned());
            }
            let read = input.read(cluster_autoscaler::KINDS).await?;
            let made = cluster_autoscaler::convert(&read.sources, live_groups, region.as_deref()).await;
            (input, Made::beside(read.unreadable, made)?)
        }
        From::Hpa(input) => (input.clone(), Made::of(input.read(hpa::KINDS).await?, hpa::convert)?),
        From::Karpenter(input) => {
            (input.clone(), Made::of(input.read(karpenter::KINDS).await?, karpenter::convert)?)
        }
        From::Keda(input) => (input.clone(), Made::of(input.read(keda::KINDS).await?, keda::convert)?),
    };
    if input.preview {
        for draft in &mut made.drafts {
            draft.preview();
        }
    }
    let (text, left_out) = made.render()?;
    terminal::print(&text)?;
    for reason in &left_out {
        terminal::complain(&format!("left out: {}", printable::line(reason)));
    }
    anyhow::ensure!(
        left_out.is_empty(),
        "{} of the objects or flags could not be converted; the others are printed",
        left_out.len()
    );
    Ok(())
}

/// Converts the content of a file by every import: the texts that they print, and what was left out or refused.
pub async fn by_every_import(file: &str, content: &str) -> (Vec<String>, Vec<String>) {
    let input::Read { sources, unreadable } = input::parse(file, content);
    let of_clusters = cluster_autoscaler::convert(&sources, false, None).await;
    let all = [hpa::convert(&sources), karpenter::convert(&sources), keda::convert(&sources), of_clusters];
    let (mut texts, mut refused) = (Vec::new(), unreadable);
    for made in all {
        match made.and_then(Made::render) {
            Ok((text, left_out)) => {
                texts.push(text);
                refused.extend(left_out);
            }
            Err(error) => refused.push(format!("{error:#}")),
        }
    }
    (texts, refused)
}

/// Names those of the fields that are to be whole numbers and are not; the draft becomes a preview.
fn say_not_whole(draft: &mut output::Draft, title: &str, object: &Value, fields: &[&str]) {
    for field in fields {
        let value = &object[*field];
        if !value.is_null() && !value.is_i64() {
            draft.say(format!("{title}{field} {value}: not a whole number. Nothing was made of it: write one, without quotes."));
            draft.only_preview(&format!("{title}{field} could not be kept, see above"));
        }
    }
}

/// Comments on a workload of another kind than those of Kubernetes, with the permission that the operator needs to
/// scale it.
fn say_foreign_target(draft: &mut output::Draft, target: &Value) {
    let version = target["apiVersion"].as_str().unwrap_or("apps/v1");
    let kind = target["kind"].as_str().unwrap_or("Deployment");
    let group = version.split_once('/').map_or("", |(group, _)| group);
    if !matches!(group, "apps" | "") {
        draft.say(format!(
            "target {kind} of {version}: its definition must be installed and have a scale subresource, and the operator must \
             be allowed to use it: add {{apiGroup: {group:?}, resource: {}}} to workloads.extraScaleResources of the chart.",
            plural(kind)
        ));
    }
}

/// The usual plural of a kind.
fn plural(kind: &str) -> String {
    format!("{}s", kind.to_ascii_lowercase())
}

/// Names the files' objects that an import has made nothing of.
fn say_passed_over(made: &mut Made, sources: &[input::Source], is_used: impl Fn(&input::Source) -> bool) {
    // Of a live cluster whole kinds were read, most of whose objects are somebody else's.
    let others = sources.iter().filter(|source| !is_used(source) && source.from != input::CLUSTER);
    let titles: Vec<String> = others.map(input::Source::title).collect();
    if !titles.is_empty() {
        let comment = format!("Passed over, for this import does not read them: {}.", titles.join(", "));
        match made.drafts.first_mut() {
            Some(draft) => draft.say(comment),
            None => made.left_out.push(comment),
        }
    }
}

#[cfg(test)]
mod tests;
