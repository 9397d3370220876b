//! `headroom explain`, `status`, `history` and `top`: what is, why, and what it costs; from a cluster or a snapshot.

use anyhow::{Context, bail};
use clap::Args;
use headroom_core::labels::ObjectKey;
use headroom_core::printable;

pub(super) use crate::object::Subject;
use crate::object::{Asked, AskedParser};
use crate::source::{Output, Source};
use crate::terminal;
use headroom_explain::case::Opened;
use headroom_explain::{
    Explanation, buffer, compare, journal, node, overview, owned, pod, pool, request, top, workload,
};

/// Examples of `headroom explain`.
pub const EXPLAIN_EXAMPLES: &str = "Examples:
  headroom explain pod web-5d4c7-x2x9p -n shop     why it waits, or how it got its node
  headroom explain pod web -n shop                 of its pods, the one that has waited longest
  headroom explain node general-3f-12-0            why it stays, since when, until when
  headroom explain deployment web -n shop          each step from metric to replicas
  headroom explain nodepool general                what it does and what holds it back
  headroom explain capacitybuffer web -n shop      where its room is, and what the rest lacks
  headroom explain pod/web-0 -n shop               as kubectl writes it; pod/shop/web-0 is the same
  headroom explain pod web-0 --snapshot cluster.json.gz";

/// Examples of `headroom status`.
pub const STATUS_EXAMPLES: &str = "Examples:
  headroom status
  headroom status --snapshot cluster.json.gz -o yaml";

/// Examples of `headroom history`.
pub const HISTORY_EXAMPLES: &str = "Examples:
  headroom history
  headroom history --for nodepool/general
  headroom history -o json | jq '.[] | select(.outcome == \"Failed\")'";

/// Examples of `headroom top`.
pub const TOP_EXAMPLES: &str = "Examples:
  headroom top
  headroom top -o json";

/// Examples of `headroom compare`.
pub const COMPARE_EXAMPLES: &str = "Beside Cluster Autoscaler or the HPA controller, before they are switched off: pools and ScalingPolicies of
mode Preview, all of them under an operator that was started with --preview, and HPAs that are observed.

Examples:
  headroom compare
  headroom compare -o json | jq '.pools[] | select(.difference != 0)'
  headroom compare --snapshot cluster.json.gz";

/// So many names are listed where none is near.
const LISTED_MAX: usize = 5;

/// Options of `headroom explain`.
#[derive(Args, Clone, Debug)]
pub struct ExplainOptions {
    /// Kind of the object; KIND/NAME and KIND/NAMESPACE/NAME name the whole object
    #[arg(value_parser = AskedParser, value_name = "KIND")]
    pub asked: Asked,

    /// Its name, or NAMESPACE/NAME
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// Its namespace; the context's if not given
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// Source of the case: a cluster, an operator or a snapshot.
    #[command(flatten)]
    pub source: Source,

    /// Format of the output.
    #[command(flatten)]
    pub output: Output,
}

/// Options of `headroom status` and `headroom top`.
#[derive(Args, Clone, Debug)]
pub struct ViewOptions {
    /// Source of the case: a cluster, an operator or a snapshot.
    #[command(flatten)]
    pub source: Source,

    /// Format of the output.
    #[command(flatten)]
    pub output: Output,
}

/// Options of `headroom history`.
#[derive(Args, Clone, Debug)]
pub struct HistoryOptions {
    /// Only this object, such as nodepool/general or scalingpolicy/shop/web
    #[arg(long = "for", value_name = "KIND/NAME")]
    pub object: Option<String>,

    /// Source of the case and format of the output.
    #[command(flatten)]
    pub view: ViewOptions,
}

