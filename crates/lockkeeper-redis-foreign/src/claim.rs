//! Claims the lock, and changes claims.

use super::layout::{self, Holders, Layout};
use super::{ForeignRedisStore, fault};
use crate::store::{Amend, Amended, Claim, ClaimKey, MAX, Verdict, refusal};
use crate::{Error, Result};
use lockkeeper_core::Effect;

/// How many permits a claim may have. A script does something for each, and the scripts of Redisson
/// fail when 8000 permits have ended at once.
const MOST_PERMITS: u32 = 1000;

pub(super) async fn claim(store: &ForeignRedisStore, claim: &Claim) -> Result<Verdict> {
    let layout = store.0.layout;
    layout.capabilities().admits(claim.weight, claim.capacity)?;
    if layout == Layout::RedissonSemaphore && claim.weight > MOST_PERMITS {
        return Err(fault::too_many_permits(MOST_PERMITS));
    }
    let (verdict, holders) = once(store, claim).await?;
    // Readers that have died are in the way of a writer for as long as others read.
    let is_writer = store.0.layout == Layout::RedissonRw && claim.weight == MAX;
    match holders.filter(|_| is_writer) {
        Some(holders) if sweep(store, claim, &holders).await? > 0 => {
            Ok(once(store, claim).await?.0)
        }
        _ => Ok(verdict),
    }
}

async fn once(store: &ForeignRedisStore, claim: &Claim) -> Result<(Verdict, Option<Holders>)> {
    let (layout, claims) = (store.0.layout, &store.0.session_claims);
    let request = layout::claim(layout, claim, store.messages(), store.0.adopt_ttl);
    claims.claim(claim, store.0.clock.now());
    let refused = |error: &Error| {
        if error.effect() == Effect::None {
            claims.refused(&claim.key);
        }
    };
    let read = |value: &_| layout::claim_answer(layout, claim, value);
    let asked = store.ask(&store.keys(&claim.key.name), request, read);
    let (verdict, holders) = asked.inspect_err(refused)?.await.inspect_err(refused)?;
    claims.answered(&claim.key);
    if matches!(verdict, Verdict::Busy { .. }) {
        claims.left_no_trace(&claim.key);
    }
    Ok((verdict, holders))
}

/// Removes the readers of this list that have died. Returns how many there were.
async fn sweep(store: &ForeignRedisStore, claim: &Claim, holders: &Holders) -> Result<u32> {
    let readers: Vec<_> = holders.readers().map(<[u8]>::to_vec).collect();
    if readers.is_empty() {
        return Ok(0);
    }
    let keys = store.keys(&claim.key.name);
    let request = layout::sweep(&keys, &readers, store.messages());
    store.ask(&keys, request, layout::swept_answer)?.await
}

pub(super) async fn amend(
    store: &ForeignRedisStore,
    key: &ClaimKey,
    number: u64,
    change: &Amend,
) -> Result<Amended> {
    let layout = store.0.layout;
    let request = layout::amend(layout, key, store.messages(), number, change)
        .ok_or_else(refusal::no_min_hold)?;
    let read = |value: &_| layout::amend_answer(layout, key, value);
    store.ask(&store.keys(&key.name), request, read)?.await
}
