//! NodePool as the rest of the operator sees it: parsed, in range, every default filled in.

use std::time::Duration;

use headroom_core::window::Window;

use super::provider::{ValidatedProvider, ValidatedTemplate, read_provider, read_template};
use super::{Checker, FieldError, MAX_NODES, ValidatedBudget, ValidatedLimits};
use crate::node_pool::{
    Backoff, ConditionWord, Drain, DriftPolicy, GroupScaling, MAX_POOL_NAME_LENGTH, Mode, NodePool,
    NodePoolSpec, PreferredPoolPolicy, RepairRule, Rotation, ScaleDown, ScaleDownPolicy, ScaleUp, Schedule,
};

/// A pool whose every field can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedPool {
    /// Name of the object, 1 to 40 characters.
    pub name: String,
    /// Mode in which the operator handles it.
    pub mode: Mode,
    /// Source of nodes.
    pub provider: ValidatedProvider,
    /// Fewest nodes, at most `max_nodes`; schedules may change it.
    pub min_nodes: u32,
    /// Most nodes; schedules may change it.
    pub max_nodes: u32,
    /// Ceilings on the sum over the nodes; its `nodes` is none.
    pub limits: ValidatedLimits,
    /// Shape of a new node.
    pub template: ValidatedTemplate,
    /// Price of one node for one hour, in millionths of the currency; none if unknown.
    pub price_per_hour_micros: Option<u64>,
    /// Rank for the priority expander.
    pub priority: i32,
    /// Steps by which its groups grow and shrink.
    pub group_scaling: GroupScaling,
    /// Growth of the pool.
    pub scale_up: ValidatedScaleUp,
    /// Removals from the pool.
    pub scale_down: ValidatedScaleDown,
    /// Nodes that are replaced because they are outdated.
    pub rotation: ValidatedRotation,
    /// Conditions that call for the replacement of a node.
    pub repair: Vec<ValidatedRepair>,
    /// Other bounds at certain times.
    pub schedules: Vec<ValidatedSchedule>,
}

/// Growth of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedScaleUp {
    /// True if pods may make it grow.
    pub enabled: bool,
    /// Time that a node may take to register; more than 0.
    pub provision_timeout: Duration,
    /// Time that a registered node may take to become ready; more than 0.
    pub startup_timeout: Duration,
    /// Time that a group is left alone after a failed launch.
    pub backoff: ValidatedBackoff,
}

/// Time that a group is left alone after a failed launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedBackoff {
    /// After the first failure; more than 0, at most `max`.
    pub initial: Duration,
    /// At most.
    pub max: Duration,
    /// Time after the last failure at which all are forgotten.
    pub reset_after: Duration,
}

/// Removals from a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedScaleDown {
    /// True if nodes may be removed.
    pub enabled: bool,
    /// Nodes that may go.
    pub policy: ScaleDownPolicy,
    /// Saving that a replacement must bring, in percent, 1 to 100.
    pub min_saving_percent: u8,
    /// Age of nodes and pods before they are disturbed to save costs.
    pub consolidate_after: Duration,
    /// Percentage up to which requests leave a node underutilized, 0 to 100.
    pub utilization_threshold_percent: u8,
    /// The same by GPUs alone, for nodes that have some, 0 to 100.
    pub gpu_utilization_threshold_percent: u8,
    /// True if DaemonSet pods are left out of it.
    pub ignore_daemon_sets_utilization: bool,
    /// True if static pods are left out of it.
    pub ignore_mirror_pods_utilization: bool,
    /// Time that a node must have been unneeded.
    pub unneeded_for: Duration,
    /// Time that an unneeded node must have been unready.
    pub unready_for: Duration,
    /// Time that removals wait after the pool grew.
    pub delay_after_add: Duration,
    /// Time that removals wait after a removal.
    pub delay_after_delete: Duration,
    /// Time that removals wait after a failed removal.
    pub delay_after_failure: Duration,
    /// Time for which a pod that came in place of an evicted one is left alone.
    pub eviction_cooldown: Duration,
    /// Ceilings on nodes that leave at once.
    pub budgets: Vec<ValidatedBudget>,
    /// Move of pods off a node.
    pub drain: ValidatedDrain,
}

