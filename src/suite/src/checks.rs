//! The checks. Each states one rule of a provider, and the cloud that it meets.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;
use headroom_core::world::provider::GroupState;
use headroom_provider::{Deletion, Error, Increase, Increased};

use super::Body;
use super::subject::{Fault, MAX, Subject};

/// Longest time for a step until its end is known, in seconds.
const HOUR: i64 = 3600;
/// Time after which every instance that was bought is there, and every late effect has come, in seconds.
const REST: u64 = 600;

/// Reason why a check ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The cloud cannot get into this state, for this reason.
    NotApplicable(&'static str),
    /// The rule is broken: what was seen.
    Broken(String),
}

type Checked = Result<(), Stop>;

/// A check.
pub struct Check<S> {
    /// The rule, as the table names it.
    pub rule: &'static str,
    /// Running instances at the beginning.
    pub instances: u32,
    /// The check itself.
    pub body: Body<S>,
}

macro_rules! checks {
    ($(($rule:literal, $instances:literal, $body:ident),)*) => {
        /// The rules, in the order of the table.
        #[must_use]
        pub fn rules() -> Vec<&'static str> {
            vec![$($rule),*]
        }

        /// All checks, in the order of the table.
        #[must_use]
        pub fn all<S: Subject>() -> Vec<Check<S>> {
            vec![$(Check {
                rule: $rule,
                instances: $instances,
                body: |subject| $body(subject).boxed_local(),
            }),*]
        }
    };
}

checks![
    ("an increase that is repeated buys once", 2, repeated_increase),
    ("an increase that never arrived is made up for", 2, lost_increase),
    ("an increase whose answer is lost buys once", 2, lost_answer),
    ("the next leader buys nothing that its predecessor bought", 2, lost_answer_and_restart),
    ("a size that was lowered meanwhile is planned again", 6, lowered_meanwhile),
    ("a size that is reached needs no write", 6, raised_meanwhile),
    ("the named instance leaves and no other", 4, exact_victim),
    ("a deletion that is repeated takes nothing else", 4, repeated_deletion),
    ("a deletion whose answer is lost takes nothing else", 4, lost_deletion_answer),
    ("a cancelled increase takes no instance that runs", 4, cancelled_increase),
    ("what cannot be read is not zero", 3, unread_is_not_zero),
    ("an old state has its age, or is an error", 3, stale_reads),
    ("a group of many instances is read whole", 600, many_instances),
    ("a throttled write is repeated and buys once", 2, throttled_write),
    ("a throttled read buys nothing", 2, throttled_read),
];

fn ensure(holds: bool, words: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Stop::Broken(words())) }
}

fn play<S: Subject>(subject: &S, fault: Fault) -> Checked {
    if subject.play(fault) { Ok(()) } else { Err(Stop::NotApplicable("its cloud has no such fault")) }
}

fn resize<S: Subject>(subject: &S, size: u32) -> Checked {
    if subject.resize(size) { Ok(()) } else { Err(Stop::NotApplicable("its cloud has no sizes")) }
}

/// Asks for an increase as the operator does, until the answer is final.
async fn increased<S: Subject>(subject: &S, from: u32, to: u32) -> Result<Result<Increased, Error>, Stop> {
    let request = subject.request(from, to);
    repeated(subject, request).await
}

async fn repeated<S: Subject>(subject: &S, first: Increase) -> Result<Result<Increased, Error>, Stop> {
    let (from, to, began) = (first.from, first.to, subject.now());
    loop {
        let now = subject.request(from, to);
        let request = Increase { now: now.now, known: now.known, ..first.clone() };
        match subject.provider().increase(&request).await {
            Ok(Increased::Pending(at)) => {
                let pause = at.since(subject.now()).0.max(1);
                subject.pass(u64::try_from(pause).unwrap_or(1)).await;
            }
            Err(error) if error.unknown => subject.pass(5).await,
            end => return Ok(end),
        }
        // The operator reads the group before each repetition.
        let _ = subject.observe().await;
        ensure(subject.now().since(began).0 < HOUR, || "the increase has no end".to_owned())?;
    }
}

