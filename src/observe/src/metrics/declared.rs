//! Servers that the ClusterScalingPolicy declares, by name. It asks none of them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use tracing::warn;

use super::answer::{Answer, Question, Why};

/// A server with its connections, made of its declaration.
pub(super) trait Server {
    /// What is declared of it.
    type Source: Clone + PartialEq;

    /// Connects nothing yet. A server that cannot be set up says why.
    fn new(source: Self::Source) -> Self;

    fn declaration(&self) -> &Self::Source;

    fn name(source: &Self::Source) -> &str;

    /// Reason why it cannot be asked at all.
    fn problem(&self) -> Option<&str>;
}

/// The declared servers of one type.
pub(super) struct Declared<S>(RwLock<BTreeMap<String, Arc<S>>>);

impl<S> Default for Declared<S> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<S: Server> Declared<S> {
    /// Takes these in place of those before. A server whose declaration has not changed keeps its connections. One that cannot be set
    /// up answers every question with why.
    pub(super) fn declare(&self, sources: &[S::Source]) {
        let mut servers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let known = std::mem::take(&mut *servers);
        for source in sources {
            let name = S::name(source);
            let kept = known.get(name).filter(|server| server.declaration() == source).cloned();
            let server = kept.unwrap_or_else(|| {
                let server = S::new(source.clone());
                if let Some(problem) = server.problem() {
                    warn!(source = name, %problem, "failed to set up a source of metrics");
                }
                Arc::new(server)
            });
            servers.insert(name.to_owned(), server);
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<S>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

/// Errors unless policies of `namespace` may ask the source of this name, whose `namespaces` are a field of `member`.
pub(super) fn permits(
    question: &Question,
    (name, member): (&str, &str),
    namespaces: &[String],
    namespace: &str,
) -> Answer<()> {
    if namespaces.is_empty() || namespaces.iter().any(|permitted| permitted == namespace) {
        return Ok(());
    }
    Err(question.failure(Why::NotPermitted(format!(
        "source {name} is not for namespace {namespace}: use another source, or add the namespace to \
         workloads.metricSources[].{member}.namespaces of the ClusterScalingPolicy"
    ))))
}
