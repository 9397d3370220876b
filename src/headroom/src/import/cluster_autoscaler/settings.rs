//! Flags as fields: values converted, and one comment for every flag that is no field.

use serde_json::{Value, json};

use super::arguments::{CommandLine, Given};
use super::flags::{Flag, Kind, Use};
use crate::import::durations::{go_seconds, written};
use crate::import::output::Draft;

/// Settings by flags of all pools and of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Settings {
    /// The ClusterScalingPolicy.
    pub policy: Draft,
    /// Fields of every NodePool, each with its flag.
    pub pool_fields: Vec<(&'static str, Value, String)>,
    /// Keys of startup taints, each with its flag.
    pub startup_taints: Vec<(String, String)>,
    /// True if groups that look alike are balanced.
    pub balance: bool,
    /// True if unready nodes stay.
    pub keep_unready: Option<String>,
    /// The flag that caps the whole cluster, if any.
    pub max_nodes: Option<u32>,
    /// True if the expanders have `grpc`, and its server is named.
    pub asks_server: bool,
}

/// The largest limits that Cluster Autoscaler has by default: no limits.
const NO_LIMIT_CORES: u64 = 320_000;
const NO_LIMIT_GIB: u64 = 6_400_000;

/// Goes through all flags; those whose values cannot be read are left out, with the reason.
pub(super) fn read(line: &CommandLine, left_out: &mut Vec<String>) -> Settings {
    let mut settings = Settings {
        policy: Draft::new("ClusterScalingPolicy", None, "default"),
        pool_fields: Vec::new(),
        startup_taints: Vec::new(),
        balance: false,
        keep_unready: None,
        max_nodes: None,
        asks_server: by_grpc(line) && line.last("grpc-expander-url").is_some(),
    };
    let (mut comments, mut unknown) = (Vec::new(), Vec::new());
    for (index, given) in line.flags.iter().enumerate() {
        let flag = given.written();
        let Some(known) = given.flag else {
            unknown.push(format!(
                "{flag}: UNKNOWN flag: no release that this program knows has it. Nothing was made of it."
            ));
            continue;
        };
        let repeats = matches!(
            given.name.as_str(),
            "nodes" | "node-group-auto-discovery" | "startup-taint" | "ignore-taint"
        );
        let later = line.flags[index + 1..].iter().any(|other| other.name == given.name);
        if later && !repeats && matches!(known.becomes, Use::Pool(_) | Use::Policy(_) | Use::Shapes(_)) {
            comments.push(format!("{flag}: given again later, which counts."));
            continue;
        }
        match one(&mut settings, given, known) {
            Ok(comment) => comments.extend(comment),
            Err(error) => left_out.push(format!("{error:#}")),
        }
    }
    comments.extend(grpc_expander(&mut settings, line));
    comments.sort();
    unknown.extend(comments);
    for word in &line.words {
        unknown.push(format!("{word}: an argument that is not a flag. Nothing was made of it."));
    }
    for comment in unknown {
        settings.policy.say(comment);
    }
    settings
}

/// Converts a flag; returns the comment that is due above the policy, if any.
fn one(settings: &mut Settings, given: &Given, known: &Flag) -> anyhow::Result<Option<String>> {
    let flag = given.written();
    match known.becomes {
        Use::Pool(field) => settings.pool_fields.push((field, value(given, known.kind)?, flag)),
        Use::Policy(field) => settings.policy.set(field, value(given, known.kind)?, &flag),
        Use::Shapes(words) => return shape(settings, given, words),
        Use::Elsewhere(words) => return Ok(Some(format!("{flag}: has another place: {words}."))),
        Use::NoEffect(words) => return Ok(Some(format!("{flag}: no effect here: {words}."))),
    }
    Ok(None)
}

/// A flag with a meaning of its own; the comment that is due above the policy, if any.
fn shape(settings: &mut Settings, given: &Given, words: &str) -> anyhow::Result<Option<String>> {
    let flag = given.written();
    let policy = &mut settings.policy;
    let comment = match given.name.as_str() {
        "balance-similar-node-groups" => {
            settings.balance = switch(given)?;
            policy.set("nodes.balanceSimilarPools", settings.balance, &flag);
            settings.balance.then(|| format!("{flag}: {words}."))
        }
        "expander" => expanders(settings, given)?,
        "bypassed-scheduler-names" => {
            let names = given.value.split(',').map(str::trim).filter(|name| !name.is_empty());
            names.for_each(|name| policy.push("nodes.immediateSchedulers", name, &flag));
            None
        }
        "max-nodes-total" => {
            let nodes = number(given)?;
            settings.max_nodes = u32::try_from(nodes).ok().filter(|nodes| 0 < *nodes);
            match nodes {
                0 => Some(format!("{flag}: no limit, as here without nodes.limits.nodes.")),
                nodes => {
                    policy.set("nodes.limits.nodes", nodes, &flag);
                    None
                }
            }
        }
        "cores-total" => limit(policy, given, "cpu", "", NO_LIMIT_CORES)?,
        "memory-total" => limit(policy, given, "memory", "Gi", NO_LIMIT_GIB)?,
        "scale-down-unready-enabled" => {
            if switch(given)? {
                Some(format!("{flag}: so it is here."))
            } else {
                settings.keep_unready = Some(flag);
                None
            }
        }
        "startup-taint" | "ignore-taint" => {
            settings.startup_taints.push((given.value.clone(), flag));
            None
        }
        // Read where the pools are made, which say what became of them.
        "nodes" | "node-group-auto-discovery" => None,
        // Read together, when all flags have been.
        "grpc-expander-url" | "grpc-expander-cert" => None,
        "cloud-provider" => Some(format!("{flag}: provider.type AWS.")),
        _ => Some(format!("{flag}: {words}.")),
    };
    Ok(comment)
}

