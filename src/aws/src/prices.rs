//! Prices of machines: declared ones, those of the spot market, and a dated table of prices on demand. It chooses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headroom_core::world::provider::{Notice, NoticeKind};
use headroom_provider::aws::{DeclaredPrice, Managed};
use tokio::time::Instant;

use super::calls::{CallError, InstanceType, SpotPrice, Trouble};
use super::cloud::Cloud;

/// Spot prices are read again after this long.
const SPOT_TTL: Duration = Duration::from_secs(600);
/// Spot prices that have not been read for longer are not known any more.
const SPOT_AGE_MAX: Duration = Duration::from_secs(3_600);
/// First pause after a failed read; doubled up to [`SPOT_TTL`].
const PAUSE: Duration = Duration::from_secs(60);
/// Longest list of machines in one message.
const LISTED_MAX: usize = 5;

/// Region of [`ON_DEMAND_PER_CPU`] and [`ON_DEMAND`].
const LISTED_REGION: &str = "us-east-1";

/// Prices on demand of a virtual CPU for an hour, in millionths of a US dollar, of families in which it is the same for all
/// sizes but bare metal. Linux, shared tenancy, `us-east-1`, 19 January 2026.
///
/// Source: the public price list of Amazon EC2, as karpenter-provider-aws has it in `zz_generated.pricing_aws.go` of that day.
const ON_DEMAND_PER_CPU: [(&str, i64); 40] = [
    ("c5", 42_500),
    ("c5a", 38_500),
    ("c6a", 38_250),
    ("c6g", 34_000),
    ("c6i", 42_500),
    ("c7a", 51_320),
    ("c7g", 36_250),
    ("c7i", 44_625),
    ("c7i-flex", 42_394),
    ("c8a", 53_885),
    ("c8g", 39_880),
    ("c8i", 46_855),
    ("c8i-flex", 44_510),
    ("m5", 48_000),
    ("m5a", 43_000),
    ("m6a", 43_200),
    ("m6g", 38_500),
    ("m6i", 48_000),
    ("m7a", 57_960),
    ("m7g", 40_800),
    ("m7i", 50_400),
    ("m7i-flex", 47_880),
    ("m8a", 60_860),
    ("m8g", 44_880),
    ("m8i", 52_920),
    ("m8i-flex", 50_275),
    ("r5", 63_000),
    ("r5a", 56_500),
    ("r6a", 56_700),
    ("r6g", 50_400),
    ("r6i", 63_000),
    ("r7a", 76_075),
    ("r7g", 53_550),
    ("r7i", 66_150),
    ("r8a", 79_880),
    ("r8g", 58_910),
    ("r8i", 69_460),
    ("r8i-flex", 65_985),
    ("m5n", 59_500),
    ("r5n", 74_500),
];

/// The same of whole machines, where sizes do not differ by their virtual CPUs alone.
const ON_DEMAND: [(&str, i64); 12] = [
    ("t3.medium", 41_600),
    ("t3.large", 83_200),
    ("t3.xlarge", 166_400),
    ("t3.2xlarge", 332_800),
    ("t3a.medium", 37_600),
    ("t3a.large", 75_200),
    ("t3a.xlarge", 150_400),
    ("t3a.2xlarge", 300_800),
    ("t4g.medium", 33_600),
    ("t4g.large", 67_200),
    ("t4g.xlarge", 134_400),
    ("t4g.2xlarge", 268_800),
];

/// Price of the machine on demand for an hour, in millionths: declared, or of the list; `None` if it is unknown.
#[must_use]
pub(crate) fn on_demand(managed: &Managed, region: Option<&str>, machine: &InstanceType) -> Option<i64> {
    declared(managed, machine, false)
        .or_else(|| (region == Some(LISTED_REGION)).then(|| listed(machine)).flatten())
}

fn declared(managed: &Managed, machine: &InstanceType, spot: bool) -> Option<i64> {
    let family = machine.name.split_once('.').map_or(&*machine.name, |(family, _)| family);
    let names = |price: &&DeclaredPrice| match price.instance_type.strip_suffix(".*") {
        Some(whole) => whole == family,
        None => *price.instance_type == *machine.name,
    };
    let price = managed.prices.iter().filter(|price| price.spot == spot).find(names)?;
    let each = i64::try_from(price.micros).unwrap_or(i64::MAX);
    Some(if price.per_cpu { each.saturating_mul(i64::from(machine.cpus)) } else { each })
}

