//! Groups that the operator makes: those that may be made for a pool, and what becomes of those that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::time::UnixTime;
use headroom_core::world::provider::{
    BackoffKey, GroupState, LaunchFailure, Notice, NoticeKind, ProviderState,
};
use headroom_provider::PoolAtProvider;
use headroom_provider::aws::{Managed, Settings};

use super::activities::Class;
use super::calls::{InstanceType, NewGroup};
use super::cloud::Cloud;
use super::group::{Group, Launches, TemplateRef};
use super::prices;
use super::quota::quota_family;
use super::requirements;
use super::shape;
use super::templates::{self, Resolved};
use super::view::QUOTA_SHOWN_SECONDS;

/// Most groups that a pool considers, those that exist among them: each is an option of the plan, and may have a backoff, of which a
/// pool remembers 50.
pub(crate) const CONSIDERED_MAX: usize = 45;
/// Longest name of a group at AWS, in bytes.
const NAME_MAX: usize = 255;

/// What was read about a pool's possible groups.
struct Facts {
    /// The version that the launch template's name stands for.
    version: Arc<str>,
    /// Machines that meet the conditions on types.
    machines: Vec<InstanceType>,
    /// Types and zones in which AWS has them.
    offers: BTreeSet<(Arc<str>, Arc<str>)>,
    /// The subnet of each zone.
    subnets: BTreeMap<Arc<str>, Arc<str>>,
    /// The region.
    region: Option<Arc<str>>,
}

/// A group that may be made, or has been.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    name: Arc<str>,
    machine: InstanceType,
    zone: Arc<str>,
    subnet: Arc<str>,
    spot: bool,
    rank: u32,
    /// Price for an hour, in millionths; `None` while it is unknown.
    price_per_hour_micro: Option<i64>,
}

impl Candidate {
    /// Fewest types over which its machines are spread with those of other groups of the pool.
    fn diversity(&self, managed: &Managed) -> Option<u32> {
        (self.spot && 1 < managed.min_spot_types).then_some(managed.min_spot_types)
    }

    fn is_too_dear(&self, managed: &Managed) -> bool {
        let within = |max| self.price_per_hour_micro.is_some_and(|price| price <= max);
        managed.max_price_micro.is_some_and(|max| !within(max))
    }
}

/// Groups that a pool considers.
#[derive(Debug, Default)]
struct Candidates {
    considered: Vec<Candidate>,
    /// Number of all that meet the conditions.
    total: usize,
}

/// True if the group's tags say that the operator made it for this pool of this cluster.
#[must_use]
pub(crate) fn is_own(group: &Group, managed: &Managed) -> bool {
    managed.tags().iter().all(|(key, value)| group.tags.get(key) == Some(value))
}

/// Adds to a pool's state the groups that may be made, and sets what those that there are may do.
pub(crate) async fn complete(
    cloud: &Cloud,
    pool: &PoolAtProvider,
    settings: &Settings,
    managed: &Managed,
    state: &mut ProviderState,
) {
    forget_gone(cloud, state);
    let facts = match facts(cloud, settings.region.as_ref(), managed).await {
        Ok(facts) => facts,
        Err(words) => {
            // Which group is of which shape, and which others there may be, is not known: nothing is bought by guess.
            state.groups.values_mut().for_each(freeze);
            let message = format!("no group can be made: {words}").into();
            state.notices.push(Notice { kind: NoticeKind::TemplateUnreadable, group: None, message });
            return;
        }
    };
    let existing: BTreeSet<Arc<str>> = state.groups.keys().cloned().collect();
    let mut candidates = candidates(managed, &facts, &existing);
    state.notices.extend(price_spot(cloud, managed, &mut candidates).await);
    state.notices.extend(remark(&candidates));
    let current: BTreeMap<&Arc<str>, &Candidate> =
        candidates.considered.iter().map(|candidate| (&candidate.name, candidate)).collect();
    for (name, group) in &mut state.groups {
        adopt(cloud, pool, managed, name, current.get(name).copied(), group);
    }
    let now = cloud.host.now();
    for candidate in &candidates.considered {
        if !existing.contains(&candidate.name) {
            let group = possible(cloud, pool, (settings, managed), &facts, candidate, now);
            state.groups.insert(candidate.name.clone(), group);
        }
    }
    state.notices.sort();
}

/// Takes out groups that are gone though the last search by tags found them: they may be made again.
fn forget_gone(cloud: &Cloud, state: &mut ProviderState) {
    let snapshot = cloud.snapshot();
    state.groups.retain(|name, _| snapshot.groups.contains_key(name));
    let is_gone = |group: &Arc<str>| !snapshot.groups.contains_key(group);
    state.notices.retain(|notice| !notice.group.as_ref().is_some_and(is_gone));
}