/// True if the expanders have `grpc`.
fn by_grpc(line: &CommandLine) -> bool {
    line.last("expander").is_some_and(|names| names.split(',').any(|name| name.trim() == "grpc"))
}

/// The server of expander `grpc`; the comments that are due above the policy.
fn grpc_expander(settings: &mut Settings, line: &CommandLine) -> Vec<String> {
    let of_server = ["grpc-expander-url", "grpc-expander-cert"];
    let given = line.flags.iter().filter(|given| of_server.contains(&given.name.as_str()));
    let flags: Vec<String> = given.map(Given::written).collect();
    if !settings.asks_server {
        let unused = |flag: String| format!("{flag}: no effect here: there is no --expander=grpc.");
        return flags.into_iter().map(unused).collect();
    }
    let policy = &mut settings.policy;
    let url = line.last("grpc-expander-url").unwrap_or_default();
    let address = url.rsplit_once('/').map_or(url, |(_, address)| address);
    policy.set("nodes.grpcExpander.address", address, &format!("--grpc-expander-url={url}"));
    let path = line.last("grpc-expander-cert").unwrap_or("ca.crt");
    let file = path.rsplit('/').next().unwrap_or_default();
    let ca = format!("{}/{file}", super::external::FOLDER);
    policy.set("nodes.grpcExpander.tls.caFile", ca, &format!("--grpc-expander-cert={path}"));
    vec![
        format!(
            "--grpc-expander-cert={path}: put the file into a Secret named cluster-autoscaler in the operator's \
             namespace, and set provider.externalGrpc.secrets: [cluster-autoscaler] of the chart."
        ),
        format!(
            "--grpc-expander-url={url}: an option is a pool. Its server gets the id of the pool's group where the pool \
             has one group, and the pool's name where it has several."
        ),
    ]
}

fn expanders(settings: &mut Settings, given: &Given) -> anyhow::Result<Option<String>> {
    let flag = given.written();
    let (policy, asks_server) = (&mut settings.policy, settings.asks_server);
    let mut left_out = Vec::new();
    for name in given.value.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let ours = match name {
            "least-waste" => "LeastWaste",
            "least-nodes" => "LeastNodes",
            "most-pods" => "MostPods",
            "priority" => "Priority",
            "price" => "Price",
            "random" => {
                left_out.push("random: ties are broken by name, so that the same state gives the same plan");
                continue;
            }
            "grpc" if asks_server => "Grpc",
            "grpc" => {
                left_out.push("grpc: left out, since there is no --grpc-expander-url");
                continue;
            }
            other => anyhow::bail!("{flag}: there is no expander {other}"),
        };
        policy.push("nodes.expanders", ours, &flag);
    }
    if policy.get("nodes.expanders").is_null() {
        policy.push("nodes.expanders", "LeastWaste", "the default of both");
    }
    Ok((!left_out.is_empty()).then(|| format!("{flag}: {}.", left_out.join("; "))))
}

/// `<min>:<max>` as a limit; the minimum has no counterpart.
fn limit(
    policy: &mut Draft,
    given: &Given,
    field: &str,
    unit: &str,
    none: u64,
) -> anyhow::Result<Option<String>> {
    let flag = given.written();
    let bounds =
        given.value.split_once(':').and_then(|(min, max)| Some((min.parse().ok()?, max.parse().ok()?)));
    let (min, max): (u64, u64) = bounds.ok_or_else(|| anyhow::anyhow!("{flag}: write <min>:<max>"))?;
    if max < none {
        policy.set(&format!("nodes.limits.{field}"), format!("{max}{unit}"), &flag);
    }
    let mut words = Vec::new();
    if none <= max {
        words.push("its maximum means no limit".to_owned());
    }
    if 0 < min {
        words.push(format!("its minimum of {min}{unit} has no counterpart: set minNodes of a pool"));
    }
    Ok((!words.is_empty()).then(|| format!("{flag}: {}.", words.join("; "))))
}

/// A value as its field takes it.
fn value(given: &Given, kind: Kind) -> anyhow::Result<Value> {
    let flag = given.written();
    let float = || given.value.parse::<f64>().map_err(|_| anyhow::anyhow!("{flag}: write a number"));
    let whole = |number: f64| -> anyhow::Result<Value> {
        anyhow::ensure!(number.is_finite() && number.abs() < 1e9, "{flag}: the number is too large");
        Ok(format!("{:.0}", number.round()).parse::<i64>()?.into())
    };
    Ok(match kind {
        Kind::Switch => switch(given)?.into(),
        Kind::Number => number(given)?.into(),
        Kind::Ratio => whole(float()? * 100.0)?,
        Kind::Percent => whole(float()?)?,
        Kind::Seconds => {
            let seconds =
                u64::try_from(number(given)?).map_err(|_| anyhow::anyhow!("{flag}: it is negative"))?;
            written(seconds).into()
        }
        Kind::Time => {
            let seconds = go_seconds(&given.value);
            written(seconds.ok_or_else(|| anyhow::anyhow!("{flag}: write a duration such as 10m"))?).into()
        }
        Kind::Text => json!(given.value),
    })
}

fn switch(given: &Given) -> anyhow::Result<bool> {
    match given.value.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => Ok(true),
        "false" | "f" | "0" => Ok(false),
        _ => anyhow::bail!("{}: write true or false", given.written()),
    }
}

fn number(given: &Given) -> anyhow::Result<i64> {
    given.value.parse().map_err(|_| anyhow::anyhow!("{}: write a whole number", given.written()))
}
