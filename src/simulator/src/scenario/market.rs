//! Market events of a scenario: spot nodes that are taken back, and prices that change; it decides nothing for the
//! operator.

use headroom_core::world::node::{POOL_LABEL, ZONE_LABEL};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::reader::Field;
use crate::store::{
    ApiError, Author, DeleteOptions, Kind, ObjectKey, Part, Patch, Store, labels, object_at, text,
};
use crate::trace::StableHash;
use headroom_api::validate::FieldError;

const ME: Author<'static> = Author::actor("spot-market");
/// By this taint the node termination handler of AWS keeps new pods off a node that is taken back.
const NOTICE: &str = "aws-node-termination-handler/spot-itn";
/// From the warning to the end, as AWS gives it.
const NOTICE_DEFAULT: SignedDuration = SignedDuration::from_mins(2);

/// Nodes of a pool that the cloud takes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpotInterruption {
    /// Pool of the nodes.
    pub pool: String,
    /// In this zone only; `None` is every zone.
    pub zone: Option<String>,
    /// Share of the nodes that exist when it begins.
    pub share: Share,
    /// From the warning to the end of the instance.
    pub notice: SignedDuration,
}

/// Share of the existing nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// So many, or all if there are fewer.
    Count(usize),
    /// So many of a hundred, rounded up.
    Percent(usize),
}

impl Share {
    fn of(self, there: usize) -> usize {
        match self {
            Share::Count(count) => count.min(there),
            Share::Percent(percent) => (there * percent).div_ceil(100),
        }
    }
}

/// Reads `spotInterruption`; whether the pool exists is the caller's to check.
pub(super) fn read_interruption(action: &Field<'_>) -> Result<SpotInterruption, FieldError> {
    action.only(&["pool", "zone", "nodes", "notice"])?;
    let pool = action.required("pool", "the pool whose nodes are taken back")?.text()?.to_owned();
    let zone = action.optional("zone").map(|zone| zone.text().map(str::to_owned)).transpose()?;
    let nodes = action.required("nodes", "how many: a number such as 5, or a share such as \"60%\"")?;
    let notice = action.optional("notice").map_or(Ok(NOTICE_DEFAULT), |field| field.duration())?;
    Ok(SpotInterruption { pool, zone, share: share(&nodes)?, notice })
}

fn share(field: &Field<'_>) -> Result<Share, FieldError> {
    let number =
        |range: std::ops::RangeInclusive<usize>, number: usize| range.contains(&number).then_some(number);
    let share = match field.value {
        Value::Number(count) => {
            let count = count.as_u64().and_then(|count| usize::try_from(count).ok());
            count.and_then(|count| number(1..=100_000, count)).map(Share::Count)
        }
        Value::String(word) => {
            let percent = word.strip_suffix('%').and_then(|word| word.parse().ok());
            percent.and_then(|percent| number(1..=100, percent)).map(Share::Percent)
        }
        _ => None,
    };
    share.ok_or_else(|| {
        field.error(
            format!("`{}` is no number of nodes", field.value),
            "write a number from 1 such as 5, or a share from \"1%\" to \"100%\"",
        )
    })
}

/// Reads `price`: the pool and what a node of it costs from then on.
pub(super) fn read_price(action: &Field<'_>) -> Result<(String, String), FieldError> {
    action.only(&["pool", "perHour"])?;
    let pool = action.required("pool", "the pool whose price changes")?.text()?.to_owned();
    let field = action.required("perHour", "the new price of a node for one hour, for example \"0.12\"")?;
    let price = field.text()?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, decimals) = price.split_once('.').unwrap_or((price, "0"));
    if !digits(whole) || !digits(decimals) {
        return Err(field.error(
            format!("`{price}` is no price"),
            "write a decimal number in quotes, for example \"0.12\"",
        ));
    }
    Ok((pool, price.to_owned()))
}

/// Chooses the victims and warns of their end by a taint. Which ones it are depends on names alone, so a run is repeatable.
pub(super) fn warn(store: &mut Store, interruption: &SpotInterruption) -> Result<Vec<ObjectKey>, ApiError> {
    let mut there: Vec<(u64, ObjectKey)> = store
        .all(Kind::Node)
        .filter(|(_, node)| {
            let has = |name: &str, value: &str| labels(node).any(|label| label == (name, value));
            has(POOL_LABEL, &interruption.pool)
                && interruption.zone.as_deref().is_none_or(|zone| has(ZONE_LABEL, zone))
        })
        .map(|(key, _)| (StableHash::of(&key.name), key.clone()))
        .collect();
    there.sort();
    let count = interruption.share.of(there.len());
    let victims: Vec<ObjectKey> = there.into_iter().take(count).map(|(_, key)| key).collect();
    for key in &victims {
        store.edit(Kind::Node, key, ME, |node| {
            let taints = object_at(node, &["spec"]).entry("taints").or_insert_with(|| json!([]));
            if let Some(taints) = taints.as_array_mut()
                && !taints.iter().any(|taint| text(taint, &["key"]) == Some(NOTICE))
            {
                taints.push(json!({"key": NOTICE, "effect": "NoSchedule"}));
            }
        })?;
    }
    Ok(victims)
}

/// The instances are gone, and the cloud's controller takes their Node objects away; those gone meanwhile are not news.
pub(super) fn take_back(store: &mut Store, victims: &[ObjectKey]) -> usize {
    let gone =
        victims.iter().filter(|key| store.delete(Kind::Node, key, &DeleteOptions::default(), ME).is_ok());
    gone.count()
}

/// The pool costs this much from now on, as if its owner had edited it.
pub(super) fn set_price(store: &mut Store, pool: &str, price: &str) -> Result<(), ApiError> {
    let patch = Patch::Merge(json!({"spec": {"price": {"perHour": price}}}));
    store.patch(Kind::NodePool, &ObjectKey::new("", pool), &patch, Part::Main, ME).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_up_and_a_count_takes_no_more_than_there_are() {
        assert_eq!([1, 3, 10].map(|there| Share::Percent(34).of(there)), [1, 2, 4]);
        assert_eq!([1, 3, 10].map(|there| Share::Count(4).of(there)), [1, 3, 4]);
        assert_eq!(Share::Percent(100).of(0), 0);
    }
}
