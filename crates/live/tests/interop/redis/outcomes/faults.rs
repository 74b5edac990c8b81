//! The rows of the table.

use std::time::{Duration, Instant};

use lockkeeper_live::Way;

use super::world::{NO_ANSWER, World, answer, ask, millis};
use crate::lines::Lines;

const NAME: &str = "lock";
/// For locks that no row lets expire.
const LONG: Duration = Duration::from_secs(30);
/// For locks that a row lets expire.
const SHORT: Duration = Duration::from_secs(2);
/// After this time a client is stuck.
const LIMIT: Duration = Duration::from_secs(20);
/// How often a client takes the lock for its times, and how long at most.
const PAIRS: usize = 50;
const PAIRS_LIMIT: Duration = Duration::from_secs(10);

pub(super) const TWO_HOLDERS: &str = "two holders";
pub(super) const A_THIRD_HOLDER: &str = "which lets a third one in";

const CLIENTS: usize = 8;
/// How the cell of a crowd ends in which nobody is stuck.
pub(super) const ALL_DONE: &str = "; 8 of 8 done, 0 lost";
/// How often each of these takes the lock.
const EACH: usize = 50;
const COUNTER: &str = "counter";
const CROWD_LIMIT: Duration = Duration::from_secs(60);

pub(super) fn nothing(world: &mut World) -> String {
    alone_and_together(world, |_| {})
}

pub(super) fn one_refuses(world: &mut World) -> String {
    alone_and_together(world, |world| world.refuse(2))
}

pub(super) fn one_is_silent(world: &mut World) -> String {
    alone_and_together(world, |world| world.proxy(2).hold(Way::Both))
}

pub(super) fn one_is_slow(world: &mut World) -> String {
    alone_and_together(world, |world| {
        world.proxy(2).delay(Way::ToClient, Duration::from_millis(100))
    })
}

/// The times of one client; whether another is refused; whether the lock is handed on. Both clients
/// have used the servers before the fault.
fn alone_and_together(world: &World, fault: impl Fn(&World)) -> String {
    let [mut one, mut other] = [(); 2].map(|()| world.client(LONG));
    for client in [&mut one, &mut other] {
        pair(client).expect("without a fault the lock is free");
    }
    fault(world);
    let (start, mut took) = (Instant::now(), Vec::new());
    while took.len() < PAIRS && start.elapsed() < PAIRS_LIMIT {
        match pair(&mut one) {
            Ok(time) => took.push(time),
            Err(answer) => return format!("{} grants, then {answer}", took.len()),
        }
    }
    took.sort();
    let (middle, longest) = (millis(took[took.len() / 2]), millis(took[took.len() - 1]));
    let times = format!("{middle} / {longest} of {}", took.len());
    ask(&mut one, &format!("lock {NAME}"), LIMIT);
    let (refused, _) = ask(&mut other, &format!("try {NAME}"), LIMIT);
    if refused.starts_with("held") {
        return format!("{times}; {TWO_HOLDERS}");
    }
    if refused == NO_ANSWER {
        return format!("{times}; {refused} to the other");
    }
    other.send(&format!("lock {NAME}"));
    one.send("unlock");
    let (held, took) = answer(&mut other, LIMIT);
    answer(&mut one, LIMIT);
    format!("{times}; refused with {refused:?}; {} after {}", first(&held), millis(took))
}

/// Takes the lock and releases it; the time until the lock was held.
fn pair(client: &mut Lines) -> Result<Duration, String> {
    let (held, took) = ask(client, &format!("lock {NAME}"), LIMIT);
    if !held.starts_with("held") {
        return Err(held);
    }
    let (released, _) = ask(client, "unlock", LIMIT);
    if released == "released" { Ok(took) } else { Err(released) }
}

/// The first word of an answer, or the whole of an error.
fn first(answer: &str) -> &str {
    if answer.starts_with("held") { "held" } else { answer }
}

pub(super) fn two_refuse(world: &mut World) -> String {
    let mut client = world.client(LONG);
    pair(&mut client).expect("without a fault the lock is free");
    world.refuse(1);
    world.refuse(2);
    let (tried, took) = ask(&mut client, &format!("try {NAME}"), LIMIT);
    let is_answered = tried != NO_ANSWER;
    let tried = format!("{tried:?} after {}", millis(took));
    if is_answered {
        client.send(&format!("lock {NAME}"));
    }
    let (early, _) = answer(&mut client, Duration::from_secs(3));
    [1, 2].into_iter().for_each(|server| world.proxy(server).accept().unwrap());
    if early != NO_ANSWER {
        let (later, took) = ask(&mut client, &format!("lock {NAME}"), LIMIT);
        return format!("{tried}; waiting {early:?}; then {later:?} after {}", millis(took));
    }
    let (held, took) = answer(&mut client, LIMIT);
    format!("{tried}; {} {} after they are back", first(&held), millis(took))
}