fn listed(machine: &InstanceType) -> Option<i64> {
    if machine.bare_metal {
        return None;
    }
    if let Some((_, price)) = ON_DEMAND.iter().find(|(name, _)| **name == *machine.name) {
        return Some(*price);
    }
    let (family, _) = machine.name.split_once('.')?;
    let (_, each) = ON_DEMAND_PER_CPU.iter().find(|(name, _)| *name == family)?;
    Some(each.saturating_mul(i64::from(machine.cpus)))
}

/// The spot market's prices, as far as they have been read.
#[derive(Debug, Default)]
pub struct SpotMarket {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    types: BTreeMap<Arc<str>, Read>,
    /// The last failed read, if none has succeeded since.
    failure: Option<Failure>,
}

/// Prices of one type by zone, in millionths for an hour.
#[derive(Clone, Debug)]
struct Read {
    zones: BTreeMap<Arc<str>, i64>,
    at: Instant,
}

#[derive(Clone, Debug)]
struct Failure {
    error: CallError,
    count: u32,
    until: Instant,
}

impl SpotMarket {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Spot prices of some types by type and zone, and the failure that keeps them from being newer.
#[derive(Debug, Default)]
pub(crate) struct SpotPrices {
    prices: BTreeMap<(Arc<str>, Arc<str>), i64>,
    pub(crate) notice: Option<Notice>,
}

impl SpotPrices {
    /// Price of the machine on the spot market of a zone for an hour, in millionths: declared, or as it was read.
    #[must_use]
    pub(crate) fn of(&self, managed: &Managed, machine: &InstanceType, zone: &Arc<str>) -> Option<i64> {
        let read = || self.prices.get(&(machine.name.clone(), zone.clone())).copied();
        declared(managed, machine, true).or_else(read)
    }
}

/// The spot prices of these types. Those that are older than ten minutes are read anew, all in one call; after a failure
/// they are asked for again in one to ten minutes, and prices up to an hour old hold meanwhile.
pub(crate) async fn spot(cloud: &Cloud, types: &BTreeSet<Arc<str>>) -> SpotPrices {
    let clock = cloud.host.monotonic();
    let due: Vec<Arc<str>> = {
        let state = cloud.spot.state();
        let pausing = state.failure.as_ref().is_some_and(|failure| clock < failure.until);
        let stale = |name: &&Arc<str>| {
            state.types.get(*name).is_none_or(|read| SPOT_TTL <= clock.saturating_duration_since(read.at))
        };
        types.iter().filter(stale).filter(|_| !pausing).cloned().collect()
    };
    if !due.is_empty() {
        let answer = cloud.calls.spot_prices(&due).await;
        let clock = cloud.host.monotonic();
        cloud.spot.state().take(&due, answer, clock);
    }
    cloud.spot.state().of(types, cloud.host.monotonic())
}

impl State {
    fn take(&mut self, due: &[Arc<str>], answer: Result<Vec<SpotPrice>, CallError>, clock: Instant) {
        let mut found = match answer {
            Ok(found) => found,
            Err(error) => {
                let count = self.failure.as_ref().map_or(0, |failure| failure.count).saturating_add(1);
                let pause = PAUSE.saturating_mul(1 << (count - 1).min(4)).min(SPOT_TTL);
                self.failure = Some(Failure { error, count, until: clock + pause });
                return;
            }
        };
        self.failure = None;
        self.types.retain(|_, read| clock.saturating_duration_since(read.at) < SPOT_AGE_MAX);
        // In the order of their times: the latest one of a type and zone stays.
        found.sort_by_key(|price| price.at);
        for name in due {
            let own = found.iter().filter(|price| price.instance_type == *name);
            let zones = own.map(|price| (price.zone.clone(), price.per_hour_micro)).collect();
            self.types.insert(name.clone(), Read { zones, at: clock });
        }
    }

