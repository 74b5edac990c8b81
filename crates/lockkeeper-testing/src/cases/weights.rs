//! Readers, writers and permits: the claims that fit beside each other, and the claims that have to
//! wait although they would fit.

use std::time::Duration;

use crate::{Case, Contender};
use lockkeeper::ErrorKind;
use lockkeeper::store::{Evict, LiveState, MAX, Renewal, Target, Verdict};

/// Readers hold the lock together.
pub async fn readers_share(case: &Case) {
    let (r1, r2, r3) =
        (case.reader("lock").await, case.reader("lock").await, case.reader("lock").await);
    r1.granted().await;
    r2.granted().await;
    r3.clone().trying().granted().await;
    r1.sees(&[&r1, &r2, &r3], 3).await;
}

/// A writer holds the lock alone: neither readers nor writers hold it too.
pub async fn a_writer_is_alone(case: &Case) {
    let (writer, another) = (case.writer("lock").await, case.writer("lock").await.trying());
    let reader = case.reader("lock").await.trying();
    writer.granted().await;
    reader.busy().await;
    another.busy().await;
    writer.release().await;
    reader.granted().await;
    another.busy().await;
}

/// A writer waits for the readers before it, and readers that come later wait for the writer, so
/// that it does not starve.
pub async fn a_writer_is_not_starved(case: &Case) {
    let (r1, r2) = (case.reader("lock").await, case.reader("lock").await);
    let writer = case.writer("lock").await;
    r1.granted().await;
    writer.queued().await;
    r2.queued().await;
    r1.sees(&[&r1, &writer, &r2], 1).await;
    r1.release().await;
    writer.granted().await;
    r2.queued().await;
    writer.release().await;
    r2.granted().await;
}

/// An attempt that does not join the line does not overtake a waiter, even if it would fit.
pub async fn a_try_does_not_overtake(case: &Case) {
    let (r1, r2) = (case.reader("lock").await, case.reader("lock").await);
    let writer = case.writer("lock").await;
    r1.granted().await;
    writer.queued().await;
    r2.trying().busy().await;
    r1.sees(&[&r1, &writer], 1).await;
}

/// The store grants all permits of the semaphore, and no more.
pub async fn permits_are_counted(case: &Case) {
    let [a, b, c, d] = permits(case, [1, 1, 1, 1]).await;
    a.granted().await;
    b.granted().await;
    c.granted().await;
    d.clone().trying().busy().await;
    d.queued().await;
    b.release().await;
    d.granted().await;
    a.sees(&[&a, &c, &d], 3).await;
}

/// The granted claims are the front of the line: a small claim waits behind a large claim although
/// the small claim would fit. If the small claim were granted first, the large claim would later
/// exceed the capacity.
pub async fn a_large_claim_holds_up_smaller_ones(case: &Case) {
    let [first, second, large, small] = permits(case, [1, 1, 2, 1]).await;
    first.granted().await;
    second.granted().await;
    large.queued().await;
    small.queued().await;
    first.sees(&[&first, &second, &large, &small], 2).await;
    second.release().await;
    large.granted().await;
    small.queued().await;
    first.sees(&[&first, &large, &small], 2).await;
    first.release().await;
    small.granted().await;
}

/// Several claims are granted at once when enough permits are given back.
pub async fn a_release_of_many_permits_lets_many_in(case: &Case) {
    let [all, a, b, c] = permits(case, [3, 1, 1, 1]).await;
    let more = case.permits("pool", 1, 3).await;
    all.granted().await;
    let seen = [a.queued().await, b.queued().await, c.queued().await];
    more.queued().await;
    let release = async {
        // By then the claims wait, and only the store wakes them, since no client renews them.
        case.pass(Duration::from_millis(200)).await;
        all.release().await;
    };
    let woken = async {
        tokio::join!(
            a.wakes_with_its_grant(seen[0]),
            b.wakes_with_its_grant(seen[1]),
            c.wakes_with_its_grant(seen[2])
        );
    };
    tokio::join!(woken, release);
    a.sees(&[&a, &b, &c, &more], 3).await;
}

/// The number of claims ahead counts holders and waiters.
pub async fn the_number_ahead_counts_everybody(case: &Case) {
    let [a, b, c, d] = permits(case, [2, 1, 3, 1]).await;
    a.granted().await;
    b.granted().await;
    assert!(matches!(c.claim().await, Verdict::Queued { ahead: 2, .. }));
    assert!(matches!(d.claim().await, Verdict::Queued { ahead: 3, .. }));
}

/// A reader that is alone becomes a writer, with a new token in the place of the old claim.
pub async fn a_lone_reader_can_be_replaced(case: &Case) {
    let reader = case.reader("lock").await;
    let writer = upgrade_of(&reader);
    let old = reader.granted().await;
    let new = writer.granted().await;
    assert!(new > old, "{new} after {old}");
    assert_eq!(writer.granted().await, new, "sent again");
    writer.sees(&[&writer], 1).await;
    assert_eq!(writer.line().await.entries[0].weight, MAX);
    let live = [reader.live(LiveState::Granted), writer.live(LiveState::Granted)];
    let answers = reader.client.renew(&live).await.unwrap().claims;
    assert_eq!(
        answers,
        [Renewal::Lost(None), Renewal::Held { token: new, ttl: writer.ttls().ttl }]
    );
    case.reader("lock").await.trying().busy().await;
}

/// A claim of another kind cannot replace a claim.
pub async fn a_replacement_is_of_the_same_kind(case: &Case) {
    let [permit] = permits(case, [1]).await;
    let mut other = permit.with_new_id().replacing(&permit);
    other.claim.capacity = MAX;
    permit.granted().await;
    other.refused(ErrorKind::Mismatch).await;
    permit.sees(&[&permit], 1).await;
}

/// A reader beside another reader is not replaced: the reader keeps its claim, and the attempt
/// leaves nothing.
pub async fn a_reader_in_company_is_not_replaced(case: &Case) {
    let (reader, other) = (case.reader("lock").await, case.reader("lock").await);
    let token = reader.granted().await;
    other.granted().await;
    upgrade_of(&reader).busy().await;
    assert_eq!(reader.held().await, token);
    reader.sees(&[&reader, &other], 2).await;
}

/// A reader before a waiter is not replaced: the line would have a new token before the waiter's
/// token.
pub async fn a_reader_before_a_waiter_is_not_replaced(case: &Case) {
    let (reader, waiter) = (case.reader("lock").await, case.writer("lock").await);
    let token = reader.granted().await;
    waiter.queued().await;
    upgrade_of(&reader).busy().await;
    assert_eq!(reader.held().await, token);
    reader.sees(&[&reader, &waiter], 1).await;
}

/// A broken reader is not replaced: no claim of its client may take its place.
pub async fn a_broken_reader_is_not_replaced(case: &Case) {
    let reader = case.reader("lock").await;
    let token = reader.granted().await;
    let admin = reader.client.store.admin().unwrap();
    admin
        .evict(&reader.claim.key.name, &Target::Token(token), Evict::Mark, "somebody", "stuck")
        .await
        .unwrap();
    upgrade_of(&reader).busy().await;
}

fn upgrade_of(reader: &Contender) -> Contender {
    let mut writer = reader.with_new_id().replacing(reader).trying();
    writer.claim.weight = MAX;
    writer
}

async fn permits<const N: usize>(case: &Case, weights: [u32; N]) -> [Contender; N] {
    let mut contenders = Vec::new();
    for weight in weights {
        contenders.push(case.permits("pool", weight, 3).await);
    }
    contenders.try_into().expect("as many as weights")
}
