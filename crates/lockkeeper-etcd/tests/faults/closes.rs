//! A close of a session ends its claims, wherever they are, and no minimum hold. It waits for no
//! claim that is under way.

use std::time::Duration;

use lockkeeper::Keeper;
use lockkeeper::store::{Amend, Amended, Evict, SessionId, Store as _, Target, Verdict};
use lockkeeper_live::{Etcd, Proxy, Way};

use crate::keeps::{LONG, only, timer};
use crate::shared::{clients, spec};
use crate::support::{Bare, UNRENEWED, lease_of, line, name, store, within};

const TTL: Duration = Duration::from_secs(30);
/// Much more than a few requests to a server on this host take.
const LIMIT: Duration = Duration::from_secs(10);

/// The closing client has neither made nor listed the claim. The mark has moved the claim to a
/// lease of the operator.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_through_another_client_ends_a_marked_claim() {
    for first_lease_is_gone in [false, true] {
        let (etcd, name) = (Etcd::start().unwrap(), name());
        let [ours, theirs] = clients(&etcd, &name, TTL).await;
        ours.granted().await;
        let target = Target::Id(ours.claim.key.id.hash());
        let admin = ours.store.admin().unwrap();
        let evicted = admin.evict(&ours.claim.key.name, &target, Evict::Mark, "op", "stuck").await;
        evicted.unwrap();
        if first_lease_is_gone {
            etcd.control().revoke(lease_of(&ours.claim.key.session)).unwrap();
        }
        theirs.store.close(&ours.claim.key.session, &[]).await.unwrap();
        let left = line(&etcd, &name);
        let seconds: Vec<_> =
            left.iter().map(|claim| etcd.control().lease_left(claim.lease).unwrap()).collect();
        assert!(left.is_empty(), "it stays for {seconds:?} s after the close of its session");
    }
}

/// The claim is on another lease of the session, and etcd has ended the first one.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_of_what_is_left_of_a_session_keeps_a_minimum_hold() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, theirs] = clients(&etcd, &name, TTL).await;
    ours.granted().await;
    ours.keeps(LONG).await;
    let session = &ours.claim.key.session;
    // As a client does that has made another lease for holders, and holds the claim there.
    let lease = etcd.control().grant(30).unwrap();
    let shown = format!("/lockkeeper/.session/{:x}/hold-{lease:x}", lease_of(session));
    etcd.control().put_with_lease(shown, "", lease).unwrap();
    let (kept, _) = only(&etcd, &name);
    etcd.control().put_with_lease(&kept.key, &kept.value, lease).unwrap();
    etcd.control().revoke(lease_of(session)).unwrap();
    theirs.store.close(session, &[]).await.unwrap();
    let (kept, record) = only(&etcd, &name);
    assert_eq!(kept.lease, timer(&record));
    assert_eq!(record["keep"]["released"], true);
}

/// The close shuts the gate of the session's leases, and withdraws the claim, for which it waits
/// for the turn of the name. The claim has this turn, and waits at the gate to make its wait lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_and_a_claim_under_way_in_a_detached_session_do_not_wait_for_each_other() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    holder.granted().await;
    let [ours, _] = clients(&etcd, &name, TTL).await;
    let (claimed, closed) = within(LIMIT, async {
        tokio::join!(ours.store.claim(&ours.claim), ours.store.close(&ours.claim.key.session, &[]))
    })
    .await;
    closed.unwrap();
    assert!(!matches!(claimed, Ok(Verdict::Granted { .. })), "{claimed:?}");
    // Another claim of this client on the name is not delayed either.
    let mut next = ours.another();
    next.claim.key.session = SessionId::random();
    next.store.open(&next.claim.key.session, &spec(&ours)).await.unwrap();
    within(LIMIT, next.queued()).await;
}

/// The same in a session that is not detached: the close withdraws a claim with a minimum hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_with_a_minimum_hold_and_a_claim_under_way_do_not_wait_for_each_other() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, TTL).await;
    holder.granted().await;
    let amended = holder.store.amend(&holder.claim.key, 1, &Amend::MinHold(LONG)).await.unwrap();
    assert_eq!(amended, Amended::Done);
    let next = holder.another();
    let (claimed, closed) = within(LIMIT, async {
        tokio::join!(
            next.store.claim(&next.claim),
            holder.store.close(&holder.claim.key.session, &[])
        )
    })
    .await;
    closed.unwrap();
    assert!(!matches!(claimed, Ok(Verdict::Granted { .. })), "{claimed:?}");
}

/// The same through keepers: neither the attempt, nor the shutdown, nor a lock of another keeper on
/// the same store hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_that_ends_while_a_detached_lock_is_asked_for_delays_no_other() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    holder.granted().await;
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let store = store(&etcd.url_through(&[&proxy])).await;
    let [keeper, other] =
        [Keeper::builder(store.clone()), Keeper::builder(store)].map(|builder| builder.connect());
    let (keeper, other) = (keeper.await.unwrap(), other.await.unwrap());
    // The marker of the layout is known after this.
    other.mutex("before").unwrap().lock().await.unwrap().release().await.unwrap();
    let (its, lock) = (keeper.clone(), name.clone());
    let slow = Duration::from_millis(400);
    proxy.delay(Way::ToClient, slow);
    let asking = tokio::spawn(async move {
        its.mutex(&lock).unwrap().lock().detached(Duration::from_secs(60)).await.map(drop)
    });
    while etcd.control().keys("/lockkeeper/.session/").unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // The answer to the opening is on its way, and then the claim is sent.
    tokio::time::sleep(slow + slow / 2).await;
    let ended = keeper.shutdown(Duration::from_secs(8)).await;
    proxy.delay(Way::ToClient, Duration::ZERO);
    let attempt = tokio::time::timeout(LIMIT, asking).await;
    let theirs = async { other.mutex(&name).unwrap().try_lock().await.map(|held| held.is_some()) };
    let others = tokio::time::timeout(LIMIT, theirs).await;
    assert!(ended.is_ok(), "{ended:?}");
    assert!(attempt.is_ok(), "the attempt has no end");
    assert!(matches!(others, Ok(Ok(_))), "{others:?}");
}