/// Nodes that are replaced because they are outdated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValidatedRotation {
    /// Age from which nodes are replaced, at least 1 h; `None` for never.
    pub max_age: Option<Duration>,
    /// Policy for drifted nodes.
    pub drift: DriftPolicy,
    /// Policy for nodes whose pods fit a pool that is preferred.
    pub preferred_pool: PreferredPoolPolicy,
}

/// A condition that calls for the replacement of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedRepair {
    /// Type of the condition; not `Ready`.
    pub condition: String,
    /// The status that means that something is wrong.
    pub status: ConditionWord,
    /// Time that it must have lasted, at least 1 min.
    pub lasts: Duration,
}

/// Move of pods off a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedDrain {
    /// Longest grace period.
    pub max_grace_period: Duration,
    /// Time that refused evictions are tried again; more than 0.
    pub eviction_timeout: Duration,
    /// True if local storage keeps a node.
    pub skip_local_storage: bool,
    /// True if system pods without a PodDisruptionBudget keep a node.
    pub skip_system_pods: bool,
    /// Owners with fewer replicas keep a node.
    pub min_replicas: u32,
}

/// Other bounds while a window is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedSchedule {
    /// Its name, unique in the pool.
    pub name: String,
    /// Window in which it holds.
    pub window: Window,
    /// Fewest nodes then, if it sets it.
    pub min_nodes: Option<u32>,
    /// Most nodes then, if it sets it.
    pub max_nodes: Option<u32>,
}

/// Most rules of repair.
const REPAIR_MAX: usize = 20;
/// Time that a condition lasts before a node is replaced, where nothing is set.
const REPAIR_DEFAULT: Duration = Duration::from_mins(10);
/// Least time of that.
const REPAIR_LEAST: Duration = Duration::from_mins(1);
/// Least age from which nodes may be replaced.
const MAX_AGE_LEAST: Duration = Duration::from_secs(3600);

/// The pool with every default filled in.
///
/// # Errors
/// Every field that can not be used, with its path and what to write instead.
pub fn validate_pool(pool: &NodePool) -> Result<ValidatedPool, Vec<FieldError>> {
    // Without `..`: a new field that nobody reads here must not compile.
    let NodePoolSpec {
        mode,
        provider,
        min_nodes,
        max_nodes,
        limits,
        template,
        price,
        priority,
        group_scaling,
        scale_up,
        scale_down,
        rotation,
        repair,
        schedules,
    } = &pool.spec;
    let mut check = Checker::default();
    let name = pool.metadata.name.clone().unwrap_or_default();
    check.require(
        !name.is_empty() && name.len() <= MAX_POOL_NAME_LENGTH,
        "metadata.name",
        "must have 1 to 40 characters",
        "choose a shorter name",
    );
    let max_nodes = check.count(Some(*max_nodes), 0, (0, MAX_NODES), "spec.maxNodes");
    let min_nodes = check.count(*min_nodes, 0, (0, MAX_NODES), "spec.minNodes");
    check.require(
        min_nodes <= max_nodes,
        "spec.minNodes",
        "is greater than spec.maxNodes",
        "lower minNodes or raise maxNodes",
    );
    let limits = limits.as_ref().map_or_else(ValidatedLimits::default, |limits| ValidatedLimits {
        nodes: None,
        cpu_milli: limits.cpu.as_ref().map(|q| check.amount("cpu", q, "spec.limits.cpu")),
        memory_bytes: limits.memory.as_ref().map(|q| check.amount("memory", q, "spec.limits.memory")),
        ..ValidatedLimits::default()
    });
    let template = read_template(&mut check, &template.clone().unwrap_or_default(), provider.type_);
    let price_per_hour_micros = price.as_ref().and_then(|price| {
        let micros = price_micros(&price.per_hour);
        let fix = "use a number such as 0.768, with at most six digits before and after the point";
        check.require(micros.is_some(), "spec.price.perHour", "is no price", fix);
        micros
    });
    let priority = check.number(*priority, 0, (-1_000_000, 1_000_000), "spec.priority");
    let scale_up = read_scale_up(&mut check, &scale_up.clone().unwrap_or_default());
    let group_scaling = group_scaling.unwrap_or_default();
    let scale_down = read_scale_down(&mut check, &scale_down.clone().unwrap_or_default(), group_scaling);
    let rotation = read_rotation(&mut check, rotation.as_ref(), group_scaling);
    let repair = read_repair(&mut check, repair, group_scaling);
    let schedules = read_schedules(&mut check, schedules, max_nodes);
    let Some(provider) = read_provider(&mut check, provider) else {
        return Err(check.errors);
    };
    let alike = price.is_some() || template.capacity.is_some() || group_scaling == GroupScaling::ZeroOrMax;
    check.require(
        !(alike && matches!(&provider, ValidatedProvider::Aws(aws) if aws.managed.is_some())),
        "spec.provider.aws.managed",
        "chooses among machines of several sizes",
        "remove price, template.capacity and groupScaling: ZeroOrMax",
    );
    let mode = mode.unwrap_or_default();
    check.finish(ValidatedPool {
        name,
        mode,
        provider,
        min_nodes,
        max_nodes,
        limits,
        template,
        price_per_hour_micros,
        priority,
        group_scaling,
        scale_up,
        scale_down,
        rotation,
        repair,
        schedules,
    })
}