/// Sets the prices of spot candidates and takes out those that are too dear; notices on prices that are not known.
async fn price_spot(cloud: &Cloud, managed: &Managed, candidates: &mut Candidates) -> Vec<Notice> {
    let considered = &mut candidates.considered;
    let types = considered.iter().filter(|one| one.spot).map(|one| one.machine.name.clone()).collect();
    let market = prices::spot(cloud, &types).await;
    for one in considered.iter_mut().filter(|one| one.spot) {
        one.price_per_hour_micro = market.of(managed, &one.machine, &one.zone);
    }
    let unpriced = considered.iter().filter(|one| one.price_per_hour_micro.is_none());
    let unpriced = unpriced.map(|one| (one.machine.name.clone(), one.spot)).collect();
    let before = considered.len();
    considered.retain(|one| !one.spot || !one.is_too_dear(managed));
    candidates.total -= before - considered.len();
    market.notice.into_iter().chain(prices::unknown(&unpriced, managed.max_price_micro.is_some())).collect()
}

fn freeze(group: &mut GroupState) {
    group.max = group.max.min(group.target);
}

fn remark(candidates: &Candidates) -> Option<Notice> {
    let Candidates { considered, total } = candidates;
    let notice = |kind, message: String| Notice { kind, group: None, message: message.into() };
    if considered.is_empty() {
        let words = "no type of machine meets managed.requirements and managed.maxPrice in the zones of managed.subnets";
        return Some(notice(NoticeKind::GroupUnsupported, words.to_owned()));
    }
    (considered.len() < *total).then(|| {
        let words = format!(
            "{} of {total} possible groups (type, zone and market) are considered, of each size the cheapest type on demand \
             first, or the newest: narrow managed.requirements to choose others",
            considered.len()
        );
        notice(NoticeKind::BoundsClamped, words)
    })
}

/// Sets rank and bounds of a group that exists. One that the spec would not make any more grows no more.
fn adopt(
    cloud: &Cloud,
    pool: &PoolAtProvider,
    managed: &Managed,
    name: &Arc<str>,
    candidate: Option<&Candidate>,
    state: &mut GroupState,
) {
    let snapshot = cloud.snapshot();
    let Some(group) = snapshot.groups.get(name).map(|read| &read.group) else { return };
    let Some(candidate) = candidate else {
        freeze(state);
        if !launches_by(group, &template_ref(managed)) {
            state.outdated = group.instances.iter().map(|one| one.id.clone()).collect();
        }
        return;
    };
    state.rank = Some(candidate.rank);
    state.price_per_hour_micro = candidate.price_per_hour_micro;
    state.diversity = candidate.diversity(managed);
    // What is narrower than the group's own bounds holds it back for a reason.
    if group.max <= state.max {
        // Its size is raised with the increase that needs it.
        state.max = pool.max_nodes.max(state.max);
    }
}

fn launches_by(group: &Group, template: &TemplateRef) -> bool {
    let own = match &group.launches {
        Launches::Template(own) => own,
        Launches::Mixed(mixed) => &mixed.template,
        Launches::Unknown | Launches::Configuration(_) => return false,
    };
    let same = |one: &Option<Arc<str>>, other: &Option<Arc<str>>| {
        one.as_ref().zip(other.as_ref()).is_none_or(|(one, other)| one == other)
    };
    own.version == template.version && same(&own.id, &template.id) && same(&own.name, &template.name)
}

/// The state of a group that does not exist yet.
fn possible(
    cloud: &Cloud,
    pool: &PoolAtProvider,
    (settings, managed): (&Settings, &Managed),
    facts: &Facts,
    candidate: &Candidate,
    now: UnixTime,
) -> GroupState {
    let group =
        Group { name: candidate.name.clone(), zones: vec![candidate.zone.clone()], ..Group::default() };
    let resolved = Resolved {
        types: vec![candidate.machine.clone()],
        spot: candidate.spot,
        version: facts.version.clone(),
        ..Resolved::default()
    };
    GroupState {
        zone: Some(candidate.zone.clone()),
        max: pool.max_nodes,
        template: shape::template(&group, pool, settings, &resolved).ok().map(Arc::new),
        failures: used_up(cloud, candidate, now).into_iter().collect(),
        rank: Some(candidate.rank),
        price_per_hour_micro: candidate.price_per_hour_micro,
        spot: candidate.spot,
        diversity: candidate.diversity(managed),
        possible: true,
        ..GroupState::default()
    }
}

