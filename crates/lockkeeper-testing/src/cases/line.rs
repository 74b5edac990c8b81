//! The order of the line, and its listing.

use crate::Case;

/// The lock goes from one claim to the next in the order of their arrival.
pub async fn the_lock_is_handed_on_in_order(case: &Case) {
    let all = case.mutexes::<5>("lock").await;
    all[0].granted().await;
    for waiter in &all[1..] {
        waiter.queued().await;
    }
    for (i, holder) in all.iter().enumerate() {
        holder.granted().await;
        let rest: Vec<_> = all[i..].iter().collect();
        holder.sees(&rest, 1).await;
        holder.release().await;
    }
    all[0].sees(&[], 0).await;
}

/// A later claim overtakes no earlier one, also not at the moment of the hand-off.
pub async fn nobody_overtakes_at_the_hand_off(case: &Case) {
    let [a, b, c] = case.mutexes("lock").await;
    a.granted().await;
    b.queued().await;
    a.release().await;
    c.clone().trying().busy().await;
    c.queued().await;
    b.granted().await;
    b.sees(&[&b, &c], 1).await;
}

/// A waiter that leaves from the middle changes nothing for the others.
pub async fn a_waiter_may_leave_from_the_middle(case: &Case) {
    let [a, b, c] = case.mutexes("lock").await;
    a.granted().await;
    b.queued().await;
    c.queued().await;
    b.release().await;
    a.sees(&[&a, &c], 1).await;
    a.release().await;
    c.granted().await;
}

/// The line shows the holders and the waiters, each with its `meta` and its lifetime.
pub async fn it_shows_what_is_there(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    let token = a.granted().await;
    b.queued().await;
    let line = a.line().await;
    let [holder, waiter] = &line.entries[..] else { panic!("{line:?}") };
    assert_eq!((holder.id, holder.granted, holder.token), (a.id(), true, Some(token)));
    assert_eq!((waiter.id, waiter.granted), (b.id(), false));
    assert!(waiter.token.is_none_or(|later| later > token));
    assert_eq!((holder.weight, waiter.weight), (a.claim.weight, b.claim.weight));
    assert!(holder.expires_in.is_none_or(|lease| lease <= a.ttls().ttl));
    assert!(waiter.expires_in.is_none_or(|lease| lease <= a.ttls().ttl));
    assert!(holder.broken.is_none() && waiter.broken.is_none());
    assert_eq!(line.capacity(), Some(a.claim.capacity));
    assert!(line.last_token.is_none_or(|last| last >= token));
}

/// An empty line shows no claims, even if it was used before.
pub async fn an_empty_line_shows_nobody(case: &Case) {
    let [a] = case.mutexes("lock").await;
    assert!(a.line().await.entries.is_empty());
    assert_eq!(a.line().await.capacity(), None);
    a.granted().await;
    a.release().await;
    assert!(a.line().await.entries.is_empty());
    assert_eq!(a.line().await.capacity(), None);
}

/// A look changes nothing, and two looks at the same line return the same revision.
pub async fn looking_changes_nothing(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    b.queued().await;
    let first = a.line().await;
    let second = b.line().await;
    assert_eq!(first.revision, second.revision);
    a.sees(&[&a, &b], 1).await;
}

/// The revision changes with each change of the line.
pub async fn the_revision_changes_with_the_line(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    let mut seen = vec![a.line().await.revision];
    let mut look = async |what: &str| {
        let now = a.line().await.revision;
        assert!(!seen.contains(&now), "{what}: the revision is one that was there before");
        seen.push(now);
    };
    a.granted().await;
    look("a claim is granted").await;
    b.queued().await;
    look("a claim joins").await;
    a.release().await;
    look("a claim leaves").await;
    b.granted().await;
    b.release().await;
    look("the last claim leaves").await;
}
