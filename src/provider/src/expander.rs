//! The server of expander `Grpc` behind one trait. The package `headroom-externalgrpc` asks it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use headroom_api::validate::ValidatedExpander;
use headroom_core::question::Question;

use crate::external_grpc::{Address, Tls};

/// Settings of the calls to an expander server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpanderSettings {
    /// The server.
    pub server: Address,
    /// Deadline of a call, the connection included.
    pub timeout: Duration,
    /// True if the server gets the pods of each option.
    pub sends_pods: bool,
}

impl From<&ValidatedExpander> for ExpanderSettings {
    fn from(valid: &ValidatedExpander) -> Self {
        let ValidatedExpander { address, tls, timeout, empty_answer: _, sends_pods } = valid;
        Self {
            server: Address { address: address.as_str().into(), tls: tls.as_ref().map(Tls::from) },
            timeout: *timeout,
            sends_pods: *sends_pods,
        }
    }
}

/// Options that the server named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BestOptions {
    /// Options of the question, in its order, each once.
    pub kept: Vec<Arc<str>>,
    /// True if it named none at all, known or not.
    pub is_empty: bool,
}

/// Asks a server of Cluster Autoscaler's expander protocol. It remembers connections, and no answers.
pub trait AskExpander: Send + Sync {
    /// The options that the server names. It ends within [`ExpanderSettings::timeout`].
    ///
    /// # Errors
    /// A message that says why there is no answer.
    fn best_options<'a>(
        &'a self,
        settings: &'a ExpanderSettings,
        question: &'a Question,
    ) -> BoxFuture<'a, Result<BestOptions, String>>;
}
