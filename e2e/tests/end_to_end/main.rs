//! The end-to-end tests, one a file, each on a control plane of its own; those about AWS hand theirs on.

#[cfg(test)]
mod a_cluster_at_rest_is_not_written;
#[cfg(test)]
mod a_schedule_keeps_its_minute;
#[cfg(test)]
mod a_trace_for_each_decision;
#[cfg(test)]
mod annotated_pod_keeps_its_node;
#[cfg(test)]
mod api_server_is_slow;
#[cfg(test)]
mod api_server_restarts_in_mid_action;
#[cfg(test)]
mod api_server_sheds_our_load;
#[cfg(test)]
mod at_max_pods_stay_pending;
#[cfg(test)]
mod attach_limits_at_zero;
#[cfg(test)]
mod aws;
#[cfg(test)]
mod bad_objects_are_refused;
#[cfg(test)]
mod bad_pool_beside_good;
#[cfg(test)]
mod behavior_is_obeyed_by_the_second;
#[cfg(test)]
mod beside_other_autoscalers;
#[cfg(test)]
mod budget_window;
#[cfg(test)]
mod canary_changes_no_size;
#[cfg(test)]
mod capacity_buffer;
#[cfg(test)]
mod capacity_quota;
#[cfg(test)]
mod cheaper_node_takes_over;
#[cfg(test)]
mod clocks_survive_a_restart;
#[cfg(test)]
mod cluster_api;
#[cfg(test)]
mod cluster_is_upgraded;
#[cfg(test)]
mod compare_reports_the_difference;
#[cfg(test)]
mod control_plane_comes_up;
#[cfg(test)]
mod crash_points;
#[cfg(test)]
mod crash_points_of_a_request;
#[cfg(test)]
mod demand_rises_and_falls;
#[cfg(test)]
mod device_mixes;
#[cfg(test)]
mod device_taint_rules;
#[cfg(test)]
mod devices;
#[cfg(test)]
mod devices_are_remembered_at_zero;
#[cfg(test)]
mod devices_as_extended_resources;
#[cfg(test)]
mod drain_of_a_pod_that_never_dies;
#[cfg(test)]
mod drain_undone_when_suspended;
#[cfg(test)]
mod etcd_restored_from_a_backup;
#[cfg(test)]
mod every_kind_with_a_scale;
#[cfg(test)]
mod expander_grpc;
#[cfg(test)]
mod explain_page_is_true;
#[cfg(test)]
mod external_grpc;
#[cfg(test)]
mod external_scaler;
#[cfg(test)]
mod foreign_scheduler_buys_nothing;
#[cfg(test)]
mod from_zero_to_running;
#[cfg(test)]
mod gang_keeps_its_nodes;
#[cfg(test)]
mod gang_keeps_to_one_domain;
#[cfg(test)]
mod gangs;
#[cfg(test)]
mod gitops_tools_understand_us;
#[cfg(test)]
mod handed_over_from_karpenter;
#[cfg(test)]
mod history_is_compacted_meanwhile;
#[cfg(test)]
mod hpa_at_zero;
#[cfg(test)]
mod hpa_becomes_a_policy;
#[cfg(test)]
mod hpa_observed_then_replaced;
mod http_source;
#[cfg(test)]
mod hundred_nodes_rotate;
#[cfg(test)]
mod image_is_pushed;
#[cfg(test)]
mod installed_with_helm;
#[cfg(test)]
mod interrupted_node_is_drained_at_once;
#[cfg(test)]
mod karpenter_crds_beside_ours;
#[cfg(test)]
mod kill_at_each_step_of_a_removal;
#[cfg(test)]
mod kubectl_sees_hpas_as_ever;
#[cfg(test)]
mod kueue;
#[cfg(test)]
mod launch_failure_backs_off_one_group;
#[cfg(test)]
mod leader_killed_the_other_goes_on;
#[cfg(test)]
mod live_page_in_a_browser;
#[cfg(test)]
mod manifests_are_true;
#[cfg(test)]
mod many_nodes_emptied_within_budgets;
#[cfg(test)]
mod metrics_are_read;
#[cfg(test)]
mod metrics_server_stops;
#[cfg(test)]
mod nodes_are_counted_as_the_scheduler_counts;
#[cfg(test)]
mod nodes_that_go_next_are_tainted_softly;
#[cfg(test)]
mod operator_may_change_only_its_marks_on_nodes;
#[cfg(test)]
mod pdb_is_respected;
#[cfg(test)]
mod pod_bound_between_check_and_delete;
#[cfg(test)]
mod pods_of_others_change_nothing;
#[cfg(test)]
mod pool_edited_suspended_deleted;
#[cfg(test)]
mod pool_rotates_to_its_template;
#[cfg(test)]
mod preview_beside_apply;
#[cfg(test)]
mod previous_version;
#[cfg(test)]
mod prometheus_over_tls;
#[cfg(test)]
mod prometheus_scrapes_us;
#[cfg(test)]
mod protected_pod_keeps_its_node;
#[cfg(test)]
mod provisioning_request;
#[cfg(test)]
mod queries_are_confined;
#[cfg(test)]
mod quick_start_is_true;
#[cfg(test)]
mod random_mixes;
#[cfg(test)]
mod release_leaves_nothing;
#[cfg(test)]
mod replicas_are_demand_before_they_exist;
#[cfg(test)]
mod replicas_reset_by_another;
#[cfg(test)]
mod requested_removal;
#[cfg(test)]
mod required_driver_is_waited_for;
#[cfg(test)]
mod rules_beside_what_is_there;
#[cfg(test)]
mod rules_between_pods;
#[cfg(test)]
mod rules_of_volumes_and_priorities;
#[cfg(test)]
mod scale_in_empties_nodes;
#[cfg(test)]
mod schedule_raises_the_minimum;
#[cfg(test)]
mod schedule_raises_the_replicas;
#[cfg(test)]
mod scheduler_stopped;
#[cfg(test)]
mod scorecard;
#[cfg(test)]
mod shards_of_a_killed_replica;
#[cfg(test)]
mod sick_node_is_repaired;
#[cfg(test)]
mod simulated_api_server_is_true;
#[cfg(test)]
mod stale_second_api_server;
#[cfg(test)]
mod surge_drain;
#[cfg(test)]
mod takeover_from_the_controller_manager;
#[cfg(test)]
mod the_load_goes_and_the_nodes_follow;
#[cfg(test)]
mod to_zero_and_back;
#[cfg(test)]
mod two_owners_of_a_workload;
#[cfg(test)]
mod two_pools_the_right_one;
#[cfg(test)]
mod volume_attached_without_a_pod;
#[cfg(test)]
mod zone_outage_removes_nothing;

#[cfg(test)]
#[path = "../../../src/headroom/tests/pages/mod.rs"]
mod pages;
mod redis_source;
