//! A semaphore whose size changes while it is in use: the claims of one line name different
//! capacities. The holders never exceed the capacity that any of them names.

use std::time::Duration;

use crate::{Case, Contender};

/// Claims with these weights and capacities, as `(weight, of)`.
async fn pool<const N: usize>(case: &Case, claims: [(u32, u32); N]) -> [Contender; N] {
    let mut contenders = Vec::new();
    for (weight, of) in claims {
        contenders.push(case.permits("pool", weight, of).await);
    }
    contenders.try_into().expect("as many as claims")
}

/// The size goes from 3 to 5. Claims that name 5 keep to 3 beside a holder that names 3, and to 5
/// when that holder has left.
pub async fn a_larger_number_counts_when_the_smaller_has_left(case: &Case) {
    let [a, b, c, d, e, f] = pool(case, [(2, 3), (1, 3), (1, 5), (3, 5), (1, 5), (1, 5)]).await;
    a.granted().await;
    b.granted().await;
    c.queued().await;
    a.release().await;
    c.granted().await;
    d.queued().await;
    e.queued().await;
    c.sees(&[&b, &c, &d, &e], 2).await;
    b.release().await;
    d.granted().await;
    e.granted().await;
    f.clone().trying().busy().await;
    c.sees(&[&c, &d, &e], 3).await;
}

/// The size goes from 5 to 3. A claim that names 3 waits until the holders have no more than 3
/// permits together with it. From then on the limit is 3.
pub async fn a_smaller_number_waits_until_it_is_kept_to(case: &Case) {
    let [a, b, c, d, e] = pool(case, [(3, 5), (2, 5), (1, 3), (2, 5), (1, 5)]).await;
    a.granted().await;
    b.granted().await;
    c.queued().await;
    b.release().await;
    c.queued().await;
    c.sees(&[&a, &c], 1).await;
    a.release().await;
    c.granted().await;
    d.granted().await;
    e.clone().trying().busy().await;
    e.queued().await;
    c.sees(&[&c, &d, &e], 2).await;
}

/// Waiters that name a larger capacity do not raise the limit of the holder before them.
pub async fn a_larger_number_behind_lifts_no_limit(case: &Case) {
    let [holder, first, second, late] = pool(case, [(2, 3), (2, 10), (1, 100), (1, 3)]).await;
    holder.granted().await;
    first.queued().await;
    second.queued().await;
    late.clone().trying().busy().await;
    late.queued().await;
    holder.sees(&[&holder, &first, &second, &late], 1).await;
    holder.release().await;
    first.granted().await;
    second.granted().await;
    // With its own permit four permits would be held, and `late` names a capacity of 3.
    late.queued().await;
    second.release().await;
    late.granted().await;
}

/// A claim with a small capacity at the head of the queue is not overtaken by claims with a larger
/// capacity.
pub async fn a_small_number_at_the_head_is_not_overtaken(case: &Case) {
    let [holder, small, behind] = pool(case, [(2, 5), (1, 2), (1, 5)]).await;
    holder.granted().await;
    small.queued().await;
    behind.clone().trying().busy().await;
    behind.queued().await;
    holder.sees(&[&holder, &small, &behind], 1).await;
    holder.release().await;
    small.granted().await;
    behind.granted().await;
}

/// When a waiter with a small capacity gives up, the store grants all claims behind it that fit,
/// and wakes them.
pub async fn a_small_number_that_gives_up_lets_others_in(case: &Case) {
    let [holder, small, a, b, c] = pool(case, [(2, 4), (1, 2), (1, 4), (1, 5), (1, 5)]).await;
    holder.granted().await;
    small.queued().await;
    let seen = [a.queued().await, b.queued().await];
    c.queued().await;
    let leaving = async {
        case.pass(Duration::from_millis(200)).await;
        small.release().await;
    };
    let woken =
        async { tokio::join!(a.wakes_with_its_grant(seen[0]), b.wakes_with_its_grant(seen[1])) };
    tokio::join!(woken, leaving);
    holder.sees(&[&holder, &a, &b, &c], 3).await;
}

/// When a waiter with a small capacity expires, the store grants the claims behind it.
pub async fn a_small_number_that_dies_waiting_lets_others_in(case: &Case) {
    let [holder, small, a, b] = pool(case, [(2, 5), (1, 2), (1, 5), (1, 5)]).await;
    holder.granted().await;
    small.queued().await;
    a.queued().await;
    b.queued().await;
    case.keep_alive(small.ttls().wait_ttl * 3, &[&holder, &a, &b]).await;
    a.granted().await;
    b.granted().await;
    holder.sees(&[&holder, &a, &b], 3).await;
}

