//! Cluster Autoscaler's estimate where its way of going round decides.

use std::sync::Arc;

use headroom_core::nodes::estimator::estimate;
use headroom_core::nodes::packing::Wanted;
use headroom_core::scheduling::{ClassIx, PodRef, Snapshot, TemplateNode};
use headroom_core::testing::{node, pod, world};

#[test]
fn search_goes_on_behind_the_last_node_though_nodes_were_added_since() {
    let world = world().build();
    let mut snapshot = Snapshot::new(&world);
    let template = TemplateNode { node: node("template").cpu("10").build(), ..TemplateNode::default() };
    // Free after each step: 3; 3 and 4; 3 and half a core, and 6.5 on one more. Behind the second of two comes the first:
    // it takes the pod of two cores, and the third node has room for four of 1.6.
    let sizes = [("7", 1), ("6", 1), ("3500m", 2), ("2", 1), ("1600m", 4)];
    let groups: Vec<(ClassIx, Vec<PodRef>)> = sizes
        .into_iter()
        .map(|(cpu, count)| {
            let class = snapshot.class_ix(&pod("p").cpu(cpu).class());
            (class, vec![PodRef::Virtual(class); count])
        })
        .collect();
    let wanted: Vec<Wanted<'_>> =
        groups.iter().map(|(class, pods)| Wanted { class: *class, priority: 0, pods }).collect();
    let found = estimate(&mut snapshot, &Arc::new(template), &wanted, None);
    assert_eq!((found.nodes, found.scheduled), (3, vec![1, 1, 2, 1, 4]));
}
