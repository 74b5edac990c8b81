//! Claims whose answers were lost, and that nobody knows of any more.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use lockkeeper::Effect;
use lockkeeper::store::{Claim, LiveState, Renewal, Store as _, Verdict, Withdrawal};
use lockkeeper_live::Etcd;

use super::{Bare, LONG, PATIENCE, UNRENEWED, keeper, line, name, patiently, within};

/// A claim arrives after its own withdrawal, which said that it may: it is gone before it comes.
#[tokio::test]
async fn a_claim_that_comes_after_its_withdrawal_is_gone() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let claimant = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    let tombstone = Some(Duration::from_secs(60));
    assert_eq!(claimant.store.withdraw(&claimant.claim.key, tombstone).await.unwrap(), Withdrawal::Absent);
    assert_eq!(claimant.store.claim(&claimant.claim).await.unwrap(), Verdict::Gone);
    assert!(line(&etcd, &name).is_empty());
    // It is said for as long as it could come, and no longer: with the session's lease.
    assert_eq!(etcd.control().keys("/lockkeeper/.gone/").unwrap().len(), 1);
    claimant.store.close(&claimant.claim.key.session, &[]).await.unwrap();
    assert!(etcd.control().keys("/lockkeeper/.gone/").unwrap().is_empty());
}

/// Whoever asks after its claim while nobody answers asks again later, after the same one.
#[tokio::test]
async fn a_claim_that_is_asked_after_in_an_outage_keeps_its_place() {
    let (mut etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    let waiter = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    holder.granted().await;
    waiter.queued().await;
    let there = line(&etcd, &name);
    let again = Claim { resend: true, ..waiter.claim.clone() };
    etcd.kill(0).unwrap();
    // The first may have been on its way; of the others it is known that they had no effect.
    let refused = async { while waiter.store.claim(&again).await.unwrap_err().effect() != Effect::None {} };
    within(PATIENCE, refused).await;
    etcd.restart(0).unwrap();
    let verdict = patiently(async || waiter.store.claim(&again).await).await;
    assert!(matches!(verdict, Verdict::Queued { ahead: 1, .. }), "{verdict:?}");
    assert_eq!(line(&etcd, &name), there);
    assert_eq!(waiter.store.withdraw(&waiter.claim.key, None).await.unwrap(), Withdrawal::Removed);
}

/// etcd remembers every key until it is compacted, and walks over those of a line: so a lock that is taken again and again
/// has the same few.
#[tokio::test]
async fn a_lock_that_is_taken_again_and_again_has_few_keys() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let keeper = keeper(&etcd.url(), LONG).await;
    let mut keys = HashSet::new();
    for round in 0..50 {
        let guard = keeper.mutex(&name).unwrap().lock().await.unwrap();
        keys.extend(line(&etcd, &name).into_iter().map(|entry| entry.key));
        if round % 2 == 0 {
            guard.release().await.unwrap();
        }
    }
    assert!(keys.len() <= 3, "{keys:?}");
}

/// A claim that a client has made and does not know of is deleted once nobody has listed it for a whole life, though
/// its session is healthy; and what is listed stays.
#[tokio::test]
async fn a_ghost_is_swept_while_its_session_lives() {
    let (etcd, name, ttl) = (Etcd::start().unwrap(), name(), Duration::from_secs(8));
    let holder = Bare::new(&etcd.url(), &name, ttl).await;
    holder.granted().await;
    // Of the same session, as a lost answer leaves it: put in line by nobody who would say so again.
    let holding = line(&etcd, &name).remove(0);
    let key = &holder.claim.key;
    let ghost = format!("/lockkeeper/.lock/{}/{}-77", key.name.encoded(), key.session.as_str());
    etcd.control().put_with_lease(&ghost, &holding.value, holding.lease).unwrap();
    let first = Instant::now();
    let swept = async {
        while etcd.control().get(&ghost).unwrap().is_some() {
            let renewal = patiently(async || holder.renew(LiveState::Granted).await).await;
            assert!(matches!(renewal, Renewal::Held { .. }), "{renewal:?}");
            tokio::time::sleep(ttl / 8).await;
        }
    };
    within(PATIENCE * 2, swept).await;
    let lived = first.elapsed();
    assert!(lived >= ttl, "it was swept after {lived:?}: a claim in flight would have been, too");
    assert_eq!(line(&etcd, &name).len(), 1);
}
