//! The guard as clouds see it: each of their writes passes it as each write to the Kubernetes API does.

use std::time::Duration;

use futures::future::BoxFuture;

use super::guard::{Guard, Refusal};
use headroom_provider::gate::{Closed, End, Gate};

impl Gate for Guard {
    fn pass<'a>(&'a self, operation: String, call: BoxFuture<'a, End>) -> BoxFuture<'a, Result<(), Closed>> {
        Box::pin(async move {
            match self.mutate(&operation, |end: &End| end.0.clone(), call).await {
                Ok(End(_)) => Ok(()),
                Err(refusal @ Refusal::NoClaim { .. }) => Err(Closed::NotSent(refusal.to_string())),
                Err(refusal @ Refusal::Deadline { .. }) => Err(Closed::EndUnknown(refusal.to_string())),
            }
        })
    }

    fn read(&self, operation: &str, result: &str) {
        self.note(operation, result);
    }

    fn ended(&self, action: &'static str, outcome: &'static str, took: Duration) {
        self.note_cloud(action, outcome, took);
    }
}