/// A used-up quota toward which the group's machines would count.
fn used_up(cloud: &Cloud, candidate: &Candidate, now: UnixTime) -> Option<LaunchFailure> {
    let family = quota_family(&candidate.machine.name, candidate.spot);
    let (at, message) = cloud.snapshot().quotas.get(&family).cloned()?;
    let key = BackoffKey {
        group: candidate.name.clone(),
        zone: Some(candidate.zone.clone()),
        instance_type: Some(candidate.machine.name.clone()),
        market: Some(if candidate.spot { "Spot" } else { "OnDemand" }.into()),
    };
    let class = Class::Quota.backoff();
    (now.since(at).0 <= QUOTA_SHOWN_SECONDS).then_some(LaunchFailure { key, class, message, at })
}

/// Returns the group of this name as it is to be made; `None` when the spec asks for no such group.
///
/// # Errors
/// In words, when what it depends on cannot be read.
pub(crate) async fn new_group(
    cloud: &Cloud,
    pool: &PoolAtProvider,
    managed: &Managed,
    name: &Arc<str>,
) -> Result<Option<NewGroup>, String> {
    // Prices do not matter for one that has been chosen.
    let managed = &Managed { max_price_micro: None, ..managed.clone() };
    let facts = facts(cloud, None, managed).await?;
    // The bound on their number does not matter for one that has been chosen.
    let wanted = BTreeSet::from([name.clone()]);
    let candidates = candidates(managed, &facts, &wanted).considered;
    Ok(candidates.into_iter().find(|candidate| candidate.name == *name).map(|candidate| NewGroup {
        name: candidate.name,
        template: template_ref(managed),
        instance_type: candidate.machine.name,
        spot: candidate.spot,
        subnet: candidate.subnet,
        max: pool.max_nodes,
        tags: managed.tags(),
    }))
}

pub(crate) fn template_ref(managed: &Managed) -> TemplateRef {
    TemplateRef {
        id: managed.template_id.clone(),
        name: managed.template_name.clone(),
        version: managed.template_version.clone(),
    }
}

async fn facts(cloud: &Cloud, region: Option<&Arc<str>>, managed: &Managed) -> Result<Facts, String> {
    let data = templates::template_data(cloud, &template_ref(managed)).await?;
    if data.spot {
        return Err(
            "managed.launchTemplate asks for spot instances itself, which groups with a choice of market do \
                    not take: take InstanceMarketOptions out of it"
                .to_owned(),
        );
    }
    let mut subnets = BTreeMap::new();
    for which in &managed.subnets {
        for subnet in templates::subnets(cloud, which).await? {
            let first = subnets.entry(subnet.zone).or_insert_with(|| subnet.id.clone());
            if subnet.id < *first {
                *first = subnet.id;
            }
        }
    }
    subnets.retain(|zone: &Arc<str>, _| requirements::zone_may_be(zone, &managed.requirements));
    let mut machines = templates::catalogue(cloud, &requirements::patterns(managed)).await?;
    machines.retain(|machine| requirements::meets(machine, &managed.requirements));
    let names: Vec<Arc<str>> = machines.iter().map(|machine| machine.name.clone()).collect();
    let offers = templates::offers(cloud, &names).await?;
    Ok(Facts { version: data.version, machines, offers, subnets, region: region.cloned() })
}

/// The groups that the spec asks for, those of `kept` before others, up to [`CONSIDERED_MAX`].
fn candidates(managed: &Managed, facts: &Facts, kept: &BTreeSet<Arc<str>>) -> Candidates {
    let mut all: Vec<Vec<Candidate>> = Vec::new();
    let on_demand = |machine: &InstanceType| prices::on_demand(managed, facts.region.as_deref(), machine);
    for machine in requirements::in_order(facts.machines.clone(), on_demand) {
        let mut of_shape = Vec::new();
        let price = on_demand(&machine);
        for spot in requirements::markets(&machine, &managed.requirements) {
            for (zone, subnet) in &facts.subnets {
                if facts.offers.contains(&(machine.name.clone(), zone.clone())) {
                    let name = name_of(managed, &machine.name, zone, subnet, spot);
                    let (zone, subnet) = (zone.clone(), subnet.clone());
                    let price_per_hour_micro = price.filter(|_| !spot);
                    let machine = machine.clone();
                    let one = Candidate { name, machine, zone, subnet, spot, rank: 0, price_per_hour_micro };
                    // Spot prices are read for those that are considered.
                    if spot || !one.is_too_dear(managed) {
                        of_shape.push(one);
                    }
                }
            }
        }
        all.push(of_shape);
    }
    let total = all.iter().map(Vec::len).sum();
    let is_kept = |of_shape: &Vec<Candidate>| of_shape.iter().any(|one| kept.contains(&one.name));
    // Stable: the others stay in their order.
    all.sort_by_key(|of_shape| !is_kept(of_shape));
    let mut considered: Vec<Candidate> = Vec::new();
    for of_shape in all {
        // A shape is considered in all its zones or not at all, but for the first.
        if !considered.is_empty() && CONSIDERED_MAX < considered.len() + of_shape.len() {
            break;
        }
        considered.extend(of_shape.into_iter().take(CONSIDERED_MAX));
    }
    considered.sort_by_cached_key(|one| (requirements::rank_key(&one.machine, one.spot), one.zone.clone()));
    let mut rank = 0;
    for index in 0..considered.len() {
        let shape = |one: &Candidate| (one.machine.name.clone(), one.spot);
        if index != 0 && shape(&considered[index - 1]) != shape(&considered[index]) {
            rank += 1;
        }
        considered[index].rank = rank;
    }
    Candidates { considered, total }
}