/// A holder with a small capacity keeps many claims waiting. When the holder leaves, the store
/// grants and wakes the claims together.
pub async fn a_small_number_that_leaves_lets_many_in(case: &Case) {
    let [small, a, b, c, more] = pool(case, [(1, 1), (1, 3), (1, 4), (1, 5), (1, 5)]).await;
    small.granted().await;
    let seen = [a.queued().await, b.queued().await, c.queued().await];
    more.queued().await;
    let leaving = async {
        case.pass(Duration::from_millis(200)).await;
        small.release().await;
    };
    let woken = async {
        tokio::join!(
            a.wakes_with_its_grant(seen[0]),
            b.wakes_with_its_grant(seen[1]),
            c.wakes_with_its_grant(seen[2])
        );
    };
    tokio::join!(woken, leaving);
    a.sees(&[&a, &b, &c, &more], 3).await;
}

/// A small capacity counts for exactly as long as its holder has the lock, beside any other
/// holders.
pub async fn a_small_number_leaves_with_its_holder(case: &Case) {
    let [large, small, beside, waits, also] =
        pool(case, [(1, 5), (1, 3), (1, 5), (1, 5), (1, 5)]).await;
    large.granted().await;
    small.granted().await;
    beside.granted().await;
    waits.queued().await;
    also.queued().await;
    small.release().await;
    waits.granted().await;
    also.granted().await;
    large.sees(&[&large, &beside, &waits, &also], 4).await;
    // The capacity of a later claim counts too.
    let [again] = pool(case, [(1, 4)]).await;
    again.queued().await;
    beside.release().await;
    again.granted().await;
}

/// When a holder with a small capacity expires, its capacity no longer counts.
pub async fn a_small_number_dies_with_its_holder(case: &Case) {
    let ttls = case.short();
    let [large, waits, also] = pool(case, [(1, 5), (1, 5), (1, 5)]).await;
    let name = case.name("pool");
    let small = case.client(ttls).await.permits(&name, 1, 2);
    large.granted().await;
    small.granted().await;
    waits.queued().await;
    also.queued().await;
    case.keep_alive(ttls.ttl * 3, &[&large, &waits, &also]).await;
    waits.granted().await;
    also.granted().await;
    large.sees(&[&large, &waits, &also], 3).await;
}

/// A try is granted only within the capacities of all holders, and within its own capacity.
pub async fn a_try_keeps_to_everybodys_number(case: &Case) {
    let [small, large, own, fits] = pool(case, [(1, 2), (2, 5), (1, 1), (1, 5)]).await;
    small.granted().await;
    large.clone().trying().busy().await;
    own.trying().busy().await;
    let fits = fits.trying();
    fits.granted().await;
    small.sees(&[&small, &fits], 2).await;
    small.release().await;
    large.trying().granted().await;
}

/// A later claim with a smaller capacity takes nothing from the holders.
pub async fn what_is_granted_stays_granted(case: &Case) {
    let [a, b, small] = pool(case, [(2, 5), (2, 5), (1, 2)]).await;
    let tokens = [a.granted().await, b.granted().await];
    small.queued().await;
    assert_eq!([a.granted().await, b.granted().await], tokens);
    assert_eq!([a.held().await, b.held().await], tokens);
    a.sees(&[&a, &b, &small], 2).await;
}

/// The smallest capacity of the holders counts, and each claim shows its own capacity. The capacity
/// of a waiter does not count.
pub async fn the_number_that_counts_is_shown(case: &Case) {
    let [a, b, c, late] = pool(case, [(1, 5), (1, 3), (1, 4), (2, 2)]).await;
    a.granted().await;
    assert_eq!(a.line().await.capacity(), Some(5));
    b.granted().await;
    c.granted().await;
    late.queued().await;
    let line = a.line().await;
    assert_eq!(line.capacity(), Some(3));
    let own: Vec<u32> = line.entries.iter().map(|entry| entry.capacity).collect();
    assert_eq!(own, [5, 3, 4, 2]);
    b.release().await;
    assert_eq!(a.line().await.capacity(), Some(4));
    c.release().await;
    assert_eq!(a.line().await.capacity(), Some(5));
    a.release().await;
    late.granted().await;
    assert_eq!(late.line().await.capacity(), Some(2));
}

/// A claim that replaces the only holder counts with its own capacity.
pub async fn a_replacement_brings_its_own_number(case: &Case) {
    let [permit] = pool(case, [(1, 3)]).await;
    let mut other = permit.with_new_id().replacing(&permit);
    (other.claim.weight, other.claim.capacity) = (4, 5);
    let old = permit.granted().await;
    assert!(other.granted().await > old);
    assert_eq!(other.line().await.capacity(), Some(5));
    // The clients stay, since a claim may end with its client.
    let [one, another] = pool(case, [(1, 5), (1, 5)]).await.map(Contender::trying);
    one.granted().await;
    another.busy().await;
}
