//! Growing a group, and taking back machines that did not come. Each size is written on the version that was read.

use std::cmp::Reverse;
use std::sync::Arc;

use headroom_core::time::Seconds;
use headroom_core::world::provider::FailureClass;
use headroom_provider::cluster_api::{GroupKind, Settings};
use headroom_provider::{Error, Increase, Increased};

use super::calls::Trouble;
use super::failures;
use super::group::{Group, instance_id};
use super::options;
use super::place::Place;
use super::remove::{ATTEMPTS, Order, Wanted, remove};
use super::wire::Machine;

/// Pause while another write is under way, or others write all the time.
const AGAIN: Seconds = Seconds(2);
/// Pause before what is left is taken back.
const CANCEL_AGAIN: Seconds = Seconds(10);

/// Converts a failed write to an error: only an answer is a refusal.
fn failure(trouble: Trouble) -> Error {
    match trouble {
        Trouble::Status(403, words) => Error::refused(FailureClass::PermissionDenied, words),
        Trouble::Status(400 | 422, words) => Error::refused(FailureClass::InvalidConfiguration, words),
        other => Error::unknown(other.words()),
    }
}

/// The bounds of a group: its annotations', narrowed by the spec's.
///
/// # Errors
/// In words, when the annotations make no sense.
pub(crate) fn bounds(settings: &Settings, kind: GroupKind, group: &Group) -> Result<(u32, u32), String> {
    let (low, high) = options::bounds(&group.object.metadata.annotations)?;
    let named = settings.named(kind, &group.object.metadata.name);
    let (min, max) = (named.and_then(|named| named.min), named.and_then(|named| named.max));
    let max = max.unwrap_or(high).clamp(low, high);
    Ok((min.unwrap_or(low).clamp(low, max), max))
}

/// Raises a group's size to `request.to`.
///
/// # Errors
/// [`Error`] when the server refused, or when it is unknown what the write did.
pub(crate) async fn increase(
    place: &Place,
    settings: &Settings,
    (kind, name): (GroupKind, &str),
    request: &Increase,
) -> Result<Increased, Error> {
    let Some(_turn) = place.turn(&request.group) else {
        return Ok(Increased::Pending(request.now.plus(AGAIN)));
    };
    for _ in 0..ATTEMPTS {
        let read = place.read_size(kind, name).await.map_err(failure)?;
        let Some(group) = read else {
            let words = format!("{kind} {name} does not exist");
            return Err(Error::refused(FailureClass::InvalidConfiguration, words));
        };
        let size = group.object.replicas();
        if request.to <= size {
            return Ok(Increased::Accepted);
        }
        let (_, max) = bounds(settings, kind, &group)
            .map_err(|words| Error::refused(FailureClass::InvalidConfiguration, words))?;
        let moved = size < request.from || max < request.to;
        if moved || group.stopped().is_some() || group.managed_by().is_some() {
            return Ok(Increased::Superseded);
        }
        match place.write_size(kind, &group.object, request.to).await {
            Ok(()) => return Ok(Increased::Accepted),
            Err(Trouble::Status(409, _)) => {}
            Err(trouble) => return Err(failure(trouble)),
        }
    }
    Ok(Increased::Pending(request.now.plus(AGAIN)))
}

/// Takes back what will not come: machines whose launch failed, newest first, and sizes that no machine exists for. Machines
/// that may still come are what the plan counts on; those that never do are deleted by their ids.
///
/// # Errors
/// [`Error`] when the server refused, or when it is unknown what a write did.
pub(crate) async fn cancel(
    place: &Place,
    settings: &Settings,
    (kind, name): (GroupKind, &Arc<str>),
    request: &Increase,
    is_node: impl Fn(&str) -> bool,
) -> Result<Increased, Error> {
    let read = place.read_group(kind, name).await.map_err(failure)?;
    let Some((group, _)) = read else { return Ok(Increased::Superseded) };
    if let Some(hold) = group.stopped() {
        return Err(Error::unknown(hold.message.to_string()));
    }
    let (min, _) = bounds(settings, kind, &group)
        .map_err(|words| Error::refused(FailureClass::InvalidConfiguration, words))?;
    let (size, floor) = (group.object.replicas(), request.from.max(min));
    if size <= floor || group.managed_by().is_some() {
        return Ok(Increased::Accepted);
    }
    let live = group.live_count();
    if live < size {
        return lower_bare(place, kind, &group, live.max(floor), request).await;
    }
    let mut failed: Vec<&Machine> = group
        .live()
        .filter(|machine| failures::is_final(machine) && !machine.provider_id().is_some_and(&is_node))
        .collect();
    failed.sort_by_key(|machine| (Reverse(machine.metadata.created_at()), machine.metadata.name.clone()));
    let excess = usize::try_from(size - floor).unwrap_or(usize::MAX);
    let namespace = &place.address.namespace;
    let wanted = |machine: &&Machine| Wanted { id: instance_id(namespace, machine), joined: false };
    let victims: Vec<Wanted> = failed.iter().take(excess).map(wanted).collect();
    if victims.is_empty() {
        return Ok(Increased::Accepted);
    }
    let (pool, intent) = (request.pool.name.clone(), request.intent.clone());
    let order = Order { pool, intent, kind, name: name.clone(), min: floor, victims };
    let ends = remove(place, &order).await;
    if let Some(error) = ends.into_iter().find_map(Result::err) {
        tracing::info!(group = %request.group, %error, "not taken back yet");
        return Ok(Increased::Pending(request.now.plus(CANCEL_AGAIN)));
    }
    Ok(Increased::Accepted)
}

/// Lowers a size to the machines that exist: none of them goes for it.
async fn lower_bare(
    place: &Place,
    kind: GroupKind,
    group: &Group,
    to: u32,
    request: &Increase,
) -> Result<Increased, Error> {
    let again = Ok(Increased::Pending(request.now.plus(CANCEL_AGAIN)));
    let used = group.sets.iter().filter(|set| 0 < set.replicas()).count();
    let current = group.object.is_current() && group.sets.iter().all(|set| set.is_current());
    // With two sets in use the controller chooses which of them shrinks.
    if 1 < used || !current || group.object.replicas() <= to {
        return again;
    }
    let Some(_turn) = place.turn(&request.group) else { return again };
    match place.write_size(kind, &group.object, to).await {
        // Machines that came meanwhile are looked at by the next call.
        Ok(()) | Err(Trouble::Status(409, _)) => again,
        Err(trouble) => Err(failure(trouble)),
    }
}
