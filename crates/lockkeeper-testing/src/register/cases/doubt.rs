//! Writes without an answer.

use std::time::Duration;

use super::{KEY, another_writes, answer, counted, increment, present, two_clients, version};
use crate::register::{ChaosRegister, RegisterHarness};
use lockkeeper::layer::Fault;
use lockkeeper::{Effect, ErrorKind};
use lockkeeper_core::registers::{Outcome, Policy, REMEMBERED, Swap, Version, Write, settle, swap};

fn policy() -> Policy {
    Policy::default().longest(Duration::from_millis(20))
}

/// A policy that sends once, and does not read the register afterwards.
fn once() -> Policy {
    policy().attempts(1)
}

/// Three increments. The second increment meets these faults, one at each try.
async fn increments_through(harness: &impl RegisterHarness, faults: &[Fault]) -> ChaosRegister {
    let register = ChaosRegister::new(harness.client().await);
    increment(&policy(), &register).await.unwrap();
    faults.iter().for_each(|fault| register.plan(*fault));
    let done = increment(&policy(), &register).await.unwrap();
    assert_eq!(done.version, version(&register).await);
    increment(&policy(), &register).await.unwrap();
    assert_eq!(counted(harness).await, 3);
    assert_eq!(register.faults(), faults.len());
    register
}

pub async fn a_lost_answer_is_read_back(harness: &impl RegisterHarness) {
    increments_through(harness, &[Fault::LostReply]).await;
}

pub async fn a_lost_request_is_sent_again(harness: &impl RegisterHarness) {
    increments_through(harness, &[Fault::LostRequest, Fault::LostRequest, Fault::LostReply]).await;
}

pub async fn a_write_that_was_not_sent_is_sent_again(harness: &impl RegisterHarness) {
    increments_through(harness, &[Fault::Refused, Fault::Refused]).await;
}

pub async fn a_request_that_the_network_doubled_counts_once(harness: &impl RegisterHarness) {
    increments_through(harness, &[Fault::Twice]).await;
}

pub async fn a_late_request_does_not_count_twice(harness: &impl RegisterHarness) {
    let register = increments_through(harness, &[Fault::Overdue, Fault::LateCopy]).await;
    let answers = register.deliver().await;
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Swap::Conflict(_)))), "{answers:?}");
    assert_eq!(counted(harness).await, 3);
}

/// A write that meets this fault, so that its outcome is unknown.
async fn in_doubt(register: &ChaosRegister, fault: Fault) -> Write {
    register.plan(fault);
    let write = Write::new(version(register).await, "ours");
    let Ok(Outcome::Unknown(error)) = swap(&once(), register, KEY, &write).await else {
        panic!("an answer came")
    };
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
    assert!(error.to_string().contains(KEY) && error.remedy().is_some(), "{error}");
    write
}

pub async fn what_stays_open_is_settled_later(harness: &impl RegisterHarness) {
    let [ours, theirs] = two_clients(harness).await;
    let register = ChaosRegister::new(ours);
    for fault in [Fault::LostReply, Fault::LostRequest, Fault::LateCopy, Fault::Overdue] {
        for others in 0..3 {
            let before = version(&*theirs).await;
            let write = in_doubt(&register, fault).await;
            for _ in 0..others {
                another_writes(&*theirs, "theirs").await;
            }
            let processed = matches!(fault, Fault::LostReply | Fault::LateCopy);
            let outcome = settle(&policy(), &register, KEY, &write).await.unwrap();
            match outcome {
                Outcome::Done(version) => {
                    assert!((processed || others == 0) && version == before.next())
                }
                Outcome::Conflict => assert!(!processed && others > 0),
                Outcome::Unknown(error) => panic!("{error}"),
            }
            let settled = version(&*theirs).await;
            register.deliver().await;
            assert_eq!(version(&*theirs).await, settled, "what came late did something");
        }
    }
    // A late write that arrives before the client reads again is done once.
    let write = in_doubt(&register, Fault::Overdue).await;
    assert!(matches!(register.deliver().await[..], [Ok(Swap::Done)]));
    let outcome = settle(&policy(), &register, KEY, &write).await.unwrap();
    assert!(matches!(outcome, Outcome::Done(version) if version == write.makes()));
    assert_eq!(present(&*theirs).await.version, write.makes());
}

pub async fn what_was_forgotten_stays_unknown(harness: &impl RegisterHarness) {
    let [ours, theirs] = two_clients(harness).await;
    let register = ChaosRegister::new(ours);
    for (fault, others) in [(Fault::LostReply, REMEMBERED), (Fault::LostRequest, REMEMBERED + 1)] {
        let write = in_doubt(&register, fault).await;
        for _ in 0..others {
            another_writes(&*theirs, "theirs").await;
        }
        let before = present(&*theirs).await;
        let outcome = settle(&policy(), &register, KEY, &write).await.unwrap();
        let Outcome::Unknown(error) = outcome else { panic!("{outcome:?}: nobody can know") };
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Conflict, Effect::Unknown),
            "{error}"
        );
        assert_eq!(present(&*theirs).await, before, "it was sent once more");
    }
    // A client with an answer is in no doubt, even with an old version.
    let old = Write::new(Version::ABSENT, "ours");
    assert!(matches!(answer(&*theirs, &old).await, Swap::Conflict(_)));
    assert!(matches!(swap(&policy(), &*theirs, KEY, &old).await, Ok(Outcome::Conflict)));
}
