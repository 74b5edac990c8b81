//! Changing a live claim in place.

use std::sync::Arc;
use std::time::Duration;

use crate::{Case, Contender, Ttls};
use lockkeeper::store::{Amend, Amended, Meta};

/// A writer becomes a reader, keeps its id and its token, and lets in the readers up to the next
/// writer.
pub async fn a_downgrade_lets_readers_in(case: &Case) {
    let writer = case.writer("lock").await;
    let (r1, r2) = (case.reader("lock").await, case.reader("lock").await);
    let next_writer = case.writer("lock").await;
    let r3 = case.reader("lock").await;
    let token = writer.granted().await;
    let seen = [r1.queued().await, r2.queued().await];
    next_writer.queued().await;
    r3.queued().await;
    let downgrade = async { assert_eq!(writer.amend(Amend::Lower(1)).await, Amended::Done) };
    tokio::join!(r1.wakes_with_its_grant(seen[0]), r2.wakes_with_its_grant(seen[1]), downgrade);
    writer.sees(&[&writer, &r1, &r2, &next_writer, &r3], 3).await;
    assert_eq!(writer.held().await, token);
    assert_eq!(writer.line().await.entries[0].weight, 1);
}

/// A downgrade that arrives twice counts once.
pub async fn a_downgrade_twice_is_one(case: &Case) {
    let writer = case.writer("lock").await;
    let token = writer.granted().await;
    assert_eq!(writer.amend(Amend::Lower(1)).await, Amended::Done);
    assert_eq!(writer.amend(Amend::Lower(1)).await, Amended::Done);
    assert_eq!(writer.held().await, token);
    case.writer("lock").await.trying().busy().await;
    case.reader("lock").await.trying().granted().await;
}

/// Permits that are given back let in the next waiter. The rest stays held, with its token.
pub async fn permits_that_are_given_back_let_others_in(case: &Case) {
    let (all, next, last) = (
        case.permits("pool", 3, 3).await,
        case.permits("pool", 2, 3).await,
        case.permits("pool", 1, 3).await,
    );
    let token = all.granted().await;
    let seen = next.queued().await;
    last.queued().await;
    assert_eq!(all.amend(Amend::Lower(2)).await, Amended::Done);
    all.sees(&[&all, &next, &last], 1).await;
    let lower = async { assert_eq!(all.amend(Amend::Lower(1)).await, Amended::Done) };
    tokio::join!(next.wakes_with_its_grant(seen), lower);
    all.sees(&[&all, &next, &last], 2).await;
    assert_eq!((all.held().await, all.line().await.entries[0].weight), (token, 1));
    all.release().await;
    last.granted().await;
}

/// A late copy of an earlier change takes back no permit that other claims may have by now.
pub async fn what_was_lowered_is_not_raised(case: &Case) {
    let (all, others, late) = (
        case.permits("pool", 3, 3).await,
        case.permits("pool", 2, 3).await,
        case.permits("pool", 1, 3).await,
    );
    all.granted().await;
    assert_eq!(all.amend(Amend::Lower(1)).await, Amended::Done);
    others.granted().await;
    assert_eq!(all.amend(Amend::Lower(2)).await, Amended::Done);
    assert_eq!(all.line().await.entries[0].weight, 1);
    others.release().await;
    others.with_new_id().trying().granted().await;
    late.trying().busy().await;
}

/// The weight of a waiter cannot be lowered.
pub async fn a_waiter_is_not_downgraded(case: &Case) {
    let (reader, writer) = (case.reader("lock").await, case.writer("lock").await);
    reader.granted().await;
    writer.queued().await;
    assert_eq!(writer.amend(Amend::Lower(1)).await, Amended::NotLive);
    reader.sees(&[&reader, &writer], 1).await;
}

/// A claim that was never made or was withdrawn is neither changed nor created.
pub async fn what_is_not_there_is_not_changed(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    for change in [Amend::Lower(1), Amend::Value(Arc::from(*b"v")), Amend::Meta(Meta::default())] {
        assert_eq!(a.amend(change.clone()).await, Amended::NotLive, "never claimed: {change:?}");
        let left = a.with_new_id();
        left.granted().await;
        left.release().await;
        assert_eq!(left.amend(change.clone()).await, Amended::NotLive, "withdrawn: {change:?}");
    }
    b.sees(&[], 0).await;
}

/// A dead claim is neither changed nor revived.
pub async fn a_dead_claim_is_not_changed(case: &Case) {
    let dead = case.mutex("lock", case.short()).await;
    let next = case.writer("lock").await;
    dead.granted().await;
    case.pass(dead.ttls().ttl * 2).await;
    match dead.client.store.amend(&dead.claim.key, 1, &Amend::Lower(1)).await {
        Ok(amended) => assert_eq!(amended, Amended::NotLive),
        Err(error) => assert_eq!(error.kind(), lockkeeper::ErrorKind::SessionLost),
    }
    next.granted().await;
    next.sees(&[&next], 1).await;
}

