//! What cpu and memory are worth: the prices at which no shape costs less than what it has, and the pods cost most. It is the
//! dual of the cheapest fractional mixture of shapes, and its value a lower bound of what any nodes for the pods cost.

use super::{Kind, Problem, Shape, real};
use headroom_values::resources::Resources;

/// Worth of amounts, in millionths per hour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Worth {
    milli: f64,
    mib: f64,
}

impl Worth {
    /// The worth by which these pods cost most.
    pub(super) fn of(problem: &Problem) -> Self {
        let (mut milli, mut mib) = (0.0, 0.0);
        for kind in &problem.kinds {
            let count = f64::from(u32::try_from(kind.count).unwrap_or(u32::MAX));
            let (cpu, memory) = amounts(&kind.requests);
            milli += count * cpu;
            mib += count * memory;
        }
        let useful = |shape: &&Shape| {
            let kinds = problem.kinds.iter().enumerate();
            kinds.into_iter().any(|(at, kind)| shape.takes(at, kind) != 0)
        };
        let lines: Vec<Line> = problem.shapes.iter().filter(useful).map(Line::of).collect();
        let pods = |worth: &Self| milli * worth.milli + mib * worth.mib;
        let best = corners(&lines).into_iter().max_by(|a, b| pods(a).total_cmp(&pods(b)));
        best.unwrap_or_default()
    }

    /// Worth of these amounts.
    pub(super) fn value(&self, of: &Resources) -> f64 {
        let (milli, mib) = amounts(of);
        milli * self.milli + mib * self.mib
    }

    /// Worth of so many pods of each kind, rounded down.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn price_of(&self, problem: &Problem, counts: &[usize]) -> i64 {
        let of = |(kind, count): (&Kind, &usize)| {
            self.value(&kind.requests.times(i64::try_from(*count).unwrap_or(i64::MAX)))
        };
        problem.kinds.iter().zip(counts).map(of).sum::<f64>() as i64
    }
}

/// The worths at which a shape is worth its price.
#[derive(Clone, Copy)]
struct Line {
    milli: f64,
    mib: f64,
    price: f64,
}

impl Line {
    fn of(shape: &Shape) -> Self {
        let (milli, mib) = amounts(&shape.room);
        Self { milli: milli.max(1.0), mib: mib.max(1.0), price: real(shape.price_micro.max(1)) }
    }
}

/// The corners of what is allowed: two shapes are worth their price, or one is and cpu or memory is worth nothing.
fn corners(lines: &[Line]) -> Vec<Worth> {
    let lowest =
        |of: fn(&Line) -> f64| lines.iter().map(|line| line.price / of(line)).fold(f64::INFINITY, f64::min);
    let mut corners = vec![
        Worth { milli: lowest(|line| line.milli), mib: 0.0 },
        Worth { milli: 0.0, mib: lowest(|line| line.mib) },
    ];
    for (index, one) in lines.iter().enumerate() {
        for other in &lines[..index] {
            let all = one.milli * other.mib - other.milli * one.mib;
            let milli = (one.price * other.mib - other.price * one.mib) / all;
            let mib = (one.milli * other.price - other.milli * one.price) / all;
            if 0.0 <= milli && 0.0 <= mib && milli.is_finite() && mib.is_finite() {
                corners.push(Worth { milli, mib });
            }
        }
    }
    // A millionth more than the price is rounding.
    let allowed = |worth: &Worth| {
        lines.iter().all(|line| line.milli * worth.milli + line.mib * worth.mib <= line.price * 1.000_001)
    };
    corners.retain(allowed);
    corners
}

/// Milli-cores and MiB.
fn amounts(of: &Resources) -> (f64, f64) {
    (real(of.cpu_milli), real(of.memory_bytes) / real(1 << 20))
}
