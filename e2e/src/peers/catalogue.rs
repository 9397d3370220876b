//! The machines that there are, and the form in which each autoscaler is given them; it starts nothing.

use serde_json::{Value, json};

use crate::fixtures::{Pool, pool};
use crate::karpenter::PRICE_PER_CPU;
use crate::kwok_groups::Group;

/// Most nodes of one shape.
const MAX_NODES: u32 = 5000;
/// Part of each machine that its system keeps: Karpenter's KWOK provider has no other.
const RESERVED_CPU_MILLI: u32 = 100;
const RESERVED_MEMORY_MIB: u32 = 10;

/// A size of machine. It costs [`PRICE_PER_CPU`] an hour for each CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub name: &'static str,
    pub cpu: u32,
    pub memory_gib: u32,
}

pub const SMALL: Shape = Shape { name: "small", cpu: 4, memory_gib: 16 };
pub const LARGE: Shape = Shape { name: "large", cpu: 16, memory_gib: 64 };

/// The declared price of a node of so many CPUs for one hour.
pub fn price_per_hour(cpus: f64) -> f64 {
    cpus * PRICE_PER_CPU
}

impl Shape {
    /// For Headroom: a NodePool of provider KWOK with the declared price.
    pub fn pool(&self) -> Pool {
        pool(self.name)
            .capacity(&self.cpu.to_string(), &format!("{}Gi", self.memory_gib))
            .nodes(0, MAX_NODES)
            .set("/spec/template/reserved", json!({"cpu": "100m", "memory": "10Mi"}))
            .set("/spec/price/perHour", format!("{:.2}", price_per_hour(f64::from(self.cpu))))
    }

    /// For Karpenter: an instance type, whose KWOK provider reserves the same.
    pub fn instance_type(&self) -> (&'static str, u32, u32) {
        (self.name, self.cpu, self.memory_gib)
    }

    /// For Cluster Autoscaler: a group of its KWOK provider, which knows no prices.
    pub fn group(&self) -> Group {
        let amounts = |cpu_milli: u32, memory_mib: u32| -> Value {
            json!({"cpu": format!("{cpu_milli}m"), "memory": format!("{memory_mib}Mi"), "pods": "110"})
        };
        let (cpu_milli, memory_mib) = (self.cpu * 1000, self.memory_gib * 1024);
        Group {
            name: self.name.to_owned(),
            capacity: json!({"cpu": self.cpu.to_string(), "memory": format!("{}Gi", self.memory_gib), "pods": "110"}),
            allocatable: amounts(cpu_milli - RESERVED_CPU_MILLI, memory_mib - RESERVED_MEMORY_MIB),
            max: MAX_NODES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_given_the_same_machine_at_the_same_price() {
        let pool: Value = LARGE.pool().into();
        assert_eq!(pool["spec"]["price"]["perHour"], "0.16");
        assert_eq!(pool["spec"]["template"]["capacity"]["cpu"], "16");
        assert_eq!(pool["spec"]["template"]["reserved"]["cpu"], "100m");
        assert_eq!(LARGE.group().allocatable["cpu"], "15900m");
        assert_eq!(LARGE.group().allocatable["memory"], "65526Mi");
        assert_eq!(LARGE.group().capacity["cpu"], "16");
    }
}
