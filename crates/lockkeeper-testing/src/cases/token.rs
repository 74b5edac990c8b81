//! Tokens: they are in range, one for each claim, and never go back.

use crate::Case;
use lockkeeper::store::{Evict, Target, Wake};

/// Tokens leave room for the epoch above them, and none is 0.
pub async fn they_are_in_range(case: &Case) {
    let [a] = case.mutexes("lock").await;
    let token = a.granted().await;
    assert!((1..1 << 54).contains(&token), "{token}");
}

/// Each holder has a higher token than the holder before it, even if they follow one another
/// quickly.
pub async fn they_rise_over_releases(case: &Case) {
    let [a] = case.mutexes("lock").await;
    let mut last = 0;
    for _ in 0..20 {
        let next = a.with_new_id();
        let token = next.granted().await;
        assert!(token > last, "{token} after {last}");
        last = token;
        next.release().await;
    }
}

/// Tokens rise along the line: a later claim has the higher token, after a hand-off too.
pub async fn they_rise_along_the_line(case: &Case) {
    let all = case.mutexes::<4>("lock").await;
    let mut last = all[0].granted().await;
    for waiter in &all[1..] {
        waiter.queued().await;
    }
    for pair in all.windows(2) {
        pair[0].release().await;
        let token = pair[1].granted().await;
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

/// A token is higher than the token of a holder that has expired.
pub async fn they_rise_over_expiry(case: &Case) {
    let silent = case.mutex("lock", case.short()).await;
    let next = case.writer("lock").await;
    let old = silent.granted().await;
    case.pass(silent.ttls().ttl * 2).await;
    let new = next.granted().await;
    assert!(new > old, "{new} after {old}");
}

/// A token is higher than the token of a holder whose session was closed.
pub async fn they_rise_over_a_close(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    let old = a.granted().await;
    a.client.store.close(&a.client.session, &[]).await.unwrap();
    let new = b.granted().await;
    assert!(new > old, "{new} after {old}");
}

/// A token is higher than the token of a holder whose lock was broken.
pub async fn they_rise_over_a_break(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    let old = a.granted().await;
    let admin = a.client.store.admin().unwrap();
    admin.evict(&a.claim.key.name, &Target::Token(old), Evict::Now, "op", "test").await.unwrap();
    let new = b.granted().await;
    assert!(new > old, "{new} after {old}");
}

/// One claim has one token in all answers: claim, wait, renewal, listing.
pub async fn one_claim_has_one_token(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    a.granted().await;
    let seen = b.queued().await;
    a.release().await;
    let token = b.wakes_with_its_grant(seen).await;
    assert_eq!(b.granted().await, token, "a claim sent again");
    assert_eq!(b.held().await, token, "a renewal");
    assert_eq!(b.wait(seen, crate::Ttls::long().ttl).await, Wake::Granted { token }, "a wait");
    let line = b.line().await;
    assert_eq!(line.entries[0].token, Some(token), "the listing");
    assert!(line.last_token.is_none_or(|last| last == token), "the highest one given out");
}

/// Each holder of a shared lock has a token of its own, and a writer after them has a higher token.
pub async fn readers_have_tokens_of_their_own(case: &Case) {
    let (r1, r2) = (case.reader("lock").await, case.reader("lock").await);
    let writer = case.writer("lock").await;
    let (first, second) = (r1.granted().await, r2.granted().await);
    assert!(second > first);
    writer.queued().await;
    r2.release().await;
    r1.release().await;
    assert!(writer.granted().await > second);
}

/// The store remembers the highest token while the line is empty, if it remembers tokens at all.
pub async fn the_last_one_is_remembered(case: &Case) {
    let [a, b] = case.mutexes("lock").await;
    let token = a.granted().await;
    a.release().await;
    assert!(b.line().await.last_token.is_none_or(|last| last == token));
    assert!(b.granted().await > token);
}
