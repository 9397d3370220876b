//! A question to the server of expander `Grpc`: options with their nodes and pods, as data. Nobody is asked here.

use std::sync::Arc;

use serde::Serialize;

use headroom_values::labels::ObjectKey;
use headroom_values::resources::Resources;

use crate::world::pod::{Owner, PodClass};
use crate::world::template::NodeTemplate;

/// Most pods of a question; options are described without the others.
pub const PODS_MAX: usize = 5_000;

/// A question to the expander server: the option to buy out of several.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Hash of all that follows: equal questions have one answer.
    pub key: Arc<str>,
    /// At least two, in order of the pools' names.
    pub options: Vec<QuestionOption>,
    /// The pods that options take.
    pub pods: Vec<QuestionPod>,
}

/// So many new nodes of one pool for some of the pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionOption {
    /// The name by which it is asked: the id of the pool's group if it has one group, else the pool's name.
    pub name: Arc<str>,
    /// The pool.
    pub pool: Arc<str>,
    /// New nodes.
    pub nodes_count: u32,
    /// Pods that they take, those that the question leaves out included.
    pub pods_count: u32,
    /// Template of a new node.
    pub node: NodeTemplate,
    /// The pods that it takes, as ranges of [`Question::pods`]: the first, and how many.
    pub pods: Vec<(usize, usize)>,
}

/// A pod that waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionPod {
    /// Namespace and name; of a pod that does not exist yet, the name of its owner and a number.
    pub key: ObjectKey,
    /// Unique id; empty for a pod that does not exist yet.
    pub uid: Arc<str>,
    /// Its controller, if it has one and exists.
    pub owner: Option<Arc<Owner>>,
    /// The pod's class: everything that it shares with its siblings.
    pub class: Arc<PodClass>,
}

impl Question {
    /// The question about these options and pods.
    #[must_use]
    pub fn new(options: Vec<QuestionOption>, pods: Vec<QuestionPod>) -> Self {
        let mut hash = Hash::default();
        for option in &options {
            hash.text(&option.name);
            hash.text(&option.pool);
            hash.number(option.nodes_count.into());
            hash.number(option.pods_count.into());
            hash.node(&option.node);
            for (first, count) in &option.pods {
                hash.number(i64::try_from(*first).unwrap_or(i64::MAX));
                hash.number(i64::try_from(*count).unwrap_or(i64::MAX));
            }
        }
        for pod in &pods {
            hash.text(&pod.key.namespace);
            hash.text(&pod.key.name);
            hash.text(&pod.uid);
        }
        Self { key: format!("{:016x}", hash.0).into(), options, pods }
    }

    /// The pods of an option.
    pub fn pods_of<'a>(&'a self, option: &'a QuestionOption) -> impl Iterator<Item = &'a QuestionPod> {
        option.pods.iter().flat_map(|(first, count)| self.pods.iter().skip(*first).take(*count))
    }
}

/// FNV-1a: short, and fixed for all time, unlike the standard library's hashers.
struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    fn bytes(&mut self, bytes: impl IntoIterator<Item = u8>) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// A text and its end, so that two texts are not one longer text.
    fn text(&mut self, text: &str) {
        self.bytes(text.bytes().chain([0xff]));
    }

    fn number(&mut self, number: i64) {
        self.bytes(number.to_le_bytes());
    }

    fn amounts(&mut self, amounts: &Resources) {
        for amount in [amounts.cpu_milli, amounts.memory_bytes, amounts.ephemeral_bytes, amounts.pods] {
            self.number(amount);
        }
        for (name, amount) in amounts.extended_iter() {
            self.text(name);
            self.number(amount);
        }
    }

    fn node(&mut self, node: &NodeTemplate) {
        for (key, value) in node.labels.iter() {
            self.text(key);
            self.text(value);
        }
        for taint in &node.taints {
            self.text(&taint.key);
            self.text(&taint.value);
            self.text(taint.effect.as_str());
        }
        self.amounts(&node.capacity);
        self.amounts(&node.allocatable);
    }
}
