//! The object that a command is asked about: `KIND NAME`, `KIND/NAME` or `KIND/NAMESPACE/NAME`. It reads no cluster.

use std::ffi::OsStr;

use anyhow::{anyhow, bail};
use clap::ValueEnum;
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};

/// Kinds of objects that can be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// Reasons why a pod is pending, or the steps by which it got its node.
    #[value(aliases = ["pods", "po"])]
    Pod,
    /// Reasons why a node stays, or the steps of its removal.
    #[value(aliases = ["nodes", "no"])]
    Node,
    /// Reasons for a workload's number of replicas.
    #[value(aliases = ["deployments", "deploy"])]
    Deployment,
    /// As deployment.
    #[value(aliases = ["statefulsets", "sts"])]
    Statefulset,
    /// As deployment.
    #[value(aliases = ["replicasets", "rs"])]
    Replicaset,
    /// Reasons why a Job's pods are pending.
    #[value(aliases = ["jobs"])]
    Job,
    /// The same for a DaemonSet, whose size is the nodes that it is meant for.
    #[value(aliases = ["daemonsets", "ds"])]
    Daemonset,
    /// State of a pool, and the reasons that hold it back.
    #[value(aliases = ["nodepools", "hnp", "pool"])]
    Nodepool,
    /// Desired replicas of a HorizontalPodAutoscaler, and the reasons for them.
    #[value(aliases = ["hpas", "horizontalpodautoscaler", "horizontalpodautoscalers"])]
    Hpa,
    /// The same for a ScalingPolicy.
    #[value(aliases = ["scalingpolicies", "hsp"])]
    Scalingpolicy,
    /// Nodes that hold the pods of a CapacityBuffer, and the reasons why the rest is missing.
    #[value(aliases = ["capacitybuffers", "cb"])]
    Capacitybuffer,
    /// State of a ProvisioningRequest, and the reasons why its nodes are missing.
    #[value(aliases = ["provisioningrequests", "provreq", "provreqs"])]
    Provisioningrequest,
}

impl Subject {
    /// The kind as objects spell it.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Node => "Node",
            Self::Deployment => "Deployment",
            Self::Statefulset => "StatefulSet",
            Self::Replicaset => "ReplicaSet",
            Self::Job => "Job",
            Self::Daemonset => "DaemonSet",
            Self::Nodepool => "NodePool",
            Self::Hpa => "HorizontalPodAutoscaler",
            Self::Scalingpolicy => "ScalingPolicy",
            Self::Capacitybuffer => "CapacityBuffer",
            Self::Provisioningrequest => "ProvisioningRequest",
        }
    }

    /// True if its objects are in no namespace.
    #[must_use]
    pub fn cluster_scoped(self) -> bool {
        matches!(self, Self::Node | Self::Nodepool)
    }
}

/// The first word: a kind, with or without what follows it after a slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The kind.
    pub subject: Subject,
    /// `NAME` or `NAMESPACE/NAME`.
    path: Option<String>,
}

impl Asked {
    /// Namespace and name of the object, from the words after the kind and the namespace given by an option. The namespace
    /// is `None` where nobody has named one; objects outside of namespaces take one that is given and ignore it, as kubectl
    /// does.
    ///
    /// # Errors
    /// If there is no name, or two, or two namespaces that differ, or too many slashes; with the right form.
    pub fn place(
        &self,
        name: Option<&str>,
        namespace: Option<&str>,
    ) -> anyhow::Result<(Option<String>, String)> {
        let word = self.subject.kind().to_lowercase();
        let path = match (self.path.as_deref(), name) {
            (Some(path), None) => path,
            (None, Some(path)) => path,
            (None, None) => bail!("no name: write {word} NAME, or {word}/NAME"),
            (Some(path), Some(name)) => {
                bail!("two names, {path} and {name}: write {word} NAME, or {word}/NAME")
            }
        };
        let form = match self.subject.cluster_scoped() {
            true => anyhow!("{word}/{path} names no object: write {word}/NAME"),
            false => anyhow!("{word}/{path} names no object: write {word}/NAME or {word}/NAMESPACE/NAME"),
        };
        let (inside, name) = match path.split_once('/') {
            None => (None, path),
            Some((inside, name)) => (Some(inside), name),
        };
        if name.is_empty() || name.contains('/') || inside.is_some_and(str::is_empty) {
            return Err(form);
        }
        match (inside, namespace) {
            (Some(_), _) if self.subject.cluster_scoped() => Err(form),
            (Some(inside), Some(given)) if inside != given => {
                bail!("two namespaces, {inside} and {given}: name one of them")
            }
            (inside, given) => Ok((inside.or(given).map(str::to_owned), name.to_owned())),
        }
    }
}

