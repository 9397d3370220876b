//! Waiting for a condition with a deadline and the last state seen; nothing here sleeps for luck.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// Time between two looks: short beside what a cluster does, long beside what a look costs it.
const BETWEEN_LOOKS: Duration = Duration::from_millis(150);

/// Looks again and again until `probe` is `Ok`, and returns what it found.
///
/// An error of the probe means "not yet, and this is what I saw"; the last one becomes the message
/// when `deadline` has passed. A single look may take no longer than what is left of the deadline.
pub async fn until<T>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let end = Instant::now() + deadline;
    let mut last = anyhow!("nothing was seen");
    loop {
        match tokio::time::timeout_at(end, probe()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(not_yet)) => last = not_yet,
            Err(_) => bail!(
                "waited {deadline:?} in vain until {what}; the last look did not end; before it: {last:#}"
            ),
        }
        if end <= Instant::now() + BETWEEN_LOOKS {
            bail!("waited {deadline:?} in vain until {what}; last seen: {last:#}");
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// Watches one object until `condition` holds, and returns it; `None` if it does not exist then. For what one object shows
/// while the API server is well: an error of the watch is the result.
pub async fn object<K>(
    what: &str,
    deadline: Duration,
    api: Api<K>,
    name: &str,
    condition: impl Condition<K>,
) -> Result<Option<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    match tokio::time::timeout(deadline, await_condition(api.clone(), name, condition)).await {
        Ok(found) => found.with_context(|| format!("failed to wait until {what}")),
        Err(_) => {
            let last = tokio::time::timeout(Duration::from_secs(10), api.get_opt(name)).await;
            bail!("waited {deadline:?} in vain until {what}; last seen: {last:?}")
        }
    }
}

/// Looks again and again for the whole of `period`; the first error of `probe` is the result.
///
/// Use it for events that must *not* happen: nodes that stay, writes that do not come.
pub async fn stays(what: &str, period: Duration, mut probe: impl AsyncFnMut() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < period {
        if let Err(broken) = probe().await {
            bail!("{what} held for {:?} only: {broken:#}", start.elapsed());
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_state_seen_is_in_the_message() {
        let mut n_looks = 0;
        let result = until::<()>("it is done", Duration::from_secs(1), async || {
            n_looks += 1;
            bail!("look {n_looks}")
        })
        .await;
        let message = format!("{:#}", result.unwrap_err());
        assert!(message.contains("until it is done") && message.contains("look 7"), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_never_ends_is_cut_at_the_deadline() {
        let never = async || std::future::pending::<Result<()>>().await;
        let message = until("it answers", Duration::from_secs(1), never).await.unwrap_err().to_string();
        assert!(message.contains("did not end"), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_state_that_breaks_is_reported_at_once() {
        let mut n_looks = 0;
        let result = stays("three nodes", Duration::from_secs(5), async || {
            n_looks += 1;
            if n_looks == 3 { bail!("two nodes") } else { Ok(()) }
        })
        .await;
        assert!(result.unwrap_err().to_string().contains("two nodes"));
        assert_eq!(n_looks, 3);
    }
}
