//! The command line of a Cluster Autoscaler Deployment, taken apart as its flag library does.

use std::collections::BTreeMap;

use serde_json::Value;

use super::flags::{self, Flag, Kind};
use crate::import::input::Source;

/// A flag as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// Its name, `_` read as `-`.
    pub name: String,
    /// Its value; `true` for a bare switch.
    pub value: String,
    /// Flag of Cluster Autoscaler of this name; `None` if it is unknown.
    pub flag: Option<&'static Flag>,
}

impl Given {
    /// As on a command line.
    #[must_use]
    pub(super) fn written(&self) -> String {
        format!("--{}={}", self.name, self.value)
    }
}

/// A Deployment's command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    /// Its flags, in order.
    pub flags: Vec<Given>,
    /// Words that are no flags, such as a file name.
    pub words: Vec<String>,
    /// The environment, as far as the Deployment says it.
    pub environment: BTreeMap<String, String>,
}

impl CommandLine {
    /// The last value of a flag, which is the one that counts.
    #[must_use]
    pub(super) fn last(&self, name: &str) -> Option<&str> {
        self.flags.iter().rev().find(|given| given.name == name).map(|given| given.value.as_str())
    }

    /// All values of a flag, in order.
    #[must_use]
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        self.flags.iter().filter(|given| given.name == name).map(|given| given.value.as_str()).collect()
    }
}

/// The container of a Deployment that runs Cluster Autoscaler; `None` when there is none.
#[must_use]
pub(super) fn container_of(source: &Source) -> Option<&Value> {
    if source.kind() != "Deployment" {
        return None;
    }
    let containers = source.object.pointer("/spec/template/spec/containers")?.as_array()?;
    containers.iter().find(|container| {
        let command = words(container, "command").into_iter().chain(words(container, "args"));
        let image = container["image"].as_str().unwrap_or_default();
        let mut all = command.chain([image.to_owned()]);
        all.any(|word| word.contains("cluster-autoscaler") && !word.starts_with("--"))
            || words(container, "args").iter().any(|word| word.starts_with("--node-group-auto-discovery"))
    })
}

/// Takes a container's command line apart.
#[must_use]
pub(super) fn read(container: &Value) -> CommandLine {
    let variables = container["env"].as_array().into_iter().flatten();
    let environment: BTreeMap<String, String> = variables
        .filter_map(|one| Some((one["name"].as_str()?.to_owned(), one["value"].as_str()?.to_owned())))
        .collect();
    let all: Vec<String> = words(container, "command")
        .into_iter()
        .chain(words(container, "args"))
        .map(|word| with_variables(&word, &environment))
        .collect();
    let (mut flags, mut rest) = (Vec::new(), Vec::new());
    let mut at = all.iter().peekable();
    while let Some(word) = at.next() {
        let Some((name, value)) = name_and_value(word) else {
            rest.push(word.clone());
            continue;
        };
        let flag = flags::find(&name);
        let is_switch = flag.is_some_and(|flag| flag.kind == Kind::Switch);
        let value = match value {
            Some(value) => value,
            None if is_switch => "true".to_owned(),
            None => at
                .next_if(|next| name_and_value(next).is_none())
                .cloned()
                .unwrap_or_else(|| "true".to_owned()),
        };
        flags.push(Given { name, value, flag });
    }
    // The program itself comes first.
    if rest.first().is_some_and(|word| word.ends_with("cluster-autoscaler")) {
        rest.remove(0);
    }
    CommandLine { flags, words: rest, environment }
}

/// The name and the value of a word that is a flag: `--name`, `--name=value`, or with one dash as older releases took it.
fn name_and_value(word: &str) -> Option<(String, Option<String>)> {
    let bare = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    if !bare.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let (name, value) = match bare.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (bare, None),
    };
    Some((name.replace('_', "-"), value))
}

/// `$(NAME)` replaced as the kubelet does, where the Deployment says the value.
fn with_variables(word: &str, environment: &BTreeMap<String, String>) -> String {
    let replace =
        |text: String, (name, value): (&String, &String)| text.replace(&format!("$({name})"), value);
    environment.iter().fold(word.to_owned(), replace)
}

fn words(container: &Value, field: &str) -> Vec<String> {
    let list = container[field].as_array().into_iter().flatten();
    list.filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flags_are_taken_apart_as_their_library_does() {
        let container = json!({
            "command": ["./cluster-autoscaler", "--v=4", "--scale_down_unneeded_time", "5m", "--balance-similar-node-groups"],
            "args": ["-stderrthreshold=info", "--nodes=1:5:$(GROUP)", "--new-thing", "7", "left-over", "--cloud-provider", "aws"],
            "env": [{"name": "GROUP", "value": "web"}, {"name": "SECRET", "valueFrom": {}}],
        });
        let line = read(&container);
        let written: Vec<String> = line.flags.iter().map(Given::written).collect();
        let expected = [
            "--v=4",
            "--scale-down-unneeded-time=5m",
            "--balance-similar-node-groups=true",
            "--stderrthreshold=info",
            "--nodes=1:5:web",
            "--new-thing=7",
            "--cloud-provider=aws",
        ];
        assert_eq!(written, expected);
        assert_eq!(line.words, ["left-over"]);
        assert_eq!(line.flags.iter().find(|given| given.flag.is_none()).unwrap().name, "new-thing");
    }
}
