//! Fault injection: it makes the planned faults, and a store copes with them.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::layer::{Chaos, Fault, Faults, Operation};
use lockkeeper::store::{Amend, Claim, MAX, Store, Verdict, Withdrawal};
use lockkeeper::{Effect, ErrorKind};
use lockkeeper_testing::wrong;
use lockkeeper_testing::{Case, Contender, MemoryHarness, Ttls, run, storm};

fn fault_injection() -> Faults {
    Faults::none()
        .with(Fault::Refused, 30)
        .with(Fault::LostRequest, 60)
        .with(Fault::LostReply, 80)
        .with(Fault::Twice, 60)
        .with(Fault::LateCopy, 60)
        .with(Fault::Overdue, 60)
        .with(Fault::LostWake, 100)
        .with(Fault::FalseWake, 100)
        .slow(150, Duration::from_millis(300))
        .late(Duration::from_secs(4))
}

#[test]
fn in_a_storm_nobody_holds_together_and_nothing_is_left() {
    run::<MemoryHarness>("storm", &[], async |case| {
        for seed in 0..40 {
            storm(case, seed, &fault_injection()).await;
        }
    });
}

#[test]
fn in_a_storm_much_later_copies_find_the_tombstone() {
    run::<MemoryHarness>("storm", &[], async |case| {
        for seed in 0..10 {
            storm(case, seed, &fault_injection().late(Duration::from_secs(60))).await;
        }
    });
}

async fn storms(case: &Case) {
    for seed in 0..40 {
        storm(case, seed, &fault_injection()).await;
    }
}

#[test]
fn a_storm_finds_a_resend_without_a_new_ttl() {
    assert!(
        wrong::complaint::<MemoryHarness, wrong::ResendWithoutNewTtl>("storm", storms).is_some()
    );
}

#[test]
fn a_storm_finds_a_missing_tombstone() {
    assert!(wrong::complaint::<MemoryHarness, wrong::NoTombstone>("storm", storms).is_some());
}

/// One client behind injected faults, and one client without faults.
async fn two_clients(case: &Case) -> (Arc<Chaos>, Contender, Contender) {
    let [beside, mut behind] = case.mutexes("lock").await;
    let chaos = Arc::new(Chaos::new(case.harness().client().await, case.clock().clone()).seed(7));
    behind.client.store = Arc::clone(&chaos) as Arc<dyn Store>;
    (chaos, behind, beside)
}

#[test]
fn a_change_comes_late_too() {
    run::<MemoryHarness>("late", &[], async |case| {
        for (fault, before) in [(Fault::Overdue, MAX), (Fault::LateCopy, 1)] {
            let (chaos, behind, beside) = two_clients(case).await;
            behind.granted().await;
            chaos.plan(Operation::Amend, fault);
            let error = behind
                .client
                .store
                .amend(&behind.claim.key, 1, &Amend::Lower(1))
                .await
                .unwrap_err();
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::Unavailable, Effect::Unknown),
                "{fault:?}"
            );
            let weight = async || beside.line().await.entries[0].weight;
            assert_eq!(weight().await, before, "{fault:?}");
            chaos.settled().await;
            assert_eq!(weight().await, 1, "{fault:?}");
            behind.release().await;
        }
    });
}

#[test]
fn a_lost_request_did_not_happen_and_a_lost_reply_did() {
    run::<MemoryHarness>("lost", &[], async |case| {
        let (chaos, behind, beside) = two_clients(case).await;
        for (fault, effect, happened) in [
            (Fault::Refused, Effect::None, false),
            (Fault::LostRequest, Effect::Unknown, false),
            (Fault::LostReply, Effect::Unknown, true),
        ] {
            chaos.plan(Operation::Claim, fault);
            let error = behind.send().await.unwrap_err();
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::Unavailable, effect),
                "{fault:?}"
            );
            assert_eq!(beside.line().await.entries.len(), usize::from(happened), "{fault:?}");
        }
        behind.granted().await;
    });
}

#[test]
fn a_late_copy_comes_after_the_withdrawal_and_finds_its_tombstone() {
    run::<MemoryHarness>("late copy", &[], async |case| {
        let (chaos, behind, beside) = two_clients(case).await;
        for fault in [Fault::LateCopy, Fault::Overdue] {
            for ghost in [false, true] {
                let claim = behind.with_new_id();
                chaos.set(Faults::none().late(Duration::from_secs(10)));
                chaos.plan(Operation::Claim, fault);
                claim.send().await.unwrap_err();
                if ghost {
                    claim.withdraw().await
                } else {
                    claim.withdraw_unsettled().await
                };
                beside.sees(&[], 0).await;
                chaos.settled().await;
                assert_eq!(beside.line().await.entries.len(), usize::from(ghost), "{fault:?}");
                claim.withdraw().await;
            }
        }
    });
}

#[test]
fn a_request_processed_twice_is_one() {
    run::<MemoryHarness>("twice", &[], async |case| {
        let (chaos, behind, beside) = two_clients(case).await;
        chaos.set(Faults::none().with(Fault::Twice, 1000));
        let token = behind.granted().await;
        assert_eq!(behind.held().await, token);
        beside.sees(&[&behind], 1).await;
        assert_eq!(
            behind.withdraw().await,
            Withdrawal::Removed,
            "the first answer is the one that is heard"
        );
        beside.granted().await;
    });
}

#[test]
fn requests_of_one_client_keep_their_order_when_held_up() {
    run::<MemoryHarness>("order", &[], async |case| {
        for seed in 0..50 {
            let inner = case.harness().client().await;
            let chaos = Chaos::new(inner, case.clock().clone()).seed(seed);
            chaos.set(Faults::none().slow(500, Duration::from_secs(2)));
            let client = case.client(Ttls::long()).await;
            let holder = client.mutex(&case.name("lock"));
            let next: Claim = holder.with_new_id().trying().claim;
            holder.granted().await;
            let (released, granted) =
                tokio::join!(chaos.withdraw(&holder.claim.key, None), chaos.claim(&next));
            assert_eq!(released.unwrap(), Withdrawal::Removed);
            assert!(
                matches!(granted.unwrap(), Verdict::Granted { .. }),
                "seed {seed}: it met its own release"
            );
            chaos.quiet();
            chaos.withdraw(&next.key, None).await.unwrap();
        }
    });
}

#[test]
fn the_same_seed_brings_the_same_faults() {
    let outcomes = |seed| {
        let (sender, receiver) = std::sync::mpsc::channel();
        run::<MemoryHarness>("seed", &[], async |case| {
            let chaos = Chaos::new(case.harness().client().await, case.clock().clone()).seed(seed);
            chaos.set(fault_injection());
            let start = case.now();
            for i in 0..100 {
                let answer = chaos.line(&case.name(&format!("{i}"))).await;
                let answer = answer.map(|_| ()).map_err(|error| error.to_string());
                sender.send((answer, case.since(start))).unwrap();
            }
        });
        receiver.try_iter().collect::<Vec<_>>()
    };
    assert_eq!(outcomes(1), outcomes(1));
    assert_ne!(outcomes(1), outcomes(2));
}