/// The holder has the lock on two servers; one of these restarts without its data.
pub(super) fn one_forgets(world: &mut World) -> String {
    let [mut one, mut other] = [(); 2].map(|()| world.client(LONG));
    for client in [&mut one, &mut other] {
        pair(client).expect("without a fault the lock is free");
    }
    world.refuse(2);
    let (held, _) = ask(&mut one, &format!("lock {NAME}"), LIMIT);
    assert!(held.starts_with("held"), "two of three are a quorum: {held}");
    world.proxy(2).accept().unwrap();
    world.servers[1].restart_empty().unwrap();
    let (held, _) = ask(&mut other, &format!("lock {NAME}"), Duration::from_secs(5));
    if held.starts_with("held") {
        let (says, _) = ask(&mut one, "check", LIMIT);
        return format!("{TWO_HOLDERS}; the first says {says:?}");
    }
    one.send("unlock");
    let (held, took) = answer(&mut other, LIMIT);
    let (released, _) = answer(&mut one, LIMIT);
    format!("one holder; {released:?}; then {} after {}", first(&held), millis(took))
}

pub(super) fn the_holder_stands_still(world: &mut World) -> String {
    let [mut one, mut two, mut three] = [SHORT, LONG, LONG].map(|ttl| world.client(ttl));
    for client in [&mut one, &mut two, &mut three] {
        pair(client).expect("without a fault the lock is free");
    }
    ask(&mut one, &format!("lock {NAME}"), LIMIT);
    one.pause();
    let (held, took) = ask(&mut two, &format!("lock {NAME}"), LIMIT);
    one.resume();
    let (says, _) = ask(&mut one, "check", LIMIT);
    let (released, _) = ask(&mut one, "unlock", LIMIT);
    let (tried, _) = ask(&mut three, &format!("try {NAME}"), LIMIT);
    let kept = if tried.starts_with("held") { A_THIRD_HOLDER } else { "which harms nobody" };
    format!(
        "the next {} after {}; the first says {says:?} and releases with {released:?}, {kept}",
        first(&held),
        millis(took)
    )
}

pub(super) fn the_holder_is_killed(world: &mut World) -> String {
    let [mut one, mut two] = [(); 2].map(|()| world.client(SHORT));
    for client in [&mut one, &mut two] {
        pair(client).expect("without a fault the lock is free");
    }
    ask(&mut one, &format!("lock {NAME}"), LIMIT);
    drop(one);
    let (held, took) = ask(&mut two, &format!("lock {NAME}"), LIMIT);
    format!("the next {} after {}", first(&held), millis(took))
}

pub(super) fn eight_clients(world: &mut World) -> String {
    world.servers[0].run(&["SET", COUNTER, "0"]).unwrap();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| world.client(Duration::from_secs(10))).collect();
    let (writers, start) = (world.writers(COUNTER), Instant::now());
    clients.iter_mut().for_each(|client| client.send(&format!("count {NAME} {COUNTER} {EACH}")));
    let answers: Vec<_> = clients
        .iter_mut()
        .map(|client| answer(client, CROWD_LIMIT.saturating_sub(start.elapsed())).0)
        .collect();
    let took = start.elapsed();
    crowd(world, &writers.try_iter().collect::<Vec<_>>(), &answers, took)
}

fn crowd(world: &World, writers: &[String], answers: &[String], took: Duration) -> String {
    let count: usize = world.servers[0].query(&["GET", COUNTER]).unwrap();
    let done: Vec<u64> =
        answers.iter().filter_map(|answer| answer.strip_prefix("counted ")?.parse().ok()).collect();
    let hand_offs = writers.windows(2).filter(|two| two[0] != two[1]).count();
    let each = |number: usize| number as f64 / took.as_secs_f64();
    let lost = writers.len().saturating_sub(count);
    let longest = done.iter().max().map_or("-".to_owned(), |longest| format!("{longest} ms"));
    format!(
        "{:.0} grants/s, {:.0} hand-offs/s, longest wait {longest}, {:.1} s; {} of 8 done, {lost} lost",
        each(count),
        each(hand_offs),
        took.as_secs_f64(),
        done.len()
    )
}
