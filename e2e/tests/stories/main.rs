//! The end-to-end stories, one a file, each on a control plane of its own; run one after the other.

#[cfg(test)]
mod annotated_pod_keeps_its_node;
#[cfg(test)]
mod bad_objects_are_refused;
#[cfg(test)]
mod budget_window;
#[cfg(test)]
mod clocks_survive_a_restart;
#[cfg(test)]
mod control_plane_comes_up;
#[cfg(test)]
mod drain_undone_when_suspended;
#[cfg(test)]
mod karpenter_crds_beside_ours;
#[cfg(test)]
mod kill_at_each_step_of_a_removal;
#[cfg(test)]
mod pdb_is_respected;
#[cfg(test)]
mod pod_bound_between_check_and_delete;
#[cfg(test)]
mod preview_beside_apply;
#[cfg(test)]
mod release_leaves_nothing;
#[cfg(test)]
mod requested_removal;
#[cfg(test)]
mod schedule_raises_the_minimum;
#[cfg(test)]
mod the_load_goes_and_the_nodes_follow;
