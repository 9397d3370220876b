//! The tests of the core that see it from outside, as one program: linked once, it is built in a fraction of the time.
//!
//! The golden vectors run in the package `headroom-conformance`.

mod anticipation;
mod arithmetic;
mod buffers;
mod bundles;
mod candidate_taints;
mod capacity_quotas;
mod consolidation;
mod consolidation_guards;
mod counts;
mod daemon_sets;
mod demand;
mod devices;
mod devices_leaving;
mod devices_remembered;
mod disruptions;
mod ending;
mod eviction_cooldown;
mod expander_grpc;
mod floods;
mod followers;
mod formula;
mod gangs;
mod gangs_domains;
mod gangs_leaving;
mod group_options;
mod in_doubt;
mod increases;
mod interruption;
mod leaving;
mod messages;
mod mixes;
mod new_domains;
mod offers;
mod open_labels;
mod packed;
mod packing;
mod placements;
mod places;
mod preferred_pool;
mod properties;
mod protection;
mod purchases;
mod ranks;
mod refusals;
mod removal;
mod removal_choice;
mod removal_ends;
mod removal_loop;
mod removal_marks;
mod repair;
mod replacement_choice;
mod replicas;
mod replicas_in_rollouts;
mod replicas_memory;
mod replicas_reported;
mod requests;
mod rotation;
mod scale_down;
mod scale_down_order;
mod scale_up;
mod scaled_to_zero;
mod scene;
mod selectors;
mod sent_away;
mod settling;
mod shapes;
mod shared_ids;
mod snapshot;
mod spare;
mod speed;
mod surge;
mod surge_replicas;
mod terminating;
mod topology;
mod turns;
mod unbound;
mod unknown_shapes;
mod volumes;
mod whole_groups;
mod world;
mod zero_replicas;

#[test]
fn every_file_of_this_folder_is_in_this_program() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = include_str!("main.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs") else { continue };
        let known = module == "main" || listed.contains(&format!("mod {module};"));
        assert!(known, "tests/{name} is run by nobody: add `mod {module};` to tests/main.rs");
    }
}
