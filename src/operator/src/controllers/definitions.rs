//! Check that the cluster knows our kinds: waits for the definitions, reports which are missing and how to install them.
//! It installs nothing.

use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::health::Health;
use super::log_throttle::LogThrottle;
use headroom_api::GROUP;
use headroom_observe::host::Host;

/// Our kinds with the names of their definitions.
const DEFINITIONS: [(&str, &str); 3] = [
    ("NodePool", "nodepools.headroom.dev"),
    ("ClusterScalingPolicy", "clusterscalingpolicies.headroom.dev"),
    ("ScalingPolicy", "scalingpolicies.headroom.dev"),
];
/// The version of our kinds.
const VERSION: &str = "v1alpha1";
/// Between two looks, so that the operator goes on soon after the definitions have come.
const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// Longest wait for the answer to one look.
const LOOK_DEADLINE: Duration = Duration::from_secs(15);

/// Waits until the cluster knows NodePools. Meanwhile `health` reports what is missing, and `report` gets the same
/// message, at once and then after 30 s, one minute, two, and so on up to ten. Returns early, with false, when `stop`
/// becomes true.
///
/// The other kinds are named when they are missing too, and not waited for: each is of use without them. A server that
/// does not answer, or refuses the question, is not waited for either: the watches do that, and know more kinds of trouble.
pub async fn wait(
    client: &Client,
    host: &Host,
    health: &Health,
    stop: &mut watch::Receiver<bool>,
    mut report: impl FnMut(&str),
) -> bool {
    let mut log_throttle = LogThrottle::default();
    loop {
        if *stop.borrow() {
            return false;
        }
        let missing = match timeout(LOOK_DEADLINE, missing(client)).await {
            Ok(Ok(missing)) => missing,
            Ok(Err(error)) => {
                report(&format!("failed to ask the API server for its kinds: {error}; going on"));
                Vec::new()
            }
            Err(_) => {
                report("the API server does not say in time which kinds it knows; going on");
                Vec::new()
            }
        };
        // The first of them is NodePools.
        if missing.first() != Some(&DEFINITIONS[0].1) {
            health.waits_for(None);
            return true;
        }
        let message = words(&missing);
        if log_throttle.due(&message, host.now()) {
            report(&message);
        }
        health.waits_for(Some(message));
        // Waiting is a turn too: nothing is stuck.
        health.turned(false);
        tokio::select! {
            biased;
            // A sender that is gone sends nothing any more; the pause below goes on.
            Ok(()) = stop.changed() => {}
            () = sleep(LOOK_PAUSE) => {}
        }
    }
}

/// Message that names the missing CRDs, and how to install them.
#[must_use]
pub fn words(missing: &[&str]) -> String {
    let (noun, verb) = if missing.len() == 1 { ("CRD", "is") } else { ("CRDs", "are") };
    format!(
        "the {noun} {} {verb} not installed: `headroom crds | kubectl apply --server-side -f -`, or `kubectl apply \
         --server-side -f crds/`, or `helm install headroom-crds charts/headroom-crds`; the operator waits and goes on \
         by itself",
        missing.join(", ")
    )
}