/// Explains one object.
///
/// # Errors
/// If there is no such object, with names that are near; if the cluster or file cannot be read.
pub async fn explain(options: ExplainOptions) -> anyhow::Result<()> {
    let subject = options.asked.subject;
    let (namespace, name) = options.asked.place(options.name.as_deref(), options.namespace.as_deref())?;
    let namespace = options.source.namespace(namespace.as_deref()).await?;
    let case = options.source.case(options.output).await?;
    let opened = case.open().context("failed to plan")?;
    let key = ObjectKey::new(namespace.as_str(), name.as_str());
    let Some(explanation) = explanation_of(&opened, subject, &key) else {
        if subject == Subject::Node
            && let Some(end) = node::end(&opened, &key.name)
        {
            bail!("no Node {}: {end}", key.name);
        }
        if subject == Subject::Pod
            && let Some(end) = pod::end(&opened, &key)
        {
            bail!("no Pod {key}: {end}");
        }
        bail!("{}", missing(&opened, subject, &key));
    };
    options.output.print(&explanation, || explanation.text())
}

pub(super) fn explanation_of(opened: &Opened<'_>, subject: Subject, key: &ObjectKey) -> Option<Explanation> {
    match subject {
        Subject::Pod => pod::explain(opened, key).or_else(|| owned::explain(opened, key)),
        Subject::Node => node::explain(opened, &key.name),
        Subject::Nodepool => pool::explain(opened, &key.name),
        Subject::Hpa => workload::explain_hpa(opened, key),
        Subject::Scalingpolicy => workload::explain_policy(opened, key),
        Subject::Capacitybuffer => buffer::explain(opened, key),
        Subject::Provisioningrequest => request::explain(opened, key),
        Subject::Deployment
        | Subject::Statefulset
        | Subject::Replicaset
        | Subject::Job
        | Subject::Daemonset => workload::explain(opened, subject.kind(), key),
    }
}

/// Returns the message that there is no such object, with suggestions: the same name elsewhere, or a name that is near.
fn missing(opened: &Opened<'_>, subject: Subject, key: &ObjectKey) -> String {
    let evidence = &opened.case.evidence;
    let all: Vec<String> = match subject {
        Subject::Pod => opened.case.input.world.pods.iter().map(|pod| pod.key.to_string()).collect(),
        Subject::Node => opened.world.nodes().map(|(_, node, _)| node.name.to_string()).collect(),
        Subject::Nodepool => evidence.pools.keys().map(ToString::to_string).collect(),
        Subject::Hpa => evidence.hpas.iter().map(|hpa| hpa.key.to_string()).collect(),
        Subject::Scalingpolicy => evidence.policies.iter().map(|policy| policy.key.to_string()).collect(),
        Subject::Provisioningrequest => {
            opened.world.requests().objects.keys().map(ToString::to_string).collect()
        }
        Subject::Capacitybuffer => opened.world.standby().buffers.keys().map(ToString::to_string).collect(),
        Subject::Deployment
        | Subject::Statefulset
        | Subject::Replicaset
        | Subject::Job
        | Subject::Daemonset => {
            let of_kind = evidence.workloads.iter().filter(|workload| workload.kind == subject.kind());
            of_kind.map(|workload| workload.key.to_string()).collect()
        }
    };
    let wanted = if subject.cluster_scoped() { key.name.to_string() } else { key.to_string() };
    let near = near(&wanted, &all);
    let word = subject.kind();
    if let (true, [_, ..]) = (near.is_empty(), evidence.gaps.as_slice()) {
        return format!("no {word} {wanted} is to be seen; not read: {}", evidence.gaps.join("; "));
    }
    match near.as_slice() {
        [] if all.is_empty() => format!("no {word} {wanted}: there is no {word} at all"),
        [] if all.len() <= LISTED_MAX => format!("no {word} {wanted}; there is {}", all.join(", ")),
        [] => format!("no {word} {wanted}, and none of the {} others has a name like it", all.len()),
        near => format!("no {word} {wanted}; did you mean {}?", near.join(", ")),
    }
}

/// Up to three names that differ least from `wanted`: the same name in another namespace comes first.
fn near(wanted: &str, all: &[String]) -> Vec<String> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let mut scored: Vec<(usize, &String)> = all
        .iter()
        .filter_map(|candidate| {
            let (a, b) = (name(wanted), name(candidate));
            let distance = if b.starts_with(&a) || a.starts_with(&b) { 1 } else { distance(&a, &b) };
            let close = distance <= a.len().div_ceil(3);
            close.then_some((if a == b { 0 } else { distance }, candidate))
        })
        .collect();
    scored.sort();
    scored.into_iter().take(3).map(|(_, candidate)| candidate.clone()).collect()
}

