//! The client of Cluster Autoscaler's expander protocol: one question, one answer. It remembers no answer.

mod request;
pub mod wire;

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use headroom_core::question::Question;
use headroom_observe::host::Host;
use headroom_provider::expander::{AskExpander, BestOptions, ExpanderSettings};
use headroom_provider::external_grpc::Address;

use self::wire::{BestOptionsResponse, EXPANDER_SERVICE};
use crate::client::Client;

pub use self::request::request;

/// Asks the server that the cluster's policy names.
pub struct Expander {
    host: Arc<Host>,
    /// The connection to the server of the last question.
    client: Mutex<Option<(Address, Arc<Client>)>>,
}

impl Expander {
    /// One that connects at its first question.
    #[must_use]
    pub fn new(host: Arc<Host>) -> Self {
        Self { host, client: Mutex::default() }
    }

    fn client(&self, address: &Address) -> Arc<Client> {
        let mut known = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, client)) = known.as_ref()
            && of == address
        {
            return client.clone();
        }
        let client = Arc::new(Client::new(address.clone(), self.host.clone()));
        *known = Some((address.clone(), client.clone()));
        client
    }

    async fn ask(&self, settings: &ExpanderSettings, question: &Question) -> Result<BestOptions, String> {
        let request = request(question, settings.sends_pods);
        let client = self.client(&settings.server);
        let call = client.call_of::<_, BestOptionsResponse>(
            EXPANDER_SERVICE,
            "BestOptions",
            request,
            settings.timeout,
        );
        // The connection counts in the deadline too.
        match tokio::time::timeout(settings.timeout, call).await {
            Ok(Ok(answer)) => Ok(named(&answer, question)),
            Ok(Err(error)) => Err(error.message),
            Err(_) => Err(format!("BestOptions: no answer within {:?}", settings.timeout)),
        }
    }
}

/// Returns the options of a question that an answer names. Counts, order, pods and repetitions have no meaning.
///
/// Source: expander/grpcplugin/grpc_client.go, transformAndSanitizeOptionsFromGRPC.
#[must_use]
pub fn named(answer: &BestOptionsResponse, question: &Question) -> BestOptions {
    let is_named = |name: &str| answer.options.iter().any(|option| option.node_group_id == name);
    let names = question.options.iter().map(|option| &option.name);
    BestOptions {
        kept: names.filter(|name| is_named(name)).cloned().collect(),
        is_empty: answer.options.is_empty(),
    }
}

impl AskExpander for Expander {
    fn best_options<'a>(
        &'a self,
        settings: &'a ExpanderSettings,
        question: &'a Question,
    ) -> BoxFuture<'a, Result<BestOptions, String>> {
        Box::pin(self.ask(settings, question))
    }
}
