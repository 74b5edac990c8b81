//! Claims the lock, and changes claims.

use super::ForeignRedisStore;
use super::layout::{self, Holders, Layout};
use crate::random::jittered;
use crate::store::{Amend, Amended, Claim, ClaimKey, Verdict, refusal};
use crate::{Error, ErrorKind, Result};
use lockkeeper_core::Effect;

/// How many permits a claim may have. A script does something for each, and the scripts of Redisson
/// fail when 8000 permits have ended at once.
const MOST_PERMITS: u32 = 1000;

pub(super) async fn claim(store: &ForeignRedisStore, claim: &Claim) -> Result<Verdict> {
    let layout = store.0.layout;
    layout.capabilities().admits(claim.weight, claim.capacity)?;
    if layout == Layout::RedissonSemaphore && claim.weight > MOST_PERMITS {
        let problem = format!("a claim of this layout has {MOST_PERMITS} permits at most");
        return Err(Error::new(ErrorKind::Unsupported, problem).with_remedy("several claims"));
    }
    let (claims, now) = (&store.0.session_claims, store.0.clock.now());
    // A close finds the claim from now on, also while it pauses.
    claims.claim(claim, now);
    let pause = store.0.turns.pause(&claim.key.name, now);
    if !pause.is_zero() {
        store.0.turns.pauses(claim.key.id);
        store.0.clock.sleep(jittered(pause)).await;
        if !store.0.turns.ends_pause(&claim.key.id) {
            return Ok(Verdict::Gone);
        }
    }
    let (mut verdict, holders) = once(store, claim).await?;
    // Readers that have died are in the way of a writer for as long as others read, and no waiter
    // sees them. A close finds the claim until its last copy is answered.
    let readers = holders.iter().flat_map(Holders::readers).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let swept = sweep(store, &claim.key, &readers).await;
    if matches!(swept, Ok(1..)) {
        claims.claim(claim, store.0.clock.now());
        claims.answered(&claim.key);
        (verdict, _) = once(store, claim).await?;
    }
    claims.answered(&claim.key);
    if matches!(verdict, Verdict::Busy { .. }) {
        claims.left_no_trace(&claim.key);
    }
    swept.map(|_| verdict)
}

/// Sends a claim that the session has. The answer is not noted yet.
async fn once(store: &ForeignRedisStore, claim: &Claim) -> Result<(Verdict, Option<Holders>)> {
    let (layout, claims) = (store.0.layout, &store.0.session_claims);
    let request = layout::claim(layout, claim, store.messages(), store.0.adopt_ttl);
    let refused = |error: &Error| {
        if error.effect() == Effect::None {
            claims.refused(&claim.key);
        }
    };
    let read = |value: &_| layout::claim_answer(layout, claim, value);
    let asked = store.ask(&store.keys(&claim.key.name), request, read);
    asked.inspect_err(refused)?.await.inspect_err(refused)
}

/// Removes the readers of this list that have died. Returns how many there were.
pub(super) async fn sweep(
    store: &ForeignRedisStore,
    key: &ClaimKey,
    readers: &[Vec<u8>],
) -> Result<u32> {
    if store.0.layout != Layout::RedissonRw || readers.is_empty() {
        return Ok(0);
    }
    let keys = store.keys(&key.name);
    let request = layout::sweep(&keys, readers, store.messages());
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
