//! Claims of one session use the same keys one after the other: no claim takes another claim's key
//! for its own, or for gone.

use std::time::Duration;

use lockkeeper::store::{
    Admin as _, Amend, Amended, Claim, ClaimId, Evict, LiveState, MAX, Renewal, Store as _, Target,
    Verdict, Withdrawal,
};
use lockkeeper::{Effect, ErrorKind};
use lockkeeper_live::{Etcd, Proxy, Way};

use crate::support::{
    Bare, TIME_LIMIT, UNRENEWED, drive, lease_of, line, name, patiently, send, within,
};

/// The answer to a release is late, while another claim of the session has got the key of the
/// released claim. A try that knows of the release does not take that claim for gone. On one
/// thread: no answer comes while a request is polled.
#[tokio::test]
async fn a_try_sees_who_sits_where_somebody_is_leaving() {
    let (etcd, permits) = (Etcd::start().unwrap(), [(MAX, MAX, 0), (1, 2, 1)]);
    for (weight, capacity, foreign) in permits {
        let name = name();
        let mut leaving = Bare::new(&etcd.url(), &name, UNRENEWED).await;
        (leaving.claim.weight, leaving.claim.capacity) = (weight, capacity);
        for _ in 0..foreign {
            let mut other = Bare::new(&etcd.url(), &name, UNRENEWED).await;
            (other.claim.weight, other.claim.capacity) = (weight, capacity);
            other.granted().await;
        }
        leaving.granted().await;
        let before = line(&etcd, &name);
        let mut late = leaving.store.withdraw(&leaving.claim.key, None);
        send(&mut late, || line(&etcd, &name).len() == foreign).await;
        leaving.store.withdraw(&leaving.claim.key, None).await.unwrap();
        let next = leaving.another();
        next.granted().await;
        let after = line(&etcd, &name);
        assert_eq!(
            after.last().map(|entry| &entry.key),
            before.last().map(|entry| &entry.key),
            "the same slot"
        );
        let mut trying = leaving.another();
        trying.claim.queue = false;
        let verdict = trying.store.claim(&trying.claim).await.unwrap();
        assert!(matches!(verdict, Verdict::Busy { .. }), "{verdict:?}");
        let verdict = leaving.another();
        let verdict = verdict.store.claim(&verdict.claim).await.unwrap();
        assert!(matches!(verdict, Verdict::Queued { .. }), "{verdict:?}");
        let _ = within(TIME_LIMIT, late).await;
        assert_eq!(line(&etcd, &name).len(), foreign + 2);
    }
}

/// Another record in a claim's place does not count as the claim.
#[tokio::test]
async fn what_sits_in_a_claims_place_is_not_taken_for_it() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let mut reader = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    reader.claim.weight = 1;
    reader.granted().await;
    let entry = line(&etcd, &name).remove(0);
    let writer = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    let position = format!(
        "/lockkeeper/.lock/{}/{:x}-0",
        writer.claim.key.name.encoded(),
        lease_of(&writer.claim.key.session)
    );
    etcd.control().put_with_lease(&position, &entry.value, entry.lease).unwrap();
    let error = writer.store.claim(&writer.claim).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
    let verdict = writer.store.claim(&writer.claim).await.unwrap();
    assert!(matches!(verdict, Verdict::Queued { ahead: 2, .. }), "{verdict:?}");
}

/// A change whose look was answered late finds the next claim of its client in its own place.
#[tokio::test]
async fn a_change_touches_no_other_claim_in_the_place_of_its_own() {
    let etcd = Etcd::start().unwrap();
    let [first, other] = [name(), name()];
    let writer = Bare::new(&etcd.url(), &first, UNRENEWED).await;
    let next = Bare::new(&etcd.url(), &other, UNRENEWED).await;
    writer.granted().await;
    next.granted().await;
    let (own, next) = (line(&etcd, &first).remove(0), line(&etcd, &other).remove(0));
    etcd.control().delete(&own.key).unwrap();
    etcd.control().put_with_lease(&own.key, &next.value, own.lease).unwrap();
    let value = Amend::Value(b"shown"[..].into());
    for (number, change) in [(1, Amend::Lower(1)), (2, value)] {
        assert_eq!(
            writer.store.amend(&writer.claim.key, number, &change).await.unwrap(),
            Amended::NotLive
        );
    }
    assert_eq!(line(&etcd, &first)[0].value, next.value);
}

