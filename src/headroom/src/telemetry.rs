//! Logs: set up once at the start of a process. Messages are logged where their event happens.

use tracing_subscriber::EnvFilter;

use crate::options::LogFormat;
use crate::terminal::{self, Log};

/// The client and the watcher of the API server log each answer that is an error, each connection that fails, and all of a
/// page that cannot be decoded. What these mean is known where the call was made, and logged there: a refused eviction is not
/// an error, and a server that is down is logged once and not for each call. CAs that cannot be read are logged there only.
const QUIET: &str = "kube_client::client=off,kube_runtime::watcher=off";

/// Sends logs to standard error. `RUST_LOG` chooses what; the default is `info`.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::new(directives(std::env::var(EnvFilter::DEFAULT_ENV).ok().as_deref()));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(terminal::complaints_are_read_by_a_person());
    match format {
        LogFormat::Text => builder.with_writer(Log::text).init(),
        LogFormat::Json => builder.with_writer(Log::json).json().init(),
    }
}

/// Returns the log filter for the value of `RUST_LOG`. A level alone, such as `info`, is one for the operator's own
/// logs; from `debug` on, and with a filter that names targets, exactly what is asked for is logged. An invalid value
/// counts as unset.
fn directives(asked: Option<&str>) -> String {
    let asked = asked.map(str::trim).filter(|asked| !asked.is_empty() && EnvFilter::try_new(asked).is_ok());
    match asked.unwrap_or("info") {
        level if matches!(level.to_lowercase().as_str(), "error" | "warn" | "info") => {
            format!("{level},{QUIET},kube_client::client::tls={level}")
        }
        exact => exact.to_owned(),
    }
}

/// Sends logs to standard error only if `RUST_LOG` asks for them: for commands whose output is what people read.
pub fn start_quiet() {
    if let Ok(filter) = EnvFilter::try_from_default_env() {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(Log::text).init();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Returns which of five log lines are logged.
    fn logged(asked: Option<&str>) -> String {
        #[derive(Clone, Default)]
        struct Sink(Arc<Mutex<Vec<u8>>>);
        impl io::Write for Sink {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().expect("nobody panics in it").write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(directives(asked)))
            .with_writer(move || writer.clone())
            .without_time()
            .with_level(false)
            .with_target(false)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(target: "kube_client::client::builder", "failed with status 500");
            tracing::warn!(target: "kube_client::client", "a page");
            tracing::warn!(target: "kube_runtime::watcher", "a watch");
            tracing::warn!(target: "kube_client::client::tls", "stale CA");
            tracing::info!(target: "headroom_operator::actuate", "ours");
        });
        let bytes = sink.0.lock().expect("nobody panics in it").clone();
        String::from_utf8(bytes).expect("text").lines().collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn by_default_each_failed_call_is_not_logged_a_second_time() {
        assert_eq!(logged(None), "stale CA, ours");
        assert_eq!(logged(Some("info")), "stale CA, ours");
        assert_eq!(logged(Some("WARN")), "stale CA");
        assert_eq!(logged(Some("")), "stale CA, ours");
        assert_eq!(logged(Some("headroom=loud")), "stale CA, ours");
    }

    #[test]
    fn what_is_asked_for_is_logged() {
        let all = "failed with status 500, a page, a watch, stale CA, ours";
        assert_eq!(logged(Some("debug")), all);
        assert_eq!(logged(Some("info,headroom_operator::actuate=debug")), all);
        assert_eq!(logged(Some("kube_client=error")), "failed with status 500");
    }
}