async fn deleted<S: Subject>(subject: &S, id: &Arc<str>) -> Result<Result<(), Error>, Stop> {
    let deletion = Deletion {
        pool: subject.pool(),
        intent: "1-7".into(),
        group: subject.group(),
        victims: vec![subject.victim(id)],
    };
    let began = subject.now();
    loop {
        let ends = subject.provider().delete_together(&deletion).await;
        let [end] = ends.as_slice() else {
            return Err(Stop::Broken(format!("one victim has {} ends", ends.len())));
        };
        if !end.as_ref().is_err_and(|error| error.unknown) {
            return Ok(end.clone());
        }
        subject.pass(5).await;
        let _ = subject.observe().await;
        ensure(subject.now().since(began).0 < HOUR, || "the deletion has no end".to_owned())?;
    }
}

/// The group as core reads it.
async fn group<S: Subject>(subject: &S) -> Result<GroupState, Stop> {
    let observed = subject.observe().await.map_err(|error| Stop::Broken(format!("not read: {error}")))?;
    let group = observed.state.groups.get(&subject.group()).cloned();
    group.ok_or_else(|| Stop::Broken("the group is not in the answer".to_owned()))
}

/// Size and instances of the cloud are so many, also after all that may come late.
async fn comes_to<S: Subject>(subject: &S, wanted: u32) -> Checked {
    subject.pass(REST).await;
    let (size, there) = (subject.size(), subject.instances().len());
    ensure(size == wanted && there == wanted as usize, || {
        format!("the size is {size} and {there} instances are there, {wanted} wanted")
    })
}

fn accepted(end: Result<Increased, Error>) -> Checked {
    ensure(end == Ok(Increased::Accepted), || format!("the increase ended as {end:?}"))
}

async fn repeated_increase<S: Subject>(subject: S) -> Checked {
    for _ in 0..3 {
        accepted(increased(&subject, 2, 5).await?)?;
    }
    comes_to(&subject, 5).await?;
    accepted(increased(&subject, 2, 5).await?)?;
    comes_to(&subject, 5).await
}

async fn lost_increase<S: Subject>(subject: S) -> Checked {
    play(&subject, Fault::LoseIncrease)?;
    accepted(increased(&subject, 2, 5).await?)?;
    comes_to(&subject, 5).await
}

async fn lost_answer<S: Subject>(subject: S) -> Checked {
    play(&subject, Fault::LoseIncreaseAnswer)?;
    accepted(increased(&subject, 2, 5).await?)?;
    comes_to(&subject, 5).await
}

async fn lost_answer_and_restart<S: Subject>(subject: S) -> Checked {
    play(&subject, Fault::LoseIncreaseAnswer)?;
    let _ = subject.provider().increase(&subject.request(2, 5)).await;
    let subject = subject.restart().await;
    let request = Increase { began_this_term: false, ..subject.request(2, 5) };
    accepted(repeated(&subject, request).await?)?;
    comes_to(&subject, 5).await
}

async fn lowered_meanwhile<S: Subject>(subject: S) -> Checked {
    group(&subject).await?;
    resize(&subject, 3)?;
    let end = increased(&subject, 6, 8).await?;
    ensure(end == Ok(Increased::Superseded), || format!("the increase ended as {end:?}"))?;
    ensure(subject.size() == 3, || format!("the size is {}", subject.size()))
}

async fn raised_meanwhile<S: Subject>(subject: S) -> Checked {
    group(&subject).await?;
    resize(&subject, 9)?;
    accepted(increased(&subject, 6, 8).await?)?;
    comes_to(&subject, 9).await
}

/// The instance that other choices than the victim's name would take last.
fn last(instances: &BTreeSet<Arc<str>>) -> Result<Arc<str>, Stop> {
    instances.last().cloned().ok_or_else(|| Stop::Broken("the group has no instance".to_owned()))
}

/// Exactly these are left, and the size has followed.
async fn only_left<S: Subject>(subject: &S, before: &BTreeSet<Arc<str>>, victim: &Arc<str>) -> Checked {
    let mut wanted = before.clone();
    wanted.remove(victim);
    comes_to(subject, u32::try_from(wanted.len()).unwrap_or(u32::MAX)).await?;
    let left = subject.instances();
    ensure(left == wanted, || format!("{left:?} are left, {wanted:?} wanted"))
}

async fn exact_victim<S: Subject>(subject: S) -> Checked {
    group(&subject).await?;
    let before = subject.instances();
    let victim = last(&before)?;
    let end = deleted(&subject, &victim).await?;
    ensure(end == Ok(()), || format!("the deletion ended as {end:?}"))?;
    only_left(&subject, &before, &victim).await
}

