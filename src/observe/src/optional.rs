//! Follows kinds without which everything else works: CapacityBuffers, ProvisioningRequests, CapacityQuotas, gangs, the
//! PodTemplates that they name, ResourceQuotas and VolumeAttachments.

use std::sync::Arc;
use std::time::Duration;

use headroom_api::capacity_buffer::VERSIONS;
use headroom_api::{capacity_quota, provisioning_request};
use headroom_core::world::Kind;
use headroom_core::world::devices::DeviceKind;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::watch::{Receiver, Sender};
use tokio::time::{sleep, timeout};

use super::object::{AnyObject, DECODING, Decoding};
use super::slim::{DEVICE_VERSION, GANG_WIRES, TAINT_RULE_VERSIONS};
use super::watch::follow_until_absent;
use super::watched::{Watch, WatchedResource};
use super::wire::{KindWire, LIST_DEADLINE};

/// The watch of CapacityBuffers.
pub(super) const BUFFERS: Watch = Watch::World(Kind::Buffer);
/// The watch of ProvisioningRequests.
pub(super) const REQUESTS: Watch = Watch::World(Kind::Request);
/// The watch of PodTemplates, which both name.
pub(super) const TEMPLATES: Watch = Watch::World(Kind::PodTemplate);
/// The watch of ResourceQuotas.
pub(super) const QUOTAS: Watch = Watch::World(Kind::Quota);
/// The watch of VolumeAttachments.
pub(super) const ATTACHMENTS: Watch = Watch::World(Kind::Attachment);
/// Between two looks for a kind that is not installed: well within the age at which a view is too old.
const ABSENT_PAUSE: Duration = Duration::from_secs(30);
/// Between two looks when one failed.
const FAILED_PAUSE: Duration = Duration::from_secs(4);

/// The versions of a kind that are read, the preferred one first; none for kinds of one version.
pub(super) fn versions_of(watch: Watch) -> &'static [&'static str] {
    match watch {
        BUFFERS => &VERSIONS,
        REQUESTS => &provisioning_request::VERSIONS,
        Watch::World(Kind::CapacityQuota) => &capacity_quota::VERSIONS,
        Watch::World(Kind::Gang(kind)) => {
            let wire = GANG_WIRES.iter().find(|wire| wire.kind == kind);
            wire.map_or(&[], |wire| wire.versions)
        }
        Watch::World(Kind::Device(DeviceKind::TaintRule)) => &TAINT_RULE_VERSIONS,
        Watch::World(Kind::Device(_)) => &[DEVICE_VERSION],
        _ => &[],
    }
}

/// Follows the kind of `wire`, in the first of its versions that the server has. Where it is not installed, there are two
/// looks for it a minute, through `server`; it is followed through `wired`. Once it is found, `templates` are wanted.
pub(super) async fn follow_optional(
    (server, wired): (Client, Client),
    wire: Arc<KindWire>,
    templates: Option<Arc<Sender<bool>>>,
) {
    loop {
        match installed(&server, wire.port.watch).await {
            Ok(Some(found)) => {
                if let Some(wanted) = &templates {
                    wanted.send_replace(true);
                }
                follow_until_absent(wired.clone(), wire.clone(), found).await;
            }
            Ok(None) => {
                wire.port.contact();
                wire.port.absent();
                sleep(ABSENT_PAUSE).await;
            }
            Err(look) => {
                wire.port.trouble(&look.why);
                if look.forbidden {
                    wire.port.absent();
                }
                sleep(if look.forbidden { ABSENT_PAUSE } else { FAILED_PAUSE }).await;
            }
        }
    }
}

/// Follows a kind that every server has: ResourceQuotas, VolumeAttachments. Without the permission none is known, and nothing
/// waits for them.
pub(super) async fn follow_served(wired: Client, wire: Arc<KindWire>) {
    loop {
        follow_until_absent(wired.clone(), wire.clone(), wire.port.watch.resource()).await;
        wire.port.absent();
        sleep(ABSENT_PAUSE).await;
    }
}

/// Follows PodTemplates from when they are first wanted.
pub(super) async fn follow_templates(wired: Client, wire: Arc<KindWire>, mut wanted: Receiver<bool>) {
    loop {
        while !*wanted.borrow_and_update() {
            wire.port.absent();
            tokio::select! {
                biased;
                // The senders live as long as the tasks that look for the kinds.
                _ = wanted.changed() => {}
                () = sleep(ABSENT_PAUSE) => {}
            }
        }
        follow_until_absent(wired.clone(), wire.clone(), TEMPLATES.resource()).await;
        wire.port.absent();
        sleep(ABSENT_PAUSE).await;
    }
}

/// A look for the kind that failed.
struct FailedDiscovery {
    why: String,
    /// True if the kind may not be read.
    forbidden: bool,
}

/// The kind in the first of its versions that the server has.
async fn installed(server: &Client, lead: Watch) -> Result<Option<WatchedResource>, FailedDiscovery> {
    for version in versions_of(lead) {
        let resource = lead.resource().in_version(version);
        let api = Api::<AnyObject>::all_with(server.clone(), &resource.api);
        let params = ListParams::default().limit(1);
        let look = DECODING.scope(Decoding { watch: lead, guarded: true }, api.list(&params));
        match timeout(LIST_DEADLINE, look).await {
            Ok(Ok(_)) => return Ok(Some(resource)),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => {}
            Ok(Err(error)) => {
                let forbidden = matches!(&error, kube::Error::Api(status) if status.code == 403);
                return Err(FailedDiscovery { why: error.to_string(), forbidden });
            }
            Err(_) => {
                let why = format!("no answer to list within {} s", LIST_DEADLINE.as_secs());
                return Err(FailedDiscovery { why, forbidden: false });
            }
        }
    }
    Ok(None)
}