/// Reads [`Asked`], and knows the kinds for helps and completions.
#[derive(Clone, Copy, Debug)]
pub struct AskedParser;

impl TypedValueParser for AskedParser {
    type Value = Asked;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Asked, clap::Error> {
        // A word that is not UTF-8 is not a kind: the parser of kinds reports that.
        let text = value.to_str().unwrap_or_default();
        let (kind, path) = match text.split_once('/') {
            Some((kind, path)) => (OsStr::new(kind), Some(path.to_owned())),
            None => (value, None),
        };
        let subject = EnumValueParser::<Subject>::new().parse_ref(command, argument, kind)?;
        Ok(Asked { subject, path })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Subject::value_variants().iter().filter_map(Subject::to_possible_value)))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[arg(value_parser = AskedParser)]
        asked: Asked,
        name: Option<String>,
        #[arg(short)]
        namespace: Option<String>,
    }

    /// Kind, namespace and name of a command line, or what is wrong with it.
    fn read(line: &str) -> Result<(Subject, Option<String>, String), String> {
        let words = std::iter::once("explain").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        let place = line.asked.place(line.name.as_deref(), line.namespace.as_deref());
        let (namespace, name) = place.map_err(|error| error.to_string())?;
        Ok((line.asked.subject, namespace, name))
    }

    #[test]
    fn each_way_to_write_an_object_is_taken() {
        let pod =
            |namespace: Option<&str>| Ok((Subject::Pod, namespace.map(str::to_owned), "web-0".to_owned()));
        for line in ["pod web-0", "pod/web-0", "pods/web-0", "po/web-0"] {
            assert_eq!(read(line), pod(None), "{line}");
        }
        for line in [
            "pod web-0 -n shop",
            "pod/web-0 -n shop",
            "pod/shop/web-0",
            "pod shop/web-0",
            "pod/shop/web-0 -n shop",
        ] {
            assert_eq!(read(line), pod(Some("shop")), "{line}");
        }
        assert_eq!(read("hnp/general"), Ok((Subject::Nodepool, None, "general".to_owned())));
        assert_eq!(
            read("deploy/shop/web"),
            Ok((Subject::Deployment, Some("shop".to_owned()), "web".to_owned()))
        );
    }

    #[test]
    fn what_names_no_object_says_how_to_write_it() {
        for (line, words) in [
            ("pod", "no name: write pod NAME, or pod/NAME"),
            ("pod/", "write pod/NAME or pod/NAMESPACE/NAME"),
            ("pod/shop/", "write pod/NAME or pod/NAMESPACE/NAME"),
            ("pod//web-0", "write pod/NAME or pod/NAMESPACE/NAME"),
            ("pod/a/b/c", "write pod/NAME or pod/NAMESPACE/NAME"),
            ("pod/web-0 web-1", "two names, web-0 and web-1"),
            ("pod/shop/web-0 -n blog", "two namespaces, shop and blog"),
            ("node/shop/a", "node/shop/a names no object: write node/NAME"),
            ("bod/web-0", "possible values: pod, node"),
        ] {
            let wrong = read(line).expect_err(line);
            assert!(wrong.contains(words), "{line}: {wrong}");
        }
    }
}