/// Returns the number of letters to insert, remove, change, or exchange with the next one.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// The cluster on one screen.
///
/// # Errors
/// If the cluster or file cannot be read.
pub async fn status(options: ViewOptions) -> anyhow::Result<()> {
    let case = options.source.case(options.output).await?;
    let opened = case.open().context("failed to plan")?;
    let overview = overview::overview(&opened);
    options.output.print(&overview, || overview.text())
}

/// Decisions over time.
///
/// # Errors
/// If the cluster or file cannot be read.
pub async fn history(options: HistoryOptions) -> anyhow::Result<()> {
    let case = options.view.source.case(options.view.output).await?;
    let opened = case.open().context("failed to plan")?;
    let mut entries = journal::history(&opened);
    if let Some(object) = &options.object {
        if let Some(complaint) = unknown(&opened, object) {
            bail!("{complaint}");
        }
        entries.retain(|entry| entry.object == *object);
    }
    report_gaps(&opened);
    options.view.output.print(&entries, || journal::text(&entries, opened.now()))
}

/// Reports what could not be read, beside an answer that has no field for it.
fn report_gaps(opened: &Opened<'_>) {
    for gap in &opened.case.evidence.gaps {
        terminal::complain(&format!("not read: {}", printable::line(gap)));
    }
}

/// The reason why an object of this name has no decisions, if so: decisions are those of pools and of what scales workloads.
fn unknown(opened: &Opened<'_>, object: &str) -> Option<String> {
    let evidence = &opened.case.evidence;
    let pools = evidence.pools.keys().map(|name| format!("nodepool/{name}"));
    let policies = evidence.policies.iter().map(|policy| format!("scalingpolicy/{}", policy.key));
    let hpas = evidence.hpas.iter().map(|hpa| format!("horizontalpodautoscaler/{}", hpa.key));
    let all: Vec<String> = pools.chain(policies).chain(hpas).collect();
    if all.iter().any(|one| one == object) {
        return None;
    }
    let near = near(object, &all);
    Some(match near.as_slice() {
        [] => format!("no object {object} decides: write nodepool/NAME or scalingpolicy/NAMESPACE/NAME"),
        near => format!("no object {object} decides; did you mean {}?", near.join(", ")),
    })
}

/// Prints the amounts requested, used and wasted in each pool.
///
/// # Errors
/// If the cluster or file cannot be read.
pub async fn top(options: ViewOptions) -> anyhow::Result<()> {
    let case = options.source.case(options.output).await?;
    let opened = case.open().context("failed to plan")?;
    let rows = top::rows(&opened);
    report_gaps(&opened);
    options.output.print(&rows, || top::text(&rows))
}

/// Prints the actions that pools and workloads which are only observed would have taken.
///
/// # Errors
/// If the cluster or file cannot be read.
pub async fn compare(options: ViewOptions) -> anyhow::Result<()> {
    let case = options.source.case(options.output).await?;
    let opened = case.open().context("failed to plan")?;
    let comparison = compare::compare(&opened);
    options.output.print(&comparison, || comparison.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_near_are_suggested() {
        let all = ["shop/web".to_owned(), "shop/api".to_owned(), "blog/wbe".to_owned()];
        assert_eq!(near("default/web", &all), ["shop/web", "blog/wbe"]);
        assert_eq!(near("shop/ap", &all), ["shop/api"]);
        assert!(near("shop/database", &all).is_empty());
    }

    #[test]
    fn distances_count_letters() {
        assert_eq!(distance("web", "web"), 0);
        assert_eq!(distance("web", "wbe"), 1);
        assert_eq!(distance("web", "wxy"), 2);
        assert_eq!(distance("", "abc"), 3);
    }
}