fn read_repair(check: &mut Checker, rules: &[RepairRule], scaling: GroupScaling) -> Vec<ValidatedRepair> {
    check.require(
        rules.is_empty() || scaling == GroupScaling::PerNode,
        "spec.groupScaling",
        "is ZeroOrMax, which repair does not go with",
        "remove one of the two",
    );
    check.require(rules.len() <= REPAIR_MAX, "spec.repair", "has more than 20 items", "remove some");
    let mut read: Vec<ValidatedRepair> = Vec::new();
    for (index, RepairRule { condition, status, lasts }) in rules.iter().enumerate() {
        let path = format!("spec.repair[{index}]");
        check.require(
            !condition.is_empty() && condition != "Ready",
            &format!("{path}.condition"),
            "is empty or Ready",
            "name another condition; nodes that are not ready are removed after scaleDown.unreadyFor",
        );
        let field = format!("{path}.for");
        let lasts = check.duration(lasts.as_ref(), REPAIR_DEFAULT.as_secs(), &field);
        let fix = "set at least 1m: conditions can be wrong for a moment";
        check.require(REPAIR_LEAST <= lasts, &field, "is less than 1m", fix);
        let status = status.unwrap_or_default();
        let twice = read.iter().any(|one| one.condition == *condition && one.status == status);
        check.require(
            !twice,
            &path,
            "names a condition and status for the second time",
            "remove one of the two",
        );
        read.push(ValidatedRepair { condition: condition.clone(), status, lasts });
    }
    read
}

fn read_rotation(
    check: &mut Checker,
    rotation: Option<&Rotation>,
    scaling: GroupScaling,
) -> ValidatedRotation {
    let Some(Rotation { max_age, drift, preferred_pool }) = rotation else {
        return ValidatedRotation::default();
    };
    check.require(
        scaling == GroupScaling::PerNode,
        "spec.groupScaling",
        "is ZeroOrMax, which rotation does not go with",
        "remove one of the two",
    );
    check.require(
        max_age.is_some() || drift.is_some() || preferred_pool.is_some(),
        "spec.rotation",
        "sets none of maxAge, drift and preferredPool",
        "set one of them, or remove rotation",
    );
    let max_age = max_age
        .as_ref()
        .map(|age| check.duration(Some(age), MAX_AGE_LEAST.as_secs(), "spec.rotation.maxAge"));
    if let Some(age) = max_age {
        check.require(
            MAX_AGE_LEAST <= age,
            "spec.rotation.maxAge",
            "is less than 1h",
            "set at least 1h: nodes would be replaced before their replacements are ready",
        );
    }
    ValidatedRotation {
        max_age,
        drift: drift.unwrap_or_default(),
        preferred_pool: preferred_pool.unwrap_or_default(),
    }
}

