//! Messages of removals, for the decision in status. It decides nothing.

use crate::candidates::Candidate;
use headroom_pools::state::group_settings::GroupSettings;
use headroom_values::reason::Reason;

/// The message of the decision; `notice` is the source that announces that the cloud is about to take the first of
/// them.
pub(super) fn message(
    candidates: &[Candidate],
    pods_count: u32,
    settings: GroupSettings<'_>,
    notice: &str,
) -> String {
    let names: Vec<&str> = candidates.iter().take(3).map(|candidate| &*candidate.victim.node).collect();
    let more = if candidates.len() > names.len() { " and others" } else { "" };
    let nodes = format!("node{} {}{more}", if candidates.len() == 1 { "" } else { "s" }, names.join(", "));
    let unneeded_for = settings.unneeded_for();
    let taken = candidates.first().is_some_and(|candidate| candidate.reason == Reason::Interrupted);
    let moves = match pods_count {
        0 => "no pod has to move".to_owned(),
        1 if taken => "1 pod moves".to_owned(),
        count if taken => format!("{count} pods move"),
        1 => "1 pod fits elsewhere".to_owned(),
        count => format!("{count} pods fit elsewhere"),
    };
    match candidates.first().map(|candidate| candidate.reason) {
        Some(Reason::Empty) => format!("{nodes} empty for {unneeded_for}"),
        Some(Reason::Unready) => format!("{nodes} unready for {}", settings.unready_for()),
        Some(Reason::RemovalRequested) => format!("{nodes} asked to go; {moves}"),
        Some(Reason::Consolidated) if candidates.iter().any(|candidate| candidate.replaced) => {
            format!("{nodes} replaced by nodes that cost less; {moves}")
        }
        Some(Reason::Drifted) => format!("{nodes} made of another template than the pool's; {moves}"),
        Some(Reason::Unhealthy) => format!("{nodes} unhealthy by a condition of spec.repair; {moves}"),
        Some(Reason::Expired) => format!("{nodes} older than rotation.maxAge; {moves}"),
        Some(Reason::NotPreferred) => {
            format!("{nodes} replaced by nodes of a pool that nodes.expanders prefer; {moves}")
        }
        Some(Reason::Interrupted) => format!("{nodes} about to be taken by the cloud ({notice}); {moves}"),
        Some(Reason::Consolidated) => format!("{nodes} not needed for {unneeded_for}; {moves}"),
        _ => format!(
            "{nodes} at or under {}% for {unneeded_for}; {moves}",
            settings.utilization_threshold_percent()
        ),
    }
}
