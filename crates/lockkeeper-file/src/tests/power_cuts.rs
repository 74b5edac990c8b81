//! What an answer says about a detached lock outlives a power cut, so the disk has it before.

use super::*;
use crate::store::TOMBSTONE_MIN;

async fn detached(machine: &Machine, ttl: Duration) -> Client {
    machine
        .client_with(SessionSpec { detached: true, ..SessionSpec::new(ttl, Duration::ZERO) })
        .await
}

/// How often the store has waited for the disk after a commit.
async fn reached(client: &Client) -> usize {
    client.store.write(|txn| Ok(txn.reached())).await.unwrap()
}

/// A kept claim has no session any more. After a power cut the lock that an administrator has
/// broken would be kept again, for up to a year.
#[tokio::test]
async fn the_break_of_a_detached_minimum_hold_is_on_the_disk() {
    let machine = Machine::new();
    let client = detached(&machine, TTL).await;
    let claim = client.mutex("n");
    let token = client.granted(&claim).await;
    let hold = Amend::MinHold(Duration::from_secs(3600));
    client.store.amend(&claim.key, 1, &hold).await.unwrap();
    client.withdraw(&claim).await;
    let (n, before) = (name("n"), reached(&client).await);
    let broken = client.store.evict(&n, &Target::Token(token), Evict::Now, "ops", "stuck").await;
    assert_eq!(broken.unwrap(), Evicted::Done);
    assert!(client.store.line(&n).await.unwrap().entries.is_empty());
    assert_eq!(reached(&client).await, before + 1);
}

/// Otherwise the lock is taken again for a whole ttl after a power cut, though an observer has
/// learned that the lock is free.
#[tokio::test]
async fn the_end_of_a_detached_lock_that_an_observer_has_seen_is_on_the_disk() {
    let machine = Machine::new();
    let (holder, observer) = (detached(&machine, ms(600)).await, machine.client().await);
    holder.granted(&holder.mutex("n")).await;
    let n = name("n");
    let seen = observer.store.line(&n).await.unwrap().revision;
    let wake = observer.store.wait(Interest::Name(&n), seen, TTL).await.unwrap();
    assert_eq!(wake, Wake::Changed);
    assert!(observer.store.line(&n).await.unwrap().entries.is_empty());
    assert_eq!(reached(&observer).await, 1);
}

/// The holder is on another host perhaps, and a copy of its claim may arrive after the power cut.
#[tokio::test]
async fn a_withdrawal_before_its_detached_claim_is_on_the_disk() {
    let machine = Machine::new();
    let (theirs, ours) = (detached(&machine, TTL).await, machine.client().await);
    for (client, syncs) in [(&ours, 0), (&theirs, 1)] {
        let absent = client.mutex("n").key;
        let withdrawn = client.store.withdraw(&absent, Some(TOMBSTONE_MIN)).await;
        assert_eq!(withdrawn.unwrap(), Withdrawal::Absent);
        assert_eq!(reached(client).await, syncs);
        let resent = Claim { resend: true, ..client.mutex("n") };
        assert_eq!(client.store.claim(&resent).await.unwrap(), Verdict::Gone);
        assert_eq!(reached(client).await, 2 * syncs);
    }
}
