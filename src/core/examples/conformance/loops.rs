//! The families that run whole loops over a plain in-memory cloud, which decides nothing.

use headroom_core::history::History;
use headroom_core::nodes::upstream::{act, next_act};
use headroom_core::plan;
use headroom_core::time::UnixTime;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cloud::{Cloud, Event, Set};
use crate::families::Priorities;
use crate::model::{Group, Node, Pod};
use crate::removals::{BudgetInput, ControllerInput};
use crate::settings::{self, Options};
use crate::words::{difference, expanded, sorted, told, told_scale_down};

/// Most rounds of effects at one instant; more would be a loop without end.
const ROUNDS_MAX: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub options: Options,
    pub groups: Vec<Group>,
    #[serde(default)]
    pub nodes: Option<Vec<Node>>,
    #[serde(default)]
    pub pods: Option<Vec<Pod>>,
    #[serde(default)]
    pub daemonsets: Option<Vec<Set>>,
    #[serde(default)]
    pub controllers: Option<Vec<ControllerInput>>,
    #[serde(default)]
    pub pdbs: Option<Vec<BudgetInput>>,
    #[serde(default)]
    pub events: Option<Vec<Event>>,
    #[serde(default)]
    priorities: Option<Priorities>,
    ticks: i64,
    tick_s: i64,
}

/// Whether one of the outcomes is reached.
pub fn compare(input: &Value, outs: &[&Value]) -> Result<(), String> {
    let input: Input = serde_json::from_value(input.clone()).map_err(|error| error.to_string())?;
    let (ticks, targets) = run(&input)?;
    let got = json!({"ticks": ticks, "final_targets": targets});
    let expected: Vec<Value> = outs.iter().map(|out| expanded(out, input.ticks)).collect();
    if expected.contains(&got) {
        return Ok(());
    }
    Err(difference(&expected[0], &got))
}

fn run(input: &Input) -> Result<(Vec<Value>, Value), String> {
    let config = settings::config(&input.options, &input.groups, input.priorities.as_ref());
    let mut cloud = Cloud::new(input)?;
    let mut history = History::default();
    let mut ticks = Vec::new();
    for tick in 0..input.ticks {
        let now = tick * input.tick_s;
        cloud.advance(input, tick, now);
        cloud.observe(input, now);
        let planned = plan(&cloud.world, &history, &config, UnixTime(now));
        history = planned.next_history;
        let status = planned.upstream.unwrap_or_default();
        for fix in &status.fixes {
            cloud.fix(&fix.group, fix.by, now);
        }
        let failed = cloud.carry_out(input, &planned.steps, &mut history, &config, now);
        cloud.do_all(status.acts.clone(), &mut history, &config, now);
        let mut rounds = 0;
        while let Some(due) =
            [next_act(&history).map(|at| at.0), cloud.next_end()].into_iter().flatten().min()
            && due <= now + input.tick_s
            && rounds < ROUNDS_MAX
        {
            rounds += 1;
            cloud.end_pods(due);
            let acts = act(&cloud.world, &mut history, &config, UnixTime(due));
            cloud.do_all(acts, &mut history, &config, due);
        }
        let up = told(&status, failed.as_ref(), &cloud.world, &cloud.entries);
        let down = told_scale_down(status.scale_down.as_ref());
        let actions = sorted(std::mem::take(&mut cloud.actions).into_iter());
        ticks.push(json!({"actions": actions, "scale_up": up, "scale_down": down}));
    }
    Ok((ticks, json!(cloud.targets)))
}