/// The name of a group: the same for the same launch template, subnet, type and market, and another one for others.
fn name_of(managed: &Managed, machine: &str, zone: &str, subnet: &str, spot: bool) -> Arc<str> {
    let market = if spot { requirements::SPOT } else { requirements::ON_DEMAND };
    let template =
        [&managed.template_id, &managed.template_name].map(|part| part.as_deref().unwrap_or_default());
    let made_of = format!("{}/{}/{}/{subnet}", template[0], template[1], managed.template_version);
    let Managed { cluster, pool, .. } = managed;
    let words = format!("headroom-{cluster}-{pool}-{machine}-{zone}-{market}");
    // Two clusters or pools whose names run together the same way are told apart too.
    let seed = format!("{cluster}/{pool}/{machine}/{zone}/{market}/{made_of}");
    let end = format!("-{:016x}", fnv_1a(&seed));
    let length = words.len().min(NAME_MAX - end.len());
    let words: String = words.chars().take(length).collect();
    format!("{words}{end}").into()
}

/// FNV-1a: short, and fixed for all time, unlike the standard library's hashers.
pub(crate) fn fnv_1a(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn managed(pool: &str) -> Managed {
        Managed {
            pool: pool.into(),
            cluster: "prod".into(),
            template_name: Some("nodes".into()),
            template_version: "$Default".into(),
            ..Managed::default()
        }
    }

    #[test]
    fn names_fit_and_tell_groups_apart() {
        let name = |managed: &Managed, spot| name_of(managed, "m7i.large", "eu-west-1a", "subnet-1", spot);
        let web = managed("web");
        let given = name(&web, false);
        assert!(given.starts_with("headroom-prod-web-m7i.large-eu-west-1a-on-demand-"), "{given}");
        assert_eq!(given, name(&web, false));
        assert_ne!(given, name(&web, true));
        assert_ne!(given, name(&Managed { template_version: "2".into(), ..web.clone() }, false));
        let run_together = Managed { cluster: "prod-web".into(), ..managed("m7i.large") };
        assert_ne!(name(&web, false), name(&run_together, false));
        let long = Managed { cluster: "c".repeat(100).into(), ..managed(&"p".repeat(150)) };
        assert_eq!(name(&long, true).len(), NAME_MAX);
    }

    #[test]
    fn shapes_are_considered_in_all_their_zones_up_to_the_bound_and_existing_ones_first() {
        let machine = |index: u32| InstanceType {
            name: format!("m7i.s{index:02}").into(),
            cpus: index + 1,
            memory_mib: 1024,
            ..InstanceType::default()
        };
        let machines: Vec<InstanceType> = (0..40).map(machine).collect();
        let zones = ["a", "b", "c"];
        let offers = machines
            .iter()
            .flat_map(|machine| zones.iter().map(move |zone| (machine.name.clone(), Arc::from(*zone))));
        let facts = Facts {
            version: "1".into(),
            offers: offers.collect(),
            subnets: zones.iter().map(|zone| (Arc::from(*zone), Arc::from("subnet-1"))).collect(),
            machines: machines.clone(),
            region: None,
        };
        let web = managed("web");
        let found = candidates(&web, &facts, &BTreeSet::new());
        assert_eq!((found.considered.len(), found.total), (45, 120));
        assert_eq!(
            found.considered.last().map(|last| (&*last.machine.name, last.rank)),
            Some(("m7i.s14", 14))
        );
        let largest = name_of(&web, "m7i.s39", "b", "subnet-1", false);
        let found = candidates(&web, &facts, &BTreeSet::from([largest.clone()]));
        assert_eq!(found.considered.last().map(|last| last.rank), Some(14));
        assert!(found.considered.iter().any(|one| one.name == largest));
    }
}