/// A candidate can replace its value while it leads or waits, and every client sees the new value.
pub async fn a_value_is_shown_to_everybody(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    let a =
        a.showing(Meta { owner: "a".into(), value: Some(Arc::from(*b"one")), ..Meta::default() });
    a.granted().await;
    b.queued().await;
    assert_eq!(a.amend(Amend::Value(Arc::from(*b"two"))).await, Amended::Done);
    assert_eq!(b.amend(Amend::Value(Arc::from(*b"\0\xff"))).await, Amended::Done);
    let line = b.line().await;
    let shown: Vec<_> = line.entries.iter().map(|e| e.meta.value.as_deref()).collect();
    assert_eq!(shown, [Some(&b"two"[..]), Some(b"\0\xff")]);
    assert_eq!(&*line.entries[0].meta.owner, "a", "the rest stays");
}

/// An observer learns of a new value.
pub async fn a_change_is_reported(case: &Case) {
    let [a, watcher] = case.mutexes("lock").await;
    a.granted().await;
    let seen = watcher.line().await.revision;
    tokio::join!(watcher.wakes_at_a_change(seen), a.amend(Amend::Value(Arc::from(*b"new"))));
}

fn value(text: &str) -> Amend {
    Amend::Value(Arc::from(text.as_bytes()))
}

async fn shown(contender: &Contender) -> Option<Arc<[u8]>> {
    contender.line().await.entries[0].meta.value.clone()
}

/// A change is applied only if its number is higher than the number of the last change. A second
/// copy of the last change is answered as done. The answer to an older change has the number of the
/// last change.
pub async fn a_late_copy_of_an_older_change_changes_nothing(case: &Case) {
    let [a] = case.mutexes("lock").await;
    a.granted().await;
    assert_eq!(a.amend_as(3, value("three")).await, Amended::Done);
    for (number, answer) in
        [(2, Amended::Older { last: 3 }), (1, Amended::Older { last: 3 }), (3, Amended::Done)]
    {
        assert_eq!(a.amend_as(number, value("late")).await, answer, "number {number}");
        assert_eq!(shown(&a).await.as_deref(), Some(&b"three"[..]), "number {number}");
    }
    assert_eq!(a.amend_as(7, value("seven")).await, Amended::Done);
    assert_eq!(shown(&a).await.as_deref(), Some(&b"seven"[..]));
}

/// The number belongs to the claim: a late copy through another client changes nothing either.
pub async fn a_late_copy_through_another_client_changes_nothing(case: &Case) {
    let (first, second) = (case.detached(Ttls::long()).await, case.client(Ttls::long()).await);
    let a = first.mutex(&case.name("lock"));
    let elsewhere = a.through(&second);
    a.granted().await;
    assert_eq!(a.amend_as(1, value("one")).await, Amended::Done);
    assert_eq!(elsewhere.amend_as(2, value("two")).await, Amended::Done);
    assert_eq!(a.amend_as(1, value("late")).await, Amended::Older { last: 2 });
    assert_eq!(elsewhere.amend_as(1, value("late")).await, Amended::Older { last: 2 });
    assert_eq!(shown(&a).await.as_deref(), Some(&b"two"[..]));
    assert_eq!(a.held().await, elsewhere.held().await, "it is the same claim");
    assert_eq!(
        shown(&a).await.as_deref(),
        Some(&b"two"[..]),
        "a renewal brings no older value back"
    );
    assert_eq!(a.amend_as(3, value("three")).await, Amended::Done);
    assert_eq!(shown(&elsewhere).await.as_deref(), Some(&b"three"[..]));
}

/// Changes of all kinds have one series of numbers.
pub async fn changes_of_all_kinds_are_numbered_together(case: &Case) {
    let writer = case.writer("lock").await;
    writer.granted().await;
    assert_eq!(writer.amend_as(2, value("two")).await, Amended::Done);
    assert_eq!(writer.amend_as(1, Amend::Lower(1)).await, Amended::Older { last: 2 });
    case.reader("lock").await.trying().busy().await;
    assert_eq!(writer.amend_as(4, Amend::Lower(1)).await, Amended::Done);
    assert_eq!(writer.amend_as(3, value("late")).await, Amended::Older { last: 4 });
    let line = writer.line().await;
    assert_eq!(
        (line.entries[0].weight, line.entries[0].meta.value.as_deref()),
        (1, Some(&b"two"[..]))
    );
    case.reader("lock").await.trying().granted().await;
}

/// A minimum hold has a number too, even if the minimum hold changes nothing else. A late copy
/// begins no minimum hold.
pub async fn a_minimum_hold_is_numbered_too(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    assert_eq!(a.amend_as(2, Amend::MinHold(Duration::ZERO)).await, Amended::Done);
    assert_eq!(a.amend_as(1, value("late")).await, Amended::Older { last: 2 });
    assert_eq!(
        a.amend_as(1, Amend::MinHold(Duration::from_secs(600))).await,
        Amended::Older { last: 2 }
    );
    assert_eq!(shown(&a).await, None);
    a.release().await;
    b.trying().granted().await;
}

/// A claim that replaces another one has had no change.
pub async fn the_changes_of_a_replacement_are_numbered_from_the_beginning(case: &Case) {
    let reader = case.reader("lock").await;
    let writer = reader.client.mutex(&reader.claim.key.name).replacing(&reader);
    reader.granted().await;
    assert_eq!(reader.amend_as(9, value("reader")).await, Amended::Done);
    writer.granted().await;
    assert_eq!(writer.amend_as(1, value("writer")).await, Amended::Done);
    assert_eq!(shown(&writer).await.as_deref(), Some(&b"writer"[..]));
}