fn read_scale_up(check: &mut Checker, scale_up: &ScaleUp) -> ValidatedScaleUp {
    let ScaleUp { enabled, provision_timeout, startup_timeout, backoff } = scale_up;
    let Backoff { initial, max, reset_after } = backoff.clone().unwrap_or_default();
    let path = "spec.scaleUp";
    let backoff = ValidatedBackoff {
        initial: check.positive_duration(initial.as_ref(), 5 * MINUTE, &format!("{path}.backoff.initial")),
        max: check.duration(max.as_ref(), 30 * MINUTE, &format!("{path}.backoff.max")),
        reset_after: check.duration(
            reset_after.as_ref(),
            180 * MINUTE,
            &format!("{path}.backoff.resetAfter"),
        ),
    };
    check.require(
        backoff.initial <= backoff.max,
        "spec.scaleUp.backoff.initial",
        "is longer than backoff.max",
        "lower initial (default 5m) or raise max (default 30m)",
    );
    let provision = format!("{path}.provisionTimeout");
    let startup = format!("{path}.startupTimeout");
    ValidatedScaleUp {
        enabled: enabled.unwrap_or(true),
        provision_timeout: check.positive_duration(provision_timeout.as_ref(), 15 * MINUTE, &provision),
        startup_timeout: check.positive_duration(startup_timeout.as_ref(), 15 * MINUTE, &startup),
        backoff,
    }
}

const MINUTE: u64 = 60;

fn read_scale_down(
    check: &mut Checker,
    scale_down: &ScaleDown,
    group_scaling: GroupScaling,
) -> ValidatedScaleDown {
    let ScaleDown {
        enabled,
        policy,
        min_saving,
        consolidate_after,
        utilization_threshold,
        gpu_utilization_threshold,
        ignore_daemon_sets_utilization,
        ignore_mirror_pods_utilization,
        unneeded_for,
        unready_for,
        delay_after_add,
        delay_after_delete,
        delay_after_failure,
        eviction_cooldown,
        budgets,
        drain,
    } = scale_down;
    let at = |field: &str| format!("spec.scaleDown.{field}");
    let consolidates =
        *policy == Some(ScaleDownPolicy::WhenCheaper) || min_saving.is_some() || consolidate_after.is_some();
    check.require(
        *policy != Some(ScaleDownPolicy::WhenUnderutilized) || !consolidates,
        &at("policy"),
        "is WhenUnderutilized, so minSaving and consolidateAfter have no effect",
        "remove it, or them",
    );
    check.require(
        group_scaling == GroupScaling::PerNode || !consolidates,
        "spec.groupScaling",
        "is ZeroOrMax, which scaleDown.policy: WhenCheaper and its minSaving and consolidateAfter do not go with",
        "remove one or the other",
    );
    let policy = policy.unwrap_or(match group_scaling {
        GroupScaling::PerNode => ScaleDownPolicy::WhenCheaper,
        GroupScaling::ZeroOrMax => ScaleDownPolicy::WhenUnderutilized,
    });
    let min_saving = check.percent(*min_saving, 15, &at("minSaving"));
    check.require(0 < min_saving, &at("minSaving"), "is 0", "use 1 to 100");
    ValidatedScaleDown {
        enabled: enabled.unwrap_or(true),
        policy,
        min_saving_percent: min_saving,
        consolidate_after: check.duration(consolidate_after.as_ref(), 10 * MINUTE, &at("consolidateAfter")),
        utilization_threshold_percent: check.percent(*utilization_threshold, 50, &at("utilizationThreshold")),
        gpu_utilization_threshold_percent: check.percent(
            *gpu_utilization_threshold,
            50,
            &at("gpuUtilizationThreshold"),
        ),
        ignore_daemon_sets_utilization: ignore_daemon_sets_utilization.unwrap_or(false),
        ignore_mirror_pods_utilization: ignore_mirror_pods_utilization.unwrap_or(false),
        unneeded_for: check.duration(unneeded_for.as_ref(), 10 * MINUTE, &at("unneededFor")),
        unready_for: check.duration(unready_for.as_ref(), 20 * MINUTE, &at("unreadyFor")),
        delay_after_add: check.duration(delay_after_add.as_ref(), 10 * MINUTE, &at("delayAfterAdd")),
        delay_after_delete: check.duration(delay_after_delete.as_ref(), 0, &at("delayAfterDelete")),
        delay_after_failure: check.duration(
            delay_after_failure.as_ref(),
            3 * MINUTE,
            &at("delayAfterFailure"),
        ),
        eviction_cooldown: check.duration(
            eviction_cooldown.as_ref(),
            if policy == ScaleDownPolicy::WhenCheaper { 30 * MINUTE } else { 0 },
            &at("evictionCooldown"),
        ),
        budgets: check.budgets(budgets, &at("budgets")),
        drain: read_drain(check, &drain.clone().unwrap_or_default()),
    }
}