async fn repeated_deletion<S: Subject>(subject: S) -> Checked {
    group(&subject).await?;
    let before = subject.instances();
    let victim = last(&before)?;
    for _ in 0..2 {
        let end = deleted(&subject, &victim).await?;
        ensure(end == Ok(()), || format!("the deletion ended as {end:?}"))?;
    }
    only_left(&subject, &before, &victim).await?;
    let end = deleted(&subject, &victim).await?;
    ensure(end == Ok(()), || format!("the deletion of what is gone ended as {end:?}"))?;
    only_left(&subject, &before, &victim).await
}

async fn lost_deletion_answer<S: Subject>(subject: S) -> Checked {
    group(&subject).await?;
    let before = subject.instances();
    let victim = last(&before)?;
    play(&subject, Fault::LoseDeletionAnswer)?;
    let end = deleted(&subject, &victim).await?;
    ensure(end == Ok(()), || format!("the deletion ended as {end:?}"))?;
    only_left(&subject, &before, &victim).await
}

async fn cancelled_increase<S: Subject>(subject: S) -> Checked {
    accepted(increased(&subject, 4, 6).await?)?;
    comes_to(&subject, 6).await?;
    let before = subject.instances();
    group(&subject).await?;
    for _ in 0..20 {
        let _ = subject.provider().cancel(&subject.request(4, 6)).await;
        subject.pass(5).await;
    }
    comes_to(&subject, 6).await?;
    ensure(subject.instances() == before, || "instances that run were taken".to_owned())
}

async fn unread_is_not_zero<S: Subject>(subject: S) -> Checked {
    play(&subject, Fault::FailReads)?;
    let subject = subject.restart().await;
    play(&subject, Fault::FailReads)?;
    let observed = subject.observe().await;
    let knows_nothing = match &observed {
        Err(_) => true,
        Ok(observed) => observed.state.groups.is_empty() && observed.read_at.is_some(),
    };
    ensure(knows_nothing, || format!("without any read the answer is {observed:?}"))
}

async fn stale_reads<S: Subject>(subject: S) -> Checked {
    let fresh = group(&subject).await?;
    let (read_at, id) = (subject.now(), subject.group());
    play(&subject, Fault::FailReads)?;
    for _ in 0..20 {
        subject.pass(30).await;
        let Ok(observed) = subject.observe().await else { continue };
        let (now, old) = (subject.now(), observed.state.groups.get(&id));
        let age = observed.read_at.map_or(0, |at| now.since(at).0);
        ensure(now.since(read_at).0 <= age + 60, || format!("a state that is {age} s old passes for new"))?;
        ensure(old.is_some_and(|old| old.target == fresh.target), || format!("the group became {old:?}"))?;
    }
    subject.heal();
    subject.pass(120).await;
    ensure(group(&subject).await?.target == fresh.target, || "it is not read again".to_owned())
}

async fn many_instances<S: Subject>(subject: S) -> Checked {
    let read: BTreeSet<Arc<str>> = group(&subject).await?.instances.into_keys().collect();
    let there = subject.instances();
    ensure(read == there, || format!("{} of {} instances are read", read.len(), there.len()))?;
    accepted(increased(&subject, 600, MAX).await?)?;
    comes_to(&subject, MAX).await?;
    let read = group(&subject).await?.instances.len();
    ensure(read == MAX as usize, || format!("{read} of {MAX} instances are read"))
}

async fn throttled_write<S: Subject>(subject: S) -> Checked {
    play(&subject, Fault::ThrottleIncrease)?;
    accepted(increased(&subject, 2, 5).await?)?;
    comes_to(&subject, 5).await
}

async fn throttled_read<S: Subject>(subject: S) -> Checked {
    group(&subject).await?;
    play(&subject, Fault::ThrottleReads)?;
    for _ in 0..3 {
        let end = subject.provider().increase(&subject.request(2, 5)).await;
        let waits = match &end {
            Ok(Increased::Pending(_)) => true,
            Ok(_) => false,
            Err(error) => error.unknown,
        };
        ensure(waits && subject.size() == 2, || format!("unread, the increase ended as {end:?}"))?;
        subject.pass(5).await;
    }
    subject.heal();
    accepted(increased(&subject, 2, 5).await?)?;
    comes_to(&subject, 5).await
}
