//! Follows CapacityBuffers, which a cluster may not have, and what decides on their shape and size.

use std::sync::Arc;
use std::time::Duration;

use headroom_api::capacity_buffer::VERSIONS;
use headroom_core::world::Kind;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::{sleep, timeout};

use super::object::{AnyObject, DECODING, Decoding};
use super::watch::follow_until_absent;
use super::watched::{Watch, WatchedResource};
use super::wire::{KindWire, LIST_DEADLINE};

/// The watch of CapacityBuffers.
pub(super) const BUFFERS: Watch = Watch::World(Kind::Buffer);
/// Between two looks for a kind that is not installed: well within the age at which a view is too old.
const ABSENT_PAUSE: Duration = Duration::from_secs(30);
/// Between two looks when one failed.
const FAILED_PAUSE: Duration = Duration::from_secs(4);

/// Follows CapacityBuffers, in the first of their versions that the server has, with the PodTemplates and ResourceQuotas
/// that decide on their shape and size. Where the kind is not installed, nothing is read but a look for it twice a minute,
/// through `server`; the kinds of `wires` are followed through `wired`.
pub(super) async fn follow_buffers(server: Client, wired: Client, wires: Vec<Arc<KindWire>>) {
    loop {
        match installed(&server).await {
            Ok(Some(buffers)) => until_one_is_absent(&wired, &wires, &buffers).await,
            Ok(None) => {
                wires.iter().filter(|wire| wire.port.watch == BUFFERS).for_each(|wire| wire.port.contact());
                wires.iter().for_each(|wire| wire.port.absent());
                sleep(ABSENT_PAUSE).await;
            }
            Err(look) => {
                let buffers = wires.iter().find(|wire| wire.port.watch == BUFFERS);
                if let Some(wire) = buffers {
                    wire.port.trouble(&look.why);
                }
                if look.forbidden {
                    wires.iter().for_each(|wire| wire.port.absent());
                }
                sleep(if look.forbidden { ABSENT_PAUSE } else { FAILED_PAUSE }).await;
            }
        }
    }
}

async fn until_one_is_absent(wired: &Client, wires: &[Arc<KindWire>], buffers: &WatchedResource) {
    let kinds = wires.iter().map(|wire| {
        let watch = wire.port.watch;
        let resource = if watch == BUFFERS { buffers.clone() } else { watch.resource() };
        Box::pin(follow_until_absent(wired.clone(), wire.clone(), resource))
    });
    futures::future::select_all(kinds).await;
}

/// A look for the kind that failed.
struct FailedLook {
    why: String,
    /// True if the kind may not be read.
    forbidden: bool,
}

/// The kind in the first of its versions that the server has.
async fn installed(server: &Client) -> Result<Option<WatchedResource>, FailedLook> {
    for version in VERSIONS {
        let resource = BUFFERS.resource().in_version(version);
        let api = Api::<AnyObject>::all_with(server.clone(), &resource.api);
        let params = ListParams::default().limit(1);
        let look = DECODING.scope(Decoding { watch: BUFFERS, guarded: true }, api.list(&params));
        match timeout(LIST_DEADLINE, look).await {
            Ok(Ok(_)) => return Ok(Some(resource)),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => {}
            Ok(Err(error)) => {
                let forbidden = matches!(&error, kube::Error::Api(status) if status.code == 403);
                return Err(FailedLook { why: error.to_string(), forbidden });
            }
            Err(_) => {
                let why = format!("no answer to list within {} s", LIST_DEADLINE.as_secs());
                return Err(FailedLook { why, forbidden: false });
            }
        }
    }
    Ok(None)
}
