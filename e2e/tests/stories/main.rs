//! The end-to-end stories, one a file, each on a control plane of its own; run one after the other.

#[cfg(test)]
mod at_max_pods_stay_pending;
#[cfg(test)]
mod bad_objects_are_refused;
#[cfg(test)]
mod bad_pool_beside_good;
#[cfg(test)]
mod control_plane_comes_up;
#[cfg(test)]
mod crash_points;
#[cfg(test)]
mod from_zero_to_running;
#[cfg(test)]
mod launch_failure_backs_off_one_group;
#[cfg(test)]
mod leader_killed_the_other_goes_on;
#[cfg(test)]
mod pool_edited_suspended_deleted;
#[cfg(test)]
mod replicas_are_demand_before_they_exist;
#[cfg(test)]
mod two_pools_the_right_one;
#[cfg(test)]
mod zero_writes_while_nothing_happens;
