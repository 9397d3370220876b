//! Amounts requested, offered and wasted in each pool, with its cost where prices are known.

use std::collections::BTreeMap;

use headroom_core::resources::Resources;
use headroom_core::world::node::{POOL_LABEL, Readiness};
use serde::Serialize;

use super::case::Opened;
use super::table::{Column, Table};

/// The row of nodes that no pool of Headroom manages.
const OTHERS: &str = "(others)";

/// One pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The pool, or `(others)`.
    pub pool: String,
    /// Its nodes.
    pub nodes: u32,
    /// Those of them that are ready.
    pub ready: u32,
    /// Pods on them that have not finished.
    pub pods: u32,
    /// Cpu requested, in milli-cores.
    pub cpu_requested_milli: i64,
    /// Cpu offered.
    pub cpu_offered_milli: i64,
    /// Memory requested, in bytes.
    pub memory_requested_bytes: i64,
    /// Memory offered.
    pub memory_offered_bytes: i64,
    /// Cost of its nodes an hour, in millionths of a currency unit; absent where the price of a
    /// node is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_per_hour_micro: Option<i64>,
    /// The part of that which is paid for what nobody requests: the idle part of the fuller of cpu and memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wasted_per_hour_micro: Option<i64>,
}

/// Every pool, and the nodes of none, in order of names.
#[must_use]
pub fn rows(opened: &Opened<'_>) -> Vec<Row> {
    let config = &opened.case.input.config;
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for pool in &config.pools {
        rows.insert(pool.name.to_string(), Row { pool: pool.name.to_string(), ..Row::default() });
    }
    for (_, node, entry) in opened.world.nodes() {
        let name = node.labels.get(POOL_LABEL).filter(|pool| config.pool(pool).is_some()).unwrap_or(OTHERS);
        let row =
            rows.entry(name.to_owned()).or_insert_with(|| Row { pool: name.to_owned(), ..Row::default() });
        row.nodes += 1;
        row.ready += u32::from(node.ready == Readiness::Ready);
        let pods = entry.pods.iter().filter(|id| !opened.world.pod(**id).pod.phase.finished()).count();
        row.pods = row.pods.saturating_add(u32::try_from(pods).unwrap_or(u32::MAX));
        add(row, &entry.requested, &node.allocatable);
        let of_pool = || config.pool(name).and_then(|pool| pool.price_per_hour_micro);
        let price = opened.world.reported_price_micro(node).or_else(of_pool);
        row.cost_per_hour_micro = match (row.nodes, price) {
            (1, price) => price,
            (_, price) => row.cost_per_hour_micro.zip(price).map(|(sum, price)| sum.saturating_add(price)),
        };
    }
    for row in rows.values_mut() {
        let priced = || config.pool(&row.pool).is_some_and(|pool| pool.price_per_hour_micro.is_some());
        if row.nodes == 0 && priced() {
            row.cost_per_hour_micro = Some(0);
        }
        row.wasted_per_hour_micro = row.cost_per_hour_micro.map(|cost| {
            let used = part(row.cpu_requested_milli, row.cpu_offered_milli)
                .max(part(row.memory_requested_bytes, row.memory_offered_bytes));
            // Tenths of a percent are exact enough for a price; rounded down.
            cost.saturating_mul(1000 - used.min(1000)) / 1000
        });
    }
    rows.into_values().collect()
}

fn add(row: &mut Row, requested: &Resources, offered: &Resources) {
    let sum = |to: &mut i64, amount: i64| *to = to.saturating_add(amount);
    sum(&mut row.cpu_requested_milli, requested.cpu_milli);
    sum(&mut row.memory_requested_bytes, requested.memory_bytes);
    sum(&mut row.cpu_offered_milli, offered.cpu_milli);
    sum(&mut row.memory_offered_bytes, offered.memory_bytes);
}

/// Thousandths of what is offered that are requested, rounded down; all of it where nothing is offered.
fn part(requested: i64, offered: i64) -> i64 {
    if offered <= 0 {
        return 1000;
    }
    i64::try_from(i128::from(requested) * 1000 / i128::from(offered)).unwrap_or(1000)
}

/// As a table of at most 100 columns.
#[must_use]
pub fn text(rows: &[Row]) -> String {
    let mut table = Table::new([
        Column::left("POOL"),
        Column::right("NODES"),
        Column::right("PODS"),
        Column::right("CPU REQUESTED"),
        Column::right("WASTED"),
        Column::right("MEMORY REQUESTED"),
        Column::right("WASTED"),
        Column::right("COST/H"),
        Column::right("WASTED/H"),
    ]);
    for row in rows {
        let used = |requested: i64, offered: i64| match row.nodes {
            0 => "-".to_owned(),
            _ => format!("{}%", part(requested, offered) / 10),
        };
        let cores = row.cpu_offered_milli.saturating_sub(row.cpu_requested_milli).max(0);
        let bytes = row.memory_offered_bytes.saturating_sub(row.memory_requested_bytes).max(0);
        let nodes = match row.nodes == row.ready {
            true => row.nodes.to_string(),
            false => format!("{} ({} ready)", row.nodes, row.ready),
        };
        table.row([
            row.pool.clone(),
            nodes,
            row.pods.to_string(),
            used(row.cpu_requested_milli, row.cpu_offered_milli),
            format!("{}.{}", cores / 1000, cores % 1000 / 100),
            used(row.memory_requested_bytes, row.memory_offered_bytes),
            format!("{}Gi", bytes >> 30),
            money(row.cost_per_hour_micro),
            money(row.wasted_per_hour_micro),
        ]);
    }
    let total = rows.iter().filter_map(|row| row.cost_per_hour_micro).fold(0i64, i64::saturating_add);
    let wasted = rows.iter().filter_map(|row| row.wasted_per_hour_micro).fold(0i64, i64::saturating_add);
    let mut text = table.text();
    if total > 0 {
        let percent = i128::from(wasted) * 100 / i128::from(total);
        text += &format!(
            "\n{} an hour in all pools with a price, {} of it ({percent} %) for what nobody requests\n",
            money(Some(total)),
            money(Some(wasted))
        );
    }
    text
}

fn money(micro: Option<i64>) -> String {
    micro.map_or_else(
        || "-".to_owned(),
        |micro| format!("{}.{:03}", micro / 1_000_000, micro % 1_000_000 / 1000),
    )
}