/// A claim is in line, and the connection ends with the answer. The client cannot send its next
/// request, but the claim is there, and its withdrawal finds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_joined_before_the_connection_ended_may_be_there() {
    let (mut etcd, name) = (Etcd::start().unwrap(), name());
    let writer = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let mut reader = Bare::new(&etcd.url_through(&[&proxy]), &name, UNRENEWED).await;
    reader.claim.weight = 1;
    writer.granted().await;
    proxy.hold(Way::ToClient);
    let mut claiming = reader.store.claim(&reader.claim);
    send(&mut claiming, || line(&etcd, &name).len() == 2).await;
    proxy.refuse();
    etcd.kill(0).unwrap();
    proxy.release();
    let unsent = async {
        while reader.store.claim(&reader.another().claim).await.unwrap_err().effect()
            != Effect::None
        {}
    };
    within(TIME_LIMIT, unsent).await;
    let error = within(TIME_LIMIT, claiming).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown),
        "{error}"
    );
    etcd.restart(0).unwrap();
    proxy.accept().unwrap();
    let withdrawal = patiently(async || reader.store.withdraw(&reader.claim.key, None).await).await;
    assert_eq!(withdrawal, Withdrawal::Removed);
}

/// A claim is refused, and its end is not sent yet. A request for it is refused too.
#[tokio::test]
async fn a_refused_claim_is_refused_when_it_is_asked_after() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let mutex = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    mutex.granted().await;
    let mut permit = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    (permit.claim.weight, permit.claim.capacity) = (1, 2);
    let mut claiming = permit.store.claim(&permit.claim);
    send(&mut claiming, || line(&etcd, &name).len() == 2).await;
    drop(claiming);
    let again = Claim { resend: true, ..permit.claim.clone() };
    assert_eq!(permit.store.claim(&again).await.unwrap_err().kind(), ErrorKind::Mismatch);
    assert_eq!(line(&etcd, &name).len(), 1);
}

/// Behind many waiters, a further claim goes to the lease of the waiters without a check; if that
/// lease has ended, to another one.
#[tokio::test]
async fn a_waiter_that_joins_many_on_an_ended_lease_keeps_its_session() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    holder.granted().await;
    let first = holder.another();
    first.queued().await;
    // While one is under way, the number of the others is known.
    let mut late = first.store.withdraw(&first.claim.key, None);
    send(&mut late, || line(&etcd, &name).len() == 1).await;
    for _ in 0..20 {
        holder.another().queued().await;
    }
    let all = line(&etcd, &name);
    etcd.control().revoke(all.last().unwrap().lease).unwrap();
    let next = holder.another();
    let verdict = next.store.claim(&next.claim).await.unwrap();
    assert!(matches!(verdict, Verdict::Queued { ahead: 1, .. }), "{verdict:?}");
    assert!(matches!(holder.renew(LiveState::Granted).await.unwrap(), Renewal::Held { .. }));
    within(TIME_LIMIT, late).await.unwrap();
}

/// The first of two claims is refused, since the lease has ended, and asks again while the second
/// waits for its turn.
#[tokio::test]
async fn claims_that_join_a_crowd_on_a_lease_that_has_ended_keep_their_order() {
    let etcd = Etcd::start().unwrap();
    for _ in 0..5 {
        let name = name();
        let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
        holder.granted().await;
        let first = holder.another();
        first.queued().await;
        // While one is under way, the number of the others is known.
        let mut late = first.store.withdraw(&first.claim.key, None);
        send(&mut late, || line(&etcd, &name).len() == 1).await;
        for _ in 0..20 {
            holder.another().queued().await;
        }
        etcd.control().revoke(line(&etcd, &name).last().unwrap().lease).unwrap();
        let (one, two) = (holder.another(), holder.another());
        let (one, two) = tokio::join!(one.store.claim(&one.claim), two.store.claim(&two.claim));
        for (place, verdict) in [(1, one), (2, two)] {
            let Ok(Verdict::Queued { ahead, .. }) = verdict else { panic!("{verdict:?}") };
            assert_eq!(ahead, place);
        }
        within(TIME_LIMIT, late).await.unwrap();
    }
}

/// A waiter that was broken, and knows it, removes its key when it leaves.
#[tokio::test]
async fn a_broken_waiter_leaves_no_key() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    let waiter = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    holder.granted().await;
    waiter.queued().await;
    let target = Target::Id(waiter.claim.key.id.hash());
    holder.store.evict(&holder.claim.key.name, &target, Evict::Mark, "me", "a test").await.unwrap();
    let again = Claim { resend: true, ..waiter.claim.clone() };
    assert_eq!(waiter.store.claim(&again).await.unwrap(), Verdict::Gone);
    assert_eq!(waiter.store.withdraw(&waiter.claim.key, None).await.unwrap(), Withdrawal::Removed);
    assert_eq!(line(&etcd, &name).len(), 1);
    // And its key does not belong to another claim.
    let next = waiter.another();
    next.queued().await;
    assert_ne!(next.store.withdraw(&waiter.claim.key, None).await.unwrap(), Withdrawal::Removed);
    assert_eq!(line(&etcd, &name).len(), 2);
}

