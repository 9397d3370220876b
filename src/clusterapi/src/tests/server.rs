//! The world as an API server that processes share: requests with their faults, watches, annotations of Nodes.

use std::sync::{Arc, Mutex, MutexGuard};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use headroom_observe::host::Host;
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;

use super::world::{Fault, World};
use crate::calls::{Answer, Calls, Event, Nodes, Request, Trouble, Watched};

/// The world as processes share it.
#[derive(Clone)]
pub(super) struct Server(pub Arc<Mutex<World>>);

impl Server {
    pub(super) fn new(world: World) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no panic inside")
    }

    /// Lets the controllers work every 200 ms.
    pub(super) fn run(&self, host: &Arc<Host>) {
        let (server, own) = (self.clone(), host.clone());
        host.spawn(async move {
            loop {
                own.sleep(std::time::Duration::from_millis(200)).await;
                let mut world = server.world();
                world.clock = own.now();
                world.tick();
            }
        });
    }
}

impl Calls for Server {
    fn call(&self, request: Request) -> BoxFuture<'static, Result<Answer, Trouble>> {
        let server = self.clone();
        Box::pin(async move {
            tokio::task::yield_now().await;
            let operation = request.operation();
            let fault = {
                let mut world = server.world();
                world.log.push(operation.clone());
                let fault = world.fault(&operation);
                let unanswered = matches!(fault, Some(Fault::LoseAnswer | Fault::HangAfter | Fault::Delay));
                world.lost_answers += i64::from(unanswered);
                fault
            };
            let lost = || Err(Trouble::NoAnswer("no answer".to_owned()));
            match fault {
                None => Ok(server.world().serve(&request)),
                Some(Fault::LoseCall) => lost(),
                Some(Fault::LoseAnswer) => {
                    server.world().serve(&request);
                    lost()
                }
                Some(Fault::Refuse(status)) => Ok(Answer { status, body: json!({"message": "refused"}) }),
                Some(Fault::Hang) => std::future::pending().await,
                Some(Fault::HangAfter) => {
                    server.world().serve(&request);
                    std::future::pending().await
                }
                Some(Fault::Delay) => {
                    server.world().delay(request);
                    std::future::pending().await
                }
                Some(Fault::Meanwhile(act)) => {
                    let mut world = server.world();
                    act(&mut world);
                    Ok(world.serve(&request))
                }
            }
        })
    }

    fn watch(&self, watched: Watched) -> BoxStream<'static, Event> {
        let (sender, receiver) = unbounded_channel();
        let mut world = self.world();
        if let Some(Fault::Refuse(status)) = world.fault(&format!("WATCH {}", watched.plural)) {
            let failed = Event::Failed(Trouble::Status(status, format!("{} is forbidden", watched.plural)));
            return stream::once(async { failed }).chain(stream::pending()).boxed();
        }
        let _ = sender.send(Event::ListBegan);
        for name in world.names(watched.plural, |_| true) {
            let _ = sender.send(Event::Listed(world.get(watched.plural, &name).cloned().unwrap_or_default()));
        }
        let _ = sender.send(Event::ListEnded);
        world.watchers.push((watched.plural.to_owned(), sender));
        stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) }).boxed()
    }
}

impl Nodes for Server {
    fn annotation<'a>(
        &'a self,
        node: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(async move { Ok(self.world().nodes.get(node).and_then(|node| node.get(key)).cloned()) })
    }
}
