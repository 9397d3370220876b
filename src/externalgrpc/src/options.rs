//! Scale-down settings of a group: the pool's as they are sent, and the server's answer. Pure.

use headroom_core::time::Seconds;
use headroom_core::world::provider::GroupOptions;

use super::wire::{Length, Nanoseconds, Options};

/// The pool's settings as servers of every generation read them: upstream's wrapper to 1.34.1 ends without fields 3 and 5.
#[must_use]
pub(crate) fn written(defaults: &GroupOptions) -> Options {
    let fraction = |percent: Option<u32>| f64::from(percent.unwrap_or(50)) / 100.0;
    let seconds = |length: Option<Seconds>| length.map_or(0, |length| length.0);
    let old = |length| Some(Nanoseconds { duration: seconds(length).saturating_mul(1_000_000_000) });
    let new = |length| Some(Length { seconds: seconds(length), nanos: 0 });
    Options {
        utilization_threshold: fraction(defaults.utilization_threshold_percent),
        gpu_utilization_threshold: fraction(defaults.gpu_utilization_threshold_percent),
        unneeded_time: old(defaults.unneeded_for),
        unready_time: old(defaults.unready_for),
        provision_time: old(defaults.provision_timeout),
        zero_or_max: false,
        ignore_daemon_sets: defaults.ignore_daemon_sets.unwrap_or(false),
        unneeded: new(defaults.unneeded_for),
        unready: new(defaults.unready_for),
        provision: new(defaults.provision_timeout),
    }
}

/// The settings in which an answer differs from the defaults that were sent; `None` if in none.
///
/// Absent and 0 are the pool's own. So are two echoes of upstream's wrapper, which mixes up its fields: the GPU threshold as
/// the other one, and the unneeded time as the unready one.
#[must_use]
pub(crate) fn read(sent: &GroupOptions, answer: &Options) -> Option<GroupOptions> {
    let unneeded = length(answer.unneeded, answer.unneeded_time);
    let unready = length(answer.unready, answer.unready_time);
    let provision = length(answer.provision, answer.provision_time);
    let threshold = percent(answer.utilization_threshold);
    let gpu = percent(answer.gpu_utilization_threshold);
    let says_anything = [threshold, gpu].iter().any(Option::is_some)
        || [unneeded, unready, provision].iter().any(Option::is_some);
    let differs = |own: Option<Seconds>, sent: Option<Seconds>| own.filter(|own| Some(*own) != sent);
    let options = GroupOptions {
        utilization_threshold_percent: threshold.filter(|own| {
            Some(*own) != sent.utilization_threshold_percent
                && Some(*own) != sent.gpu_utilization_threshold_percent
        }),
        gpu_utilization_threshold_percent: gpu
            .filter(|own| Some(*own) != sent.gpu_utilization_threshold_percent),
        unneeded_for: differs(unneeded, sent.unneeded_for),
        unready_for: differs(unready, sent.unready_for).filter(|own| Some(*own) != sent.unneeded_for),
        provision_timeout: differs(provision, sent.provision_timeout),
        // A switch has no absent value: an answer with nothing else is an empty one.
        ignore_daemon_sets: (says_anything && Some(answer.ignore_daemon_sets) != sent.ignore_daemon_sets)
            .then_some(answer.ignore_daemon_sets),
    };
    (options != GroupOptions::default()).then_some(options)
}

/// Whole percent, rounded down so that no node goes that would have stayed; `None` for 0 and nonsense.
fn percent(fraction: f64) -> Option<u32> {
    // 0.7 * 100 is 70.000…01 and 0.29 * 100 is 28.999…: the tolerance is far below a percent.
    let percent = (fraction * 100.0 + 1e-6).floor();
    let whole = (1.0..=100.0).contains(&percent).then_some(percent)?;
    (1..=100).find(|candidate| f64::from(*candidate) >= whole)
}

/// Whole seconds up to a day, of the new generation where it is there; `None` for 0 and nonsense.
fn length(new: Option<Length>, old: Option<Nanoseconds>) -> Option<Seconds> {
    let seconds = match (new, old) {
        (Some(new), _) => new.seconds,
        (None, Some(old)) => old.duration / 1_000_000_000,
        (None, None) => return None,
    };
    (0 < seconds && seconds <= GroupOptions::LENGTH_MAX.0).then_some(Seconds(seconds))
}
