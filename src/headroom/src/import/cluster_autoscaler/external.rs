//! A server of the externalgrpc protocol from `--cloud-config`, as a NodePool of all its groups.

use std::collections::BTreeSet;

use serde_json::Value;

use super::arguments::CommandLine;
use super::pools::{MAX_NODES_UNKNOWN, pool_fields};
use super::settings::Settings;
use crate::import::durations::{go_seconds, written};
use crate::import::input::Source;
use crate::import::names;
use crate::import::output::Draft;

/// The word of `--cloud-provider`.
pub(super) const WORD: &str = "externalgrpc";
/// Folder with the operator's certificates.
pub(super) const FOLDER: &str = "/etc/headroom/external-grpc/cluster-autoscaler";
/// Keys of the configuration of a server.
const KEYS: [&str; 5] = ["address", "key", "cert", "cacert", "grpc_timeout"];
/// Flags that Cluster Autoscaler does not pass to a server.
const UNUSED: [&str; 2] = ["nodes", "node-group-auto-discovery"];

/// The configuration that `--cloud-config` names, and where it was found: a key of a ConfigMap or Secret of that file name, or
/// a file that is the configuration itself.
fn config<'a>(line: &CommandLine, sources: &'a [Source]) -> Option<(Value, &'a Source)> {
    let path = line.last("cloud-config").unwrap_or_default();
    let file = path.rsplit('/').next().unwrap_or_default();
    let is_config = |value: &Value| value["address"].is_string();
    sources.iter().find_map(|source| {
        if is_config(&source.object) {
            return Some((source.object.clone(), source));
        }
        let texts = [&source.object["data"], &source.object["stringData"]];
        let found = texts.into_iter().find_map(|data| data.get(file)?.as_str());
        let value: Value = serde_saphyr::from_str(found?).ok()?;
        is_config(&value).then_some((value, source))
    })
}

/// True if the source is the configuration of the server.
pub(super) fn is_config(line: &CommandLine, sources: &[Source], source: &Source) -> bool {
    config(line, sources).is_some_and(|(_, found)| found == source)
}

/// The pool.
///
/// # Errors
/// If the configuration of the server is not among what was given.
pub(super) fn pool(line: &CommandLine, sources: &[Source], settings: &mut Settings) -> anyhow::Result<Draft> {
    let path = line.last("cloud-config").unwrap_or_default();
    let (config, _) = config(line, sources).ok_or_else(|| {
        anyhow::anyhow!(
            "--cloud-provider={WORD}: the configuration of its server is missing: give the ConfigMap or the file that \
             --cloud-config={path} names"
        )
    })?;
    let text = |field: &str| config[field].as_str().filter(|text| !text.is_empty());
    let mut draft = Draft::new("NodePool", None, &names::pool("external", &mut BTreeSet::new()));
    draft.set("provider.type", "ExternalGrpc", &format!("--cloud-provider={WORD}"));
    let server = "provider.externalGrpc";
    draft.set(
        &format!("{server}.address"),
        text("address").unwrap_or_default(),
        &format!("address of {path}"),
    );
    match (text("cacert"), text("cert"), text("key")) {
        (Some(ca), Some(cert), Some(key)) => {
            for (field, from) in [("caFile", ca), ("certFile", cert), ("keyFile", key)] {
                let name = from.rsplit('/').next().unwrap_or_default();
                draft.set(&format!("{server}.tls.{field}"), format!("{FOLDER}/{name}"), from);
            }
            draft.say(
                "Put the three files into a Secret named cluster-autoscaler in the operator's namespace, and set \
                 provider.externalGrpc.secrets: [cluster-autoscaler] of the chart.",
            );
        }
        _ => draft.set(
            &format!("{server}.insecure"),
            true,
            "there is no cert: Cluster Autoscaler connects in plaintext",
        ),
    }
    if let Some(timeout) = text("grpc_timeout") {
        match go_seconds(timeout) {
            Some(seconds) if (1..=60).contains(&seconds) => {
                draft.set(
                    &format!("{server}.readTimeout"),
                    written(seconds),
                    "grpc_timeout; writes have writeTimeout",
                );
            }
            _ => draft
                .say(format!("grpc_timeout: {timeout}: not 1s to 60s: the default of readTimeout holds.")),
        }
    }
    for (key, value) in
        config.as_object().into_iter().flatten().filter(|(key, _)| !KEYS.contains(&key.as_str()))
    {
        draft.say(format!(
            "{path}: {key} {value}: UNKNOWN key: Cluster Autoscaler reads {} of it. Nothing was made of it.",
            KEYS.join(", ")
        ));
    }
    draft.set(&format!("{server}.idRegex"), ".*", "all groups of the server");
    draft.say(
        "All groups of the server are one pool: they are balanced, and share rank and settings. Groups that differ (size \
         of machine, labels) want a pool each: name them in nodeGroups.",
    );
    let given = line.flags.iter().filter(|given| UNUSED.contains(&given.name.as_str()));
    for flag in given {
        draft.say(format!(
            "{}: Cluster Autoscaler does not pass it to the server: nothing was made of it.",
            flag.written()
        ));
    }
    pool_fields(&mut draft, settings);
    let max = settings.max_nodes.unwrap_or(MAX_NODES_UNKNOWN);
    draft.set("maxNodes", max, "required here; each group's own maximum holds too");
    Ok(draft)
}