fn read_drain(check: &mut Checker, drain: &Drain) -> ValidatedDrain {
    let Drain { max_grace_period, eviction_timeout, skip_local_storage, skip_system_pods, min_replicas } =
        drain;
    let at = |field: &str| format!("spec.scaleDown.drain.{field}");
    ValidatedDrain {
        max_grace_period: check.duration(max_grace_period.as_ref(), 10 * MINUTE, &at("maxGracePeriod")),
        eviction_timeout: check.positive_duration(
            eviction_timeout.as_ref(),
            2 * MINUTE,
            &at("evictionTimeout"),
        ),
        skip_local_storage: skip_local_storage.unwrap_or(true),
        skip_system_pods: skip_system_pods.unwrap_or(true),
        min_replicas: check.count(*min_replicas, 0, (0, 1000), &at("minReplicas")),
    }
}

fn read_schedules(check: &mut Checker, schedules: &[Schedule], pool_max: u32) -> Vec<ValidatedSchedule> {
    check.unique(schedules.iter().map(|schedule| schedule.name.as_str()), "spec.schedules");
    let mut read = Vec::with_capacity(schedules.len());
    for (index, schedule) in schedules.iter().enumerate() {
        let Schedule { name, window, min_nodes, max_nodes } = schedule;
        let path = format!("spec.schedules[{index}]");
        let min = min_nodes.map(|n| check.count(Some(n), 0, (0, MAX_NODES), &format!("{path}.minNodes")));
        let max = max_nodes.map(|n| check.count(Some(n), 0, (0, MAX_NODES), &format!("{path}.maxNodes")));
        check.require(min.or(max).is_some(), &path, "has no effect", "set minNodes or maxNodes or both");
        check.require(
            min.is_none_or(|min| min <= max.unwrap_or(pool_max)),
            &format!("{path}.minNodes"),
            "is greater than the maxNodes that holds with it",
            "lower it, or raise maxNodes of the schedule",
        );
        if let Some(window) = check.window(window, &format!("{path}.window")) {
            read.push(ValidatedSchedule { name: name.clone(), window, min_nodes: min, max_nodes: max });
        }
    }
    read
}

