//! Claims whose answers were lost, and that no client knows.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use lockkeeper::Effect;
use lockkeeper::store::{
    Claim, ClaimId, ClaimKey, Live, LiveState, Renewal, Store as _, Verdict, Withdrawal,
};
use lockkeeper_live::Etcd;

use crate::support::{
    Bare, LONG, TIME_LIMIT, UNRENEWED, drive, keeper, lease_of, line, name, patiently, within,
};

/// A claim arrives after its own withdrawal, which announced that: the claim is gone before it
/// arrives.
#[tokio::test]
async fn a_claim_that_comes_after_its_withdrawal_is_gone() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let claimant = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    let tombstone = Some(Duration::from_secs(60));
    assert_eq!(
        claimant.store.withdraw(&claimant.claim.key, tombstone).await.unwrap(),
        Withdrawal::Absent
    );
    assert_eq!(claimant.store.claim(&claimant.claim).await.unwrap(), Verdict::Gone);
    assert!(line(&etcd, &name).is_empty());
    // The tombstone belongs to no session: it stays after the close.
    let tombstones = || etcd.control().keys("/lockkeeper/.gone/").unwrap().len();
    assert_eq!(tombstones(), 1);
    claimant.store.close(&claimant.claim.key.session, &[]).await.unwrap();
    assert_eq!(tombstones(), 1);
}

/// A client that asks for its claim in an outage asks again later, for the same claim.
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
    // The first request may have been under way; the others had no effect for sure.
    let refused =
        async { while waiter.store.claim(&again).await.unwrap_err().effect() != Effect::None {} };
    within(TIME_LIMIT, refused).await;
    etcd.restart(0).unwrap();
    let verdict = patiently(async || waiter.store.claim(&again).await).await;
    assert!(matches!(verdict, Verdict::Queued { ahead: 1, .. }), "{verdict:?}");
    assert_eq!(line(&etcd, &name), there);
    assert_eq!(waiter.store.withdraw(&waiter.claim.key, None).await.unwrap(), Withdrawal::Removed);
}

/// etcd keeps every key until a compaction, and scans the keys of a line. So a lock that is taken
/// many times uses the same few keys.
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

/// A client has made a claim and does not know it. The claim is deleted once no renewal has listed
/// it for a whole ttl, though its session is healthy. The listed claims stay.
#[tokio::test]
async fn a_ghost_is_swept_while_its_session_lives() {
    let (etcd, name, ttl) = (Etcd::start().unwrap(), name(), Duration::from_secs(8));
    let holder = Bare::new(&etcd.url(), &name, ttl).await;
    holder.granted().await;
    // Of the same session, as a lost answer leaves it: no client will send it again.
    let holding = line(&etcd, &name).remove(0);
    let key = &holder.claim.key;
    let ghost = format!("/lockkeeper/.lock/{}/{:x}-77", key.name.encoded(), lease_of(&key.session));
    etcd.control().put_with_lease(&ghost, &holding.value, holding.lease).unwrap();
    let first = Instant::now();
    let swept = async {
        while etcd.control().get(&ghost).unwrap().is_some() {
            let renewal = patiently(async || holder.renew(LiveState::Granted).await).await;
            assert!(matches!(renewal, Renewal::Held { .. }), "{renewal:?}");
            tokio::time::sleep(ttl / 8).await;
        }
    };
    within(TIME_LIMIT * 2, swept).await;
    let lived = first.elapsed();
    assert!(lived >= ttl, "it was swept after {lived:?}: a claim in flight would have been, too");
    assert_eq!(line(&etcd, &name).len(), 1);
}

/// A renewal that has listed a ghost is delayed for longer than a ttl. Meanwhile the ghost has
/// gone, and a claim has got its slot: the renewal sweeps the ghost, and not the claim.
#[tokio::test]
async fn the_sweep_of_an_old_list_leaves_what_has_come_since() {
    let (etcd, names, ttl) = (Etcd::start().unwrap(), [name(), name()], Duration::from_secs(8));
    let other = Bare::new(&etcd.url(), &names[0], UNRENEWED).await;
    let waiter = Bare::new(&etcd.url(), &names[0], ttl).await;
    other.granted().await;
    waiter.queued().await;
    let mut next = waiter.another();
    next.claim.key.name = names[1].parse().unwrap();
    let session = &waiter.claim.key.session;
    let slot =
        format!("/lockkeeper/.lock/{}/{:x}-0", next.claim.key.name.encoded(), lease_of(session));
    let lease = lease_of(session);
    etcd.control().put_with_lease(&slot, "", lease).unwrap();
    // For a claim without a known place, all leases are listed.
    let live = |key, state| Live { key, state };
    let unknown =
        live(ClaimKey { id: ClaimId::random(), ..next.claim.key.clone() }, LiveState::InFlight);
    let both = [live(waiter.claim.key.clone(), LiveState::Queued), unknown];
    waiter.store.renew(session, &both).await.unwrap();
    other.store.withdraw(&other.claim.key, None).await.unwrap();
    let mut late = waiter.store.renew(session, &both);
    drive(&mut late, || line(&etcd, &names[0]).iter().all(|entry| entry.lease == lease)).await;
    assert!(etcd.control().delete(&slot).unwrap());
    next.granted().await;
    assert_eq!(line(&etcd, &names[1])[0].key, slot.as_bytes());
    let begun = Instant::now();
    while begun.elapsed() <= ttl {
        let renewal = patiently(async || next.renew(LiveState::Granted).await).await;
        assert!(matches!(renewal, Renewal::Held { .. }), "{renewal:?}");
        tokio::time::sleep(ttl / 16).await;
    }
    within(TIME_LIMIT, late).await.unwrap();
    // The sweep begins with the answer, and has a second for its two requests.
    for _ in 0..20 {
        assert_eq!(line(&etcd, &names[1]).len(), 1, "the claim is there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(line(&etcd, &names[1]).len(), 1, "the claim is there");
    assert!(matches!(next.renew(LiveState::Granted).await.unwrap(), Renewal::Held { .. }));
}