/// The answer to an upgrade is lost, and the client asks for it: the slot of the replaced claim is
/// free all the same.
#[tokio::test]
async fn a_replaced_claim_releases_its_slot_though_the_answer_was_lost() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let mut old = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    old.claim.weight = 1;
    old.granted().await;
    let mut new = old.another();
    (new.claim.weight, new.claim.replaces) = (MAX, Some(old.claim.key.id));
    let keys = || line(&etcd, &name).into_iter().map(|entry| entry.key).collect::<Vec<_>>();
    let mut slots = keys();
    let mut lost = new.store.claim(&new.claim);
    drive(&mut lost, || keys() != slots).await;
    drop(lost);
    slots.extend(keys());
    let verdict = new.store.claim(&Claim { resend: true, ..new.claim.clone() }).await.unwrap();
    assert!(matches!(verdict, Verdict::Granted { .. }), "{verdict:?}");
    new.store.withdraw(&new.claim.key, None).await.unwrap();
    old.another().granted().await;
    old.another().granted().await;
    let mut taken = keys();
    taken.sort();
    slots.sort();
    assert_eq!(taken, slots);
}

/// A reader is leaving, and its withdrawal has not arrived, when another reader of its client
/// becomes the writer. The upgrade removes the leaving claims, as every claim does.
#[tokio::test]
async fn an_upgrade_takes_along_a_reader_that_is_leaving() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let mut old = Bare::new(&etcd.url_through(&[&proxy]), &name, UNRENEWED).await;
    old.claim.weight = 1;
    let leaving = old.another();
    old.granted().await;
    leaving.granted().await;
    proxy.refuse();
    proxy.cut();
    let unsent = async || while old.store.line(&old.claim.key.name).await.is_ok() {};
    within(TIME_LIMIT, unsent()).await;
    let mut late = leaving.store.withdraw(&leaving.claim.key, None);
    send(&mut late, || true).await;
    // The earlier request was not sent either.
    within(TIME_LIMIT, unsent()).await;
    proxy.accept().unwrap();
    patiently(async || old.store.line(&old.claim.key.name).await).await;
    let mut new = old.another();
    (new.claim.weight, new.claim.queue, new.claim.replaces) = (MAX, false, Some(old.claim.key.id));
    assert_eq!(line(&etcd, &name).len(), 2);
    new.granted().await;
    assert_eq!(line(&etcd, &name).len(), 1);
}

/// A full etcd accepts no more data, and still releases present claims.
#[tokio::test]
async fn a_lock_is_kept_and_released_though_etcd_is_full() {
    let (etcd, name) = (Etcd::builder().quota(32 << 20).start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    holder.granted().await;
    let much = vec![b'x'; 1 << 20];
    assert!((0..128).any(|number| etcd.control().put(format!("big/{number}"), &much).is_err()));
    assert!(matches!(holder.renew(LiveState::Granted).await.unwrap(), Renewal::Held { .. }));
    let withdrawal =
        holder.store.withdraw(&holder.claim.key, Some(Duration::from_secs(60))).await.unwrap();
    assert_eq!(withdrawal, Withdrawal::Removed);
    assert!(line(&etcd, &name).is_empty());
}

/// The claim was not sent, so the store keeps nothing of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_could_not_be_prepared_leaves_its_slot() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let ours = Bare::new(&etcd.url_through(&[&proxy]), &name, UNRENEWED).await;
    proxy.refuse();
    proxy.cut();
    let unsent = async { while ours.store.line(&ours.claim.key.name).await.is_ok() {} };
    within(TIME_LIMIT, unsent).await;
    for _ in 0..3 {
        let claim = Claim { replaces: Some(ClaimId::random()), ..ours.another().claim };
        let error = ours.store.claim(&claim).await.unwrap_err();
        assert_eq!(error.effect(), Effect::None, "{error}");
    }
    proxy.accept().unwrap();
    patiently(async || ours.store.line(&ours.claim.key.name).await).await;
    ours.granted().await;
    let key = String::from_utf8(line(&etcd, &name)[0].key.clone()).unwrap();
    assert!(key.ends_with("-0"), "{key}");
}
