//! From slim wire objects to the core's types: one file a kind. Rules are those of the scheduler; nothing is decided.

pub mod buffer;
pub mod capacity_quota;
pub mod class;
pub mod device;
pub mod gang;
pub mod node;
pub mod pod;
pub mod request;
pub mod requests;
pub mod scale;
pub mod volume;
pub mod workload;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};

use headroom_core::labels::ObjectKey;
use headroom_core::time::UnixTime;
use headroom_core::world::pod::Owner;

use super::decoder::{Decoder, Error};

/// Namespace and name of a namespaced object.
///
/// # Errors
/// If either is missing.
pub fn key_of(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<ObjectKey, Error> {
    let namespace = meta.namespace.as_deref().ok_or(Error::Missing("namespace"))?;
    let name = meta.name.as_deref().ok_or(Error::Missing("name"))?;
    Ok(ObjectKey::new(decoder.text(namespace), name))
}

/// Name of a cluster-scoped object.
///
/// # Errors
/// If it is missing.
pub fn name_of(meta: &ObjectMeta, decoder: &mut Decoder) -> Result<Arc<str>, Error> {
    meta.name.as_deref().map(|name| decoder.text(name)).ok_or(Error::Missing("name"))
}

/// Unique id; empty when missing. Not interned: no two objects share one.
pub fn uid_of(meta: &ObjectMeta) -> Arc<str> {
    Arc::from(meta.uid.as_deref().unwrap_or_default())
}

/// The instant in whole seconds, or the epoch when there is none.
pub fn instant(time: Option<&Time>) -> UnixTime {
    time.map_or(UnixTime(0), |time| UnixTime::from_jiff(time.0))
}

/// The reference to the controller of the object, if it has one.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.as_deref().unwrap_or_default().iter().find(|owner| owner.controller == Some(true))
}

/// The controller of the object, if it has one: one copy for all that it controls.
pub fn owner_of(meta: &ObjectMeta, decoder: &mut Decoder) -> Option<Arc<Owner>> {
    let owner = controller_of(meta)?;
    let owner = Owner {
        kind: decoder.text(&owner.kind),
        name: decoder.text(&owner.name),
        uid: decoder.text(&owner.uid),
    };
    Some(decoder.owner(owner))
}
