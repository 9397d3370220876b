//! Making and removing groups: only those whose tags say that they are this cluster's and this pool's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use headroom_core::time::Seconds;
use headroom_core::world::provider::FailureClass;
use headroom_provider::aws::Managed;
use headroom_provider::{Error, Increase, Increased};

use super::activities::{Class, class_of};
use super::calls::{CallError, Trouble};
use super::cloud::Cloud;
use super::group::Group;
use super::managed::{is_own, new_group};
use super::resize::{unread, write};

/// Pause before a group that was made and is not listed yet is looked for again.
const LISTED_AFTER: Seconds = Seconds(2);
/// Most groups that are removed after one look.
const REMOVED_MAX: usize = 5;

/// Result of a look for the group of an increase.
pub(crate) enum Made {
    /// The group is there.
    Group(Box<Group>),
    /// It is not; the increase has this result for now.
    Not(Increased),
}

/// Makes the group of an increase. A group that is there by now is taken if it is the pool's.
///
/// # Errors
/// [`Error`] when AWS refused, when the group is somebody else's, or when it is unknown what the call did.
pub(crate) async fn make(cloud: &Cloud, managed: &Managed, request: &Increase) -> Result<Made, Error> {
    let name = &request.group;
    let new = match new_group(cloud, &request.pool, managed, name).await {
        Ok(Some(new)) => new,
        // The spec has changed since it was decided.
        Ok(None) => return Ok(Made::Not(Increased::Superseded)),
        Err(words) => return Err(Error::unknown(words)),
    };
    let action = "autoscaling:CreateAutoScalingGroup";
    let operation = format!("AWS CreateAutoScalingGroup {name}");
    let answer = write(cloud, name, action, operation, || cloud.calls.create_group(&new)).await;
    // The list decides, not the answer: the group may have been made before an answer was lost, or by an earlier term.
    let seen = cloud.fresh(name).await;
    if let Ok(Some(group)) = seen {
        own(&group, managed)?;
        let clock = cloud.host.monotonic();
        cloud.snapshot().made(name, managed.tags(), clock);
        return Ok(Made::Group(Box::new(group)));
    }
    match answer {
        Ok(()) => Ok(Made::Not(Increased::Pending(request.now.plus(LISTED_AFTER)))),
        Err(error) if error.code == "AlreadyExists" => {
            Ok(Made::Not(Increased::Pending(request.now.plus(LISTED_AFTER))))
        }
        Err(error) => Err(refusal(&error)),
    }
}

fn refusal(error: &CallError) -> Error {
    match error.kind {
        Trouble::Denied => Error::refused(FailureClass::PermissionDenied, error.in_words()),
        Trouble::Invalid | Trouble::NotImplemented => {
            let class = match (error.code.as_str(), class_of(&error.code, &error.message)) {
                // More groups than the account may have.
                ("LimitExceeded", _) => FailureClass::QuotaExceeded,
                (_, Class::Permission) => FailureClass::PermissionDenied,
                _ => FailureClass::InvalidConfiguration,
            };
            Error::refused(class, error.in_words())
        }
        Trouble::NotSent
        | Trouble::Throttled
        | Trouble::Credentials
        | Trouble::Contention
        | Trouble::Unknown => unread(error),
    }
}

/// # Errors
/// [`Error`] when the group's tags do not say that it is the pool's.
pub(crate) fn own(group: &Group, managed: &Managed) -> Result<(), Error> {
    if is_own(group, managed) {
        return Ok(());
    }
    let words = format!(
        "Auto Scaling group {} exists without the tags of this cluster and pool: it is left alone; delete it, or give it \
         the tags {:?}",
        group.name,
        managed.tags()
    );
    Err(Error::refused(FailureClass::InvalidConfiguration, words))
}

/// Raises a group's MaxSize to the pool's maximum.
///
/// # Errors
/// [`Error`] when AWS refused, or when it is unknown what the call did.
pub(crate) async fn raise_max(cloud: &Cloud, group: &Group, max: u32) -> Result<(), Error> {
    let action = "autoscaling:UpdateAutoScalingGroup";
    let operation = format!("AWS UpdateAutoScalingGroup {} max {max}", group.name);
    let call = || cloud.calls.raise_max(&group.name, max);
    write(cloud, &group.name, action, operation, call).await.map_err(|error| refusal(&error))
}

/// Removes groups of the pool that have had neither size nor instances for `managed.delete_empty_after`; not those of
/// `busy`. A group is read once more before, and AWS refuses to delete one with instances.
pub(crate) async fn remove_empty(cloud: &Cloud, managed: &Managed, busy: &BTreeSet<Arc<str>>) {
    let clock = cloud.host.monotonic();
    let for_long = Duration::from_secs(u64::try_from(managed.delete_empty_after.0).unwrap_or(0));
    let due: Vec<Arc<str>> = {
        let snapshot = cloud.snapshot();
        let idle = |name: &Arc<str>| snapshot.empty_for(name, clock).is_some_and(|empty| for_long <= empty);
        let own = snapshot.groups.iter().filter(|(_, read)| may_go(&read.group, managed));
        let due = own.filter(|(name, _)| idle(name) && !busy.contains(*name));
        due.map(|(name, _)| name.clone()).take(REMOVED_MAX).collect()
    };
    for name in due {
        if let Err(error) = remove(cloud, managed, &name).await {
            tracing::warn!(group = %name, error = %error.in_words(), "failed to delete an empty group");
        }
    }
}

fn may_go(group: &Group, managed: &Managed) -> bool {
    let empty = group.min == 0 && group.desired == 0 && group.instances.is_empty();
    is_own(group, managed) && empty && !group.being_deleted
}

async fn remove(cloud: &Cloud, managed: &Managed, name: &Arc<str>) -> Result<(), CallError> {
    let _one_write = cloud.lock(name).await;
    let Some(group) = cloud.fresh(name).await? else { return Ok(()) };
    if !may_go(&group, managed) {
        return Ok(());
    }
    let operation = format!("AWS DeleteAutoScalingGroup {name}");
    let action = "autoscaling:DeleteAutoScalingGroup";
    write(cloud, name, action, operation, || cloud.calls.delete_group(name)).await?;
    // It may be listed for a while, as being deleted.
    cloud.fresh(name).await?;
    Ok(())
}
