//! Changes that would open a pool to a pending pod. A change is advised only after a plan with it has served the pod.

use std::sync::Arc;

use headroom_core::config::{Config, Mode, Pool};
use headroom_core::plan::{Plan, PodVerdict, PoolReason};
use headroom_core::reason::Reason;
use headroom_core::scheduling::constraints::{Toleration, TolerationOperator};
use headroom_core::world::pod::Pod;
use headroom_core::world::view::View;

use super::case::Opened;
use super::explanation::about;
use super::pod::verdict_in;

/// Most plans made for one explanation.
const TRIALS_MAX: usize = 8;

/// Advice on each pool that refuses the pod, in the order of the verdict.
pub(crate) fn advice(opened: &Opened<'_>, pod: &Pod, verdict: &PodVerdict) -> Vec<String> {
    let mut trials = Trials { opened, pod, left: TRIALS_MAX, tolerant: None };
    verdict.pools.iter().filter_map(|refused| trials.change(&refused.pool, refused.reason)).collect()
}

/// Plans with one change each.
struct Trials<'a> {
    opened: &'a Opened<'a>,
    pod: &'a Pod,
    left: usize,
    /// The plan in which the pod tolerates every taint: the same for all pools.
    tolerant: Option<Option<Plan>>,
}

impl Trials<'_> {
    /// Returns the time at which, or the change by which, a pool's refusal ends.
    fn change(&mut self, pool: &str, reason: Reason) -> Option<String> {
        let config = self.opened.case.input.config.pool(pool)?;
        let limits = |pool: &mut Pool| (pool.limit_cpu_milli, pool.limit_memory_bytes) = (None, None);
        match reason {
            Reason::BackingOff => {
                let memory = self.opened.case.input.history.pools.get(pool)?;
                let until = memory.backoffs.values().map(|backoff| backoff.until).min()?;
                Some(format!("pool {pool} is tried again {} ({until})", about(until, self.opened.now())))
            }
            Reason::MaxNodesReached => {
                let most = config.max_nodes;
                let raised = |pool: &mut Pool| pool.max_nodes = u32::MAX;
                self.in_pool(pool, raised, &format!("raise maxNodes above {most}"))
            }
            Reason::PoolLimitReached => self.in_pool(pool, limits, "raise spec.limits"),
            Reason::ClusterLimitReached => {
                let unlimited = |config: &mut Config| {
                    let cluster = &mut config.cluster;
                    (cluster.max_nodes, cluster.max_cpu_milli, cluster.max_memory_bytes) = (None, None, None);
                };
                let words = "raise the limits of the ClusterScalingPolicy, or free nodes elsewhere";
                self.with(pool, unlimited, words)
            }
            Reason::CapacityQuotaReached => {
                Some("raise the limit of the CapacityQuota, or free nodes that it counts".to_owned())
            }
            Reason::Suspended => self.in_pool(pool, |pool| pool.mode = Mode::Apply, "set spec.mode to Apply"),
            Reason::PreviewOnly => {
                let words = "set spec.mode to Apply, under an operator without --preview";
                self.in_pool(pool, |pool| pool.mode = Mode::Apply, words)
            }
            Reason::ScaleUpDisabled => {
                let enabled = |pool: &mut Pool| pool.scale_up.enabled = true;
                self.in_pool(pool, enabled, "set spec.scaleUp.enabled to true")
            }
            Reason::TaintNotTolerated => self.toleration(pool),
            _ => None,
        }
    }

    /// Advice to change a pool.
    fn in_pool(&mut self, name: &str, edit: impl Fn(&mut Pool), words: &str) -> Option<String> {
        let edit_one = |config: &mut Config| {
            config.pools.iter_mut().filter(|pool| *pool.name == *name).for_each(&edit);
        };
        self.with(name, edit_one, words)
    }

    /// Advice to change the settings, if that opens the pool.
    fn with(&mut self, name: &str, edit: impl Fn(&mut Config), words: &str) -> Option<String> {
        self.left = self.left.checked_sub(1)?;
        let mut config: Config = self.opened.case.config();
        edit(&mut config);
        let input = &self.opened.case.input;
        let plan = headroom_core::plan(self.opened.view(), &input.history, &config, input.now);
        Some(match self.answer(&plan, name)? {
            Answer::Takes => format!("pool {name}: {words}"),
            Answer::Refuses(why) => format!("pool {name}: it is not enough to {words}: {why}"),
        })
    }

    /// Advice to tolerate a pool's taints.
    fn toleration(&mut self, pool: &str) -> Option<String> {
        if self.tolerant.is_none() {
            self.left = self.left.checked_sub(1)?;
            self.tolerant = Some(self.tolerating());
        }
        let plan = self.tolerant.as_ref()?.as_ref()?;
        let place = match self.pod.owner {
            Some(_) => "the pod's template",
            None => "the pod, which must be created anew for it,",
        };
        Some(match self.answer(plan, pool)? {
            Answer::Takes => format!("a toleration in {place} would open pool {pool}"),
            Answer::Refuses(why) => format!("pool {pool}: a toleration is not enough: {why}"),
        })
    }

    /// The plan in which all pods of the pod's kind tolerate every taint.
    fn tolerating(&self) -> Option<Plan> {
        let input = &self.opened.case.input;
        let mut record = input.world.clone();
        let class = record.pods.iter().find(|pod| pod.key == self.pod.key)?.class;
        let class = Arc::make_mut(record.classes.get_mut(class)?);
        class.tolerations.push(Toleration {
            key: "".into(),
            operator: TolerationOperator::Exists,
            value: "".into(),
            effect: None,
        });
        let (world, freshness) = (record.world().ok()?, record.freshness());
        let view = View::new(&world, &freshness);
        Some(headroom_core::plan(view, &input.history, &self.opened.case.config(), input.now))
    }

    /// True if the pool takes the pod in a plan; `None` where the plan does not report it.
    fn answer(&self, plan: &Plan, pool: &str) -> Option<Answer> {
        let verdict = verdict_in(plan, self.pod)?;
        if verdict.on_new.contains_key(pool) {
            return Some(Answer::Takes);
        }
        match verdict.pools.iter().find(|one| *one.pool == *pool) {
            None => (verdict.unplaced_count == 0).then_some(Answer::Takes),
            // The cloud's groups are as large as the pool was allowed to be.
            Some(PoolReason { reason: Reason::AnotherPoolChosen | Reason::GroupMaxNodesReached, .. }) => {
                Some(Answer::Takes)
            }
            Some(refused) => {
                Some(Answer::Refuses(format!("{}, {}", refused.reason.as_str(), refused.message)))
            }
        }
    }
}

/// Answer of a pool in a plan with a change.
enum Answer {
    Takes,
    /// For this reason.
    Refuses(String),
}