/// The definitions that the server does not have, in the order of [`DEFINITIONS`].
async fn missing(client: &Client) -> Result<Vec<&'static str>, kube::Error> {
    let known = match client.list_api_group_resources(&format!("{GROUP}/{VERSION}")).await {
        Ok(list) => list.resources,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(error),
    };
    let absent = DEFINITIONS.iter().filter(|(kind, _)| !known.iter().any(|one| one.kind == *kind));
    Ok(absent.map(|(_, definition)| *definition).collect())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests have no host")]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use headroom_core::time::UnixTime;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// Returns a client whose server gives these answers in turn; the last answer is repeated.
    fn server(answers: &[Result<&[&str], u16>]) -> Client {
        let resource = |kind: &&str| {
            json!({"name": format!("{}s", kind.to_lowercase()), "singularName": "", "namespaced": false,
                "kind": kind, "verbs": ["list"]})
        };
        let answers: VecDeque<(u16, String)> = answers
            .iter()
            .map(|answer| match answer {
                Ok(kinds) => {
                    let resources: Vec<_> = kinds.iter().map(resource).collect();
                    let list = json!({"kind": "APIResourceList", "apiVersion": "v1",
                        "groupVersion": "headroom.dev/v1alpha1", "resources": resources});
                    (200, list.to_string())
                }
                // The answer of a server on a group that it does not know is not JSON.
                Err(code) => (*code, "404 page not found\n".to_owned()),
            })
            .collect();
        let answers = Arc::new(Mutex::new(answers));
        let service = tower::service_fn(move |request: Request<Body>| {
            assert_eq!(request.uri().path(), "/apis/headroom.dev/v1alpha1");
            let mut answers = answers.lock().expect("no test panics in it");
            let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
            let (code, body) = answer.expect("an answer");
            async move {
                Ok::<_, Infallible>(
                    Response::builder().status(code).body(Body::from(body.into_bytes())).expect("fine"),
                )
            }
        });
        Client::new(service, "default")
    }

    fn host() -> Arc<Host> {
        Host::simulated(UnixTime(0).to_jiff(), 1)
    }

    fn running() -> (watch::Sender<bool>, watch::Receiver<bool>) {
        watch::channel(false)
    }

    #[tokio::test(start_paused = true)]
    async fn it_goes_on_by_itself_once_the_definitions_are_there() {
        let health = Arc::new(Health::default());
        let client =
            server(&[Err(404), Err(404), Ok(&["NodePool", "ClusterScalingPolicy", "ScalingPolicy"])]);
        let (_sender, mut stop) = running();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (waiting, heard) = (health.clone(), said.clone());
        let task = tokio::spawn(async move {
            wait(&client, &host(), &waiting, &mut stop, |message| {
                heard.lock().unwrap().push(message.to_owned())
            })
            .await
        });
        sleep(Duration::from_secs(1)).await;
        let reason = health.not_ready_because().expect("not ready");
        for word in [
            "nodepools.headroom.dev",
            "clusterscalingpolicies.headroom.dev",
            " scalingpolicies.headroom.dev",
            "kubectl apply",
            "helm install headroom-crds",
        ] {
            assert!(reason.contains(word), "{word} is not in: {reason}");
        }
        assert!(!task.is_finished());
        assert!(timeout(Duration::from_secs(5), task).await.expect("it has gone on").unwrap());
        assert_eq!(*said.lock().unwrap(), [reason]);
        assert_eq!(health.not_ready_because().as_deref(), Some("caches are being filled"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_hour_without_them_is_a_handful_of_messages() {
        let client = server(&[Err(404)]);
        let (_sender, mut stop) = running();
        let reported_count = Arc::new(Mutex::new(0));
        let health = Health::default();
        let counter = reported_count.clone();
        let host = host();
        let waiting = wait(&client, &host, &health, &mut stop, |_| *counter.lock().unwrap() += 1);
        assert!(timeout(Duration::from_secs(3600), waiting).await.is_err());
        // At 0, 0.5, 1.5, 3.5, 7.5, 15.5, 25.5, 35.5, 45.5 and 55.5 min.
        assert_eq!(*reported_count.lock().unwrap(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_is_missing_is_named_and_a_new_gap_is_reported_at_once() {
        let client = server(&[Err(404), Ok(&["ScalingPolicy"]), Ok(&["NodePool"])]);
        let (_sender, mut stop) = running();
        let mut said = Vec::new();
        assert!(
            wait(&client, &host(), &Health::default(), &mut stop, |message| said.push(message.to_owned()))
                .await
        );
        assert_eq!(said.len(), 2);
        assert!(said[1].starts_with(
            "the CRDs nodepools.headroom.dev, clusterscalingpolicies.headroom.dev are not installed"
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_in_trouble_is_left_to_the_watches() {
        let (_sender, mut stop) = running();
        let mut said = Vec::new();
        let client = server(&[Err(503)]);
        assert!(
            wait(&client, &host(), &Health::default(), &mut stop, |message| said.push(message.to_owned()))
                .await
        );
        assert!(!said[0].contains("CRD"), "{said:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_the_wait() {
        let (sender, mut stop) = running();
        let client = server(&[Err(404)]);
        let health = Health::default();
        let host = host();
        let waiting = wait(&client, &host, &health, &mut stop, |_| {});
        let stopping = async {
            sleep(Duration::from_secs(61)).await;
            sender.send_replace(true);
        };
        let ended = timeout(Duration::from_secs(62), async { tokio::join!(waiting, stopping).0 }).await;
        assert_eq!(ended, Ok(false));
    }
}
