//! Several clients at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::{KEY, another_writes, answer, counted, increment, number, present, version};
use crate::register::{ChaosRegister, RegisterHarness};
use lockkeeper::layer::Fault;
use lockkeeper::{Effect, Error, ErrorKind};
use lockkeeper_core::registers::{Policy, Register, Swap, Write, try_update, update};

/// A policy that tries for as long as a busy machine may need.
fn patient() -> Policy {
    Policy::default().within(Duration::from_secs(100)).longest(Duration::from_millis(50))
}

pub async fn of_writes_on_one_version_one_is_done(harness: &impl RegisterHarness) {
    const RIVALS: usize = 4;
    let start = Arc::new(Barrier::new(RIVALS));
    for round in 0..10 {
        let mut rivals = JoinSet::new();
        for rival in 0..RIVALS {
            let (register, start) = (harness.client().await, Arc::clone(&start));
            rivals.spawn(async move {
                let write = Write::new(version(&*register).await, format!("{round} {rival}"));
                start.wait().await;
                (answer(&*register, &write).await, write)
            });
        }
        let answers = rivals.join_all().await;
        let done: Vec<_> = answers.iter().filter(|(answer, _)| *answer == Swap::Done).collect();
        assert_eq!(done.len(), 1, "{answers:?}");
        let now = present(&*harness.client().await).await;
        assert_eq!((now.value.as_slice(), now.version), (done[0].1.value(), done[0].1.makes()));
    }
}

pub async fn no_increment_is_lost(harness: &impl RegisterHarness) {
    const TASKS: u64 = 6;
    const EACH: u64 = 20;
    let computed = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (register, computed) = (harness.client().await, Arc::clone(&computed));
        tasks.spawn(async move {
            for _ in 0..EACH {
                let plus_one = async |old: Option<Vec<u8>>| {
                    computed.fetch_add(1, Ordering::Relaxed);
                    // Other clients can write during this yield.
                    tokio::task::yield_now().await;
                    Ok::<_, Error>((number(old.as_deref()) + 1).to_string().into_bytes())
                };
                let done = try_update(&patient(), &*register, KEY, plus_one).await.unwrap();
                assert_eq!(number(Some(&done.value)), done.version.get(), "each write adds one");
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(counted(harness).await, TASKS * EACH);
    assert!(
        computed.load(Ordering::Relaxed) > TASKS * EACH,
        "they never met, so that nothing was shown"
    );
}

pub async fn a_conflict_learns_when_the_tries_are_used_up(harness: &impl RegisterHarness) {
    let register = harness.client().await;
    let policy = Policy::default().attempts(3).longest(Duration::ZERO);
    let tries = AtomicU64::new(0);
    // Another client writes each time between the read and the write.
    let overtaken = async |_: Option<Vec<u8>>| {
        tries.fetch_add(1, Ordering::Relaxed);
        another_writes(&*register, "theirs").await;
        Ok::<_, Error>(b"ours".to_vec())
    };
    let error = try_update(&policy, &*register, KEY, overtaken).await.unwrap_err();
    let tries = tries.into_inner();
    assert_eq!(
        (error.kind(), error.effect(), tries),
        (ErrorKind::Conflict, Effect::None, 3),
        "{error}"
    );
    assert!(error.to_string().contains(KEY), "{error}");
    assert_eq!(present(&*register).await.value, b"theirs");
}

pub async fn a_dropped_update_is_done_once_at_most(harness: &impl RegisterHarness) {
    let register = harness.client().await;
    let mut ended = false;
    for polls in 0.. {
        let before = version(&*register).await;
        let policy = patient();
        let mut adding = Box::pin(increment(&policy, &*register));
        ended = ended || polls == 20;
        for _ in 0..polls {
            let step = std::future::poll_fn(|cx| std::task::Poll::Ready(adding.as_mut().poll(cx)));
            if step.await.is_ready() {
                ended = true;
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(adding);
        // If the register keeps the order of one client, the earlier write comes before this write.
        // Otherwise the earlier write does nothing any more.
        another_writes_at_last(&*register).await;
        let writes = version(&*register).await.get() - before.get();
        assert!((1..=2).contains(&writes), "{writes} writes after {polls} polls");
        if ended {
            return;
        }
    }
}

async fn another_writes_at_last(register: &dyn Register) {
    update(register, KEY, async |old| old.unwrap_or_else(|| b"0".to_vec())).await.unwrap();
}

/// Every update adds a tag of its own to the value, so a second effect of an update and a missing
/// update are both seen.
pub async fn nothing_is_done_twice_in_a_storm(harness: &impl RegisterHarness) {
    const CLIENTS: u64 = 5;
    const EACH: u64 = 12;
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let register = ChaosRegister::new(harness.client().await)
            .seed(client + 1)
            .with(Fault::LostReply, 100)
            .with(Fault::LostRequest, 50)
            .with(Fault::Refused, 50)
            .with(Fault::Twice, 100)
            .with(Fault::LateCopy, 100)
            .with(Fault::Overdue, 100);
        clients.spawn(async move {
            let mut tags = Vec::new();
            for i in 0..EACH {
                let tag = format!("{client}.{i}");
                let append = async |old: Option<Vec<u8>>| {
                    let old = String::from_utf8(old.unwrap_or_default()).unwrap();
                    Ok::<_, Error>(format!("{old} {tag}").into_bytes())
                };
                let done = try_update(&patient(), &register, KEY, append).await.map(drop);
                tags.push((tag, done));
            }
            register.deliver().await;
            (tags, register.faults())
        });
    }
    let ended = clients.join_all().await;
    let text = String::from_utf8(present(&*harness.client().await).await.value).unwrap();
    let mut found: HashMap<&str, u32> = HashMap::new();
    text.split_whitespace().for_each(|tag| *found.entry(tag).or_default() += 1);
    for (tag, done) in ended.iter().flat_map(|(tags, _)| tags) {
        let times = found.get(&**tag).copied().unwrap_or(0);
        match done {
            Ok(()) => assert_eq!(times, 1, "{tag} was done"),
            Err(error) if error.effect() == Effect::Unknown => {
                assert!(times <= 1, "{tag} was not known to be done")
            }
            Err(error) => assert_eq!(times, 0, "{tag} was not done: {error}"),
        }
    }
    let faults: usize = ended.iter().map(|(_, faults)| faults).sum();
    assert!(faults > 10, "only {faults} faults");
    let done = ended.iter().flat_map(|(tags, _)| tags).filter(|(_, done)| done.is_ok()).count();
    // The other writes were forgotten: a register without delays takes that many writes meanwhile.
    assert!(
        done * 2 > ended.len() * usize::try_from(EACH).unwrap(),
        "only {done} came to their end"
    );
}
