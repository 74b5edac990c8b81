//! Claims the lock or a place in the line, and changes claims.

use super::RedisStore;
use super::layout::{self, Keys};
use crate::store::{Amend, Amended, Claim, ClaimKey, Verdict};
use crate::{Error, Result};
use lockkeeper_core::Effect;

pub(super) async fn claim(store: &RedisStore, claim: &Claim) -> Result<Verdict> {
    let (keys, waiting, servers) =
        (Keys::of(&claim.key.name), &store.0.pushed.waiting, &store.0.servers);
    let channel = servers.channel(&keys);
    let sent = waiting.asks(claim.key.id);
    store.0.session_claims.claim(claim, store.0.clock.now());
    let asked = store.ask(&claim.key.name, layout::claim(claim, &store.0.client, &channel));
    let refused = |error: &Error| {
        if error.effect() == Effect::None {
            store.0.session_claims.refused(&claim.key);
        }
    };
    let said = asked.inspect_err(refused)?.await.inspect_err(refused)?;
    let verdict = said.read(|value| layout::claim_answer(claim, value)).inspect_err(refused)?;
    store.0.session_claims.answered(&claim.key);
    match verdict {
        Verdict::Queued { .. } => {
            sent.queued(&claim.key, servers.listen(&keys));
        }
        Verdict::Granted { .. } => {
            waiting.left(claim.key.id);
            servers.replicated(&said.proof(), &keys).await?;
        }
        Verdict::Busy { .. } => {
            waiting.left(claim.key.id);
            store.0.session_claims.left_no_trace(&claim.key);
        }
        // A claim that an administrator has marked lives on until its lease expires. The close of
        // the session withdraws it.
        Verdict::Gone => waiting.left(claim.key.id),
    }
    Ok(verdict)
}

pub(super) async fn amend(
    store: &RedisStore,
    key: &ClaimKey,
    number: u64,
    change: &Amend,
) -> Result<Amended> {
    let said = store.ask(&key.name, layout::amend(key, number, change))?.await?;
    let amended = said.read(|value| layout::amend_answer(key, value))?;
    if amended == Amended::Done && matches!(change, Amend::MinHold(_)) {
        // A minimum hold is a promise about the time after the holder. The other changes are no
        // promise.
        store.0.servers.replicated(&said.proof(), &Keys::of(&key.name)).await?;
    }
    Ok(amended)
}