/// Millionths of a decimal number with at most six digits on each side of the point.
pub(super) fn price_micros(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| (1..=6).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    Some(whole.parse::<u64>().ok()? * 1_000_000 + format!("{fraction:0<6}").parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(spec: &str) -> NodePool {
        let yaml = format!(
            "apiVersion: headroom.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: general}}\nspec:\n  maxNodes: 10\n  \
             provider: {{type: KWOK, kwok: {{zones: [a, b]}}}}\n{spec}"
        );
        serde_saphyr::from_str(&yaml).unwrap()
    }

    const CAPACITY: &str =
        "  template: {capacity: {cpu: '16', memory: 64Gi}, reserved: {cpu: 80m, memory: 1Gi}}\n";

    fn good(spec: &str) -> ValidatedPool {
        validate_pool(&pool(&format!("{CAPACITY}{spec}"))).unwrap()
    }

    /// The paths of all errors.
    fn errors(spec: &str) -> Vec<String> {
        let Err(errors) = validate_pool(&pool(&format!("{CAPACITY}{spec}"))) else { return Vec::new() };
        errors.into_iter().map(|error| error.path).collect()
    }

    #[test]
    fn defaults_are_those_that_the_fields_document() {
        let pool = good("");
        assert_eq!((pool.mode, pool.min_nodes, pool.max_nodes, pool.priority), (Mode::Apply, 0, 10, 0));
        let minutes = |n: u64| Duration::from_secs(n * 60);
        let up = &pool.scale_up;
        assert_eq!((up.enabled, up.provision_timeout, up.startup_timeout), (true, minutes(15), minutes(15)));
        assert_eq!(
            up.backoff,
            ValidatedBackoff { initial: minutes(5), max: minutes(30), reset_after: minutes(180) }
        );
        let down = &pool.scale_down;
        assert_eq!((down.enabled, down.utilization_threshold_percent), (true, 50));
        assert!(!down.ignore_daemon_sets_utilization && !down.ignore_mirror_pods_utilization);
        assert_eq!((down.unneeded_for, down.unready_for), (minutes(10), minutes(20)));
        assert_eq!((down.delay_after_add, down.delay_after_delete), (minutes(10), minutes(0)));
        assert_eq!((down.delay_after_failure, down.budgets.len()), (minutes(3), 0));
        assert_eq!((down.policy, down.min_saving_percent), (ScaleDownPolicy::WhenCheaper, 15));
        assert_eq!((down.consolidate_after, down.eviction_cooldown), (minutes(10), minutes(30)));
        let drain = ValidatedDrain {
            max_grace_period: minutes(10),
            eviction_timeout: minutes(2),
            skip_local_storage: true,
            skip_system_pods: true,
            min_replicas: 0,
        };
        assert_eq!(down.drain, drain);
    }

    #[test]
    fn pods_are_left_alone_after_an_eviction_where_all_nodes_may_be_emptied() {
        let cooldown = |spec: &str| good(spec).scale_down.eviction_cooldown.as_secs();
        assert_eq!(cooldown("  scaleDown: {policy: WhenCheaper}"), 1_800);
        assert_eq!(cooldown("  scaleDown: {policy: WhenUnderutilized}"), 0);
        assert_eq!(cooldown("  scaleDown: {policy: WhenCheaper, evictionCooldown: 0s}"), 0);
        assert_eq!(cooldown("  scaleDown: {evictionCooldown: 5m}"), 300);
    }

    #[test]
    fn groups_that_go_as_a_whole_are_removed_by_use_and_not_by_price() {
        let whole = good("  groupScaling: ZeroOrMax").scale_down;
        assert_eq!(
            (whole.policy, whole.eviction_cooldown),
            (ScaleDownPolicy::WhenUnderutilized, Duration::ZERO)
        );
        for wrong in ["policy: WhenCheaper", "minSaving: 20", "consolidateAfter: 1m"] {
            let spec = format!("  groupScaling: ZeroOrMax\n  scaleDown: {{{wrong}}}");
            assert_eq!(errors(&spec), ["spec.groupScaling"], "{wrong}");
        }
    }

    #[test]
    fn allocatable_is_capacity_less_reserved_with_110_pods() {
        let allocatable = good("").template.allocatable().unwrap();
        let expected = [("cpu", 15_920), ("memory", 63 << 30), ("pods", 110)];
        assert_eq!(allocatable, expected.map(|(resource, amount)| (resource.to_owned(), amount)).into());
    }

    #[test]
    fn a_price_is_read_in_millionths() {
        assert_eq!(good("  price: {perHour: '0.768'}").price_per_hour_micros, Some(768_000));
        assert_eq!(good("  price: {perHour: '12'}").price_per_hour_micros, Some(12_000_000));
        assert_eq!(errors("  price: {perHour: '1.'}"), ["spec.price.perHour"]);
    }

    #[test]
    fn budgets_are_counts_or_percentages() {
        let pool = good(
            "  scaleDown: {budgets: [{name: a, maxNodes: 3}, {name: b, maxNodes: '10%', reasons: [Unready, Empty]}]}",
        );
        let ceilings: Vec<_> = pool.scale_down.budgets.iter().map(|b| b.ceiling).collect();
        assert_eq!(ceilings, [super::super::Ceiling::Count(3), super::super::Ceiling::Percent(10)]);
        assert_eq!(pool.scale_down.budgets[0].reasons.len(), 8);
        assert_eq!(pool.scale_down.budgets[1].reasons.len(), 2);
    }

    #[test]
    fn every_wrong_field_is_named_at_once() {
        let found = errors(
            "  minNodes: 11\n  limits: {cpu: lots}\n  scaleUp: {startupTimeout: 0s, backoff: {initial: 1h}}\n  \
             scaleDown: {utilizationThreshold: 101, budgets: [{name: a, maxNodes: 101%}, {name: a, maxNodes: -1}]}",
        );
        let expected = [
            "spec.minNodes",
            "spec.limits.cpu",
            "spec.scaleUp.backoff.initial",
            "spec.scaleUp.startupTimeout",
            "spec.scaleDown.utilizationThreshold",
            "spec.scaleDown.budgets[1]",
            "spec.scaleDown.budgets[0].maxNodes",
            "spec.scaleDown.budgets[1].maxNodes",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn schedules_need_a_real_zone_a_cron_expression_and_an_effect() {
        let schedule =
            |window: &str| errors(&format!("  schedules: [{{name: a, minNodes: 2, window: {{{window}}}}}]"));
        assert!(schedule("timeZone: Europe/Berlin, start: '0 8 * * 1-5', duration: 10h").is_empty());
        assert_eq!(
            schedule("timeZone: Europe/Atlantis, start: '0 8 * * *', duration: 10h"),
            ["spec.schedules[0].window.timeZone"]
        );
        assert_eq!(schedule("start: '61 8 * * *', duration: 10h"), ["spec.schedules[0].window.start"]);
        assert_eq!(schedule("start: '0 8 * * *', duration: 169h"), ["spec.schedules[0].window.duration"]);
        let effect = errors("  schedules: [{name: a, window: {start: '0 8 * * *', duration: 1h}}]");
        assert_eq!(effect, ["spec.schedules[0]"]);
        let above =
            errors("  schedules: [{name: a, minNodes: 11, window: {start: '0 8 * * *', duration: 1h}}]");
        assert_eq!(above, ["spec.schedules[0].minNodes"]);
    }

    #[test]
    fn a_kwok_pool_without_capacity_or_member_is_refused() {
        let paths = |pool: &NodePool| -> Vec<String> {
            validate_pool(pool).unwrap_err().into_iter().map(|error| error.path).collect()
        };
        assert_eq!(paths(&pool("")), ["spec.template.capacity"]);
        let mut bare = pool(CAPACITY);
        bare.spec.provider.kwok = None;
        assert_eq!(paths(&bare), ["spec.provider.kwok"]);
    }

    #[test]
    fn reserved_can_not_exceed_capacity() {
        let mut greedy = pool(CAPACITY);
        let template = greedy.spec.template.as_mut().unwrap();
        template.reserved = Some([("cpu".to_owned(), "17".into()), ("gpu".to_owned(), "1".into())].into());
        let found: Vec<_> = validate_pool(&greedy).unwrap_err().into_iter().map(|error| error.path).collect();
        assert_eq!(found, ["spec.template.reserved[cpu]", "spec.template.reserved[gpu]"]);
    }

    #[test]
    fn an_error_says_where_what_and_how() {
        let Err(errors) = validate_pool(&pool(&format!("{CAPACITY}  minNodes: 11"))) else {
            panic!("accepted")
        };
        let expected = "spec.minNodes: is greater than spec.maxNodes: lower minNodes or raise maxNodes";
        assert_eq!(errors[0].to_string(), expected);
    }
}