    fn of(&self, types: &BTreeSet<Arc<str>>, clock: Instant) -> SpotPrices {
        let mut prices = BTreeMap::new();
        for name in types {
            let Some(read) = self.types.get(name) else { continue };
            if clock.saturating_duration_since(read.at) < SPOT_AGE_MAX {
                prices.extend(read.zones.iter().map(|(zone, price)| ((name.clone(), zone.clone()), *price)));
            }
        }
        let notice = self.failure.as_ref().filter(|_| !types.is_empty()).map(|failure| {
            let kind = match failure.error.kind {
                Trouble::Denied | Trouble::Credentials => NoticeKind::PermissionMissing,
                _ => NoticeKind::ReadFailed,
            };
            let message = format!("spot prices cannot be read: {}", failure.error.in_words());
            Notice { kind, group: None, message: message.into() }
        });
        SpotPrices { prices, notice }
    }
}

/// The notice that names machines without a price; `None` if all have one. `bounded` says that a price is required.
#[must_use]
pub(crate) fn unknown(machines: &BTreeSet<(Arc<str>, bool)>, bounded: bool) -> Option<Notice> {
    if machines.is_empty() {
        return None;
    }
    let market = |spot: bool| if spot { "spot" } else { "on demand" };
    let named = machines.iter().take(LISTED_MAX).map(|(name, spot)| format!("{name} {}", market(*spot)));
    let named: Vec<String> = named.collect();
    let more = match machines.len().saturating_sub(LISTED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let effect = match bounded {
        true => "they are not bought under managed.maxPrice",
        false => "they come after machines with a price",
    };
    let message =
        format!("unknown price of {}{more}: {effect}; declare it in managed.prices", named.join(", "));
    Some(Notice { kind: NoticeKind::PriceUnknown, group: None, message: message.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, cpus: u32) -> InstanceType {
        InstanceType { name: name.into(), cpus, ..InstanceType::default() }
    }

    fn price(instance_type: &str, spot: bool, micros: u64, per_cpu: bool) -> DeclaredPrice {
        DeclaredPrice { instance_type: instance_type.to_owned(), spot, micros, per_cpu }
    }

    #[test]
    fn listed_prices_are_those_of_the_list() {
        let managed = Managed::default();
        let of = |name: &str, cpus| on_demand(&managed, Some("us-east-1"), &machine(name, cpus));
        assert_eq!(of("m5.large", 2), Some(96_000));
        assert_eq!(of("m7a.medium", 1), Some(57_960));
        assert_eq!(of("r6a.48xlarge", 192), Some(10_886_400));
        assert_eq!(of("c7g.16xlarge", 64), Some(2_320_000));
        assert_eq!(of("t3.medium", 2), Some(41_600));
        assert_eq!(of("t3.nano", 2), None);
        assert_eq!(of("x1.16xlarge", 64), None);
        let metal = InstanceType { bare_metal: true, ..machine("c6g.metal", 64) };
        assert_eq!(on_demand(&managed, Some("us-east-1"), &metal), None);
        assert_eq!(on_demand(&managed, Some("eu-west-1"), &machine("m5.large", 2)), None);
    }

    #[test]
    fn the_first_declared_price_that_names_the_machine_counts_in_its_market() {
        let prices = vec![
            price("m5.large", false, 90_000, false),
            price("m5.*", false, 40_000, true),
            price("m5.large", true, 1, false),
        ];
        let managed = Managed { prices, ..Managed::default() };
        assert_eq!(on_demand(&managed, Some("us-east-1"), &machine("m5.large", 2)), Some(90_000));
        assert_eq!(on_demand(&managed, Some("us-east-1"), &machine("m5.xlarge", 4)), Some(160_000));
        assert_eq!(on_demand(&managed, Some("us-east-1"), &machine("m5a.large", 2)), Some(86_000));
        assert_eq!(declared(&managed, &machine("m5.large", 2), true), Some(1));
    }

    #[test]
    fn machines_without_a_price_are_named_up_to_a_bound() {
        let names: BTreeSet<(Arc<str>, bool)> =
            (0..7).map(|index| (Arc::from(format!("m{index}.large")), index % 2 == 0)).collect();
        let notice = unknown(&names, false).expect("some are unknown");
        let words = "unknown price of m0.large spot, m1.large on demand, m2.large spot, m3.large on demand, m4.large spot \
                     and 2 more: they come after machines with a price; declare it in managed.prices";
        assert_eq!(&*notice.message, words);
        assert_eq!(unknown(&BTreeSet::new(), false), None);
    }
}
