//! Taking a claim out of its line: exactly that claim, by the create revision of its key.

use std::time::Duration;

use bytes::Bytes;

use crate::client::OrderGuard;
use crate::keep::Left;
use crate::layout::transaction::{
    changed, delete, delete_made, deleted, get, inners, nested, only, put, ranges, transaction,
};
use crate::layout::{Contender, Leaver, LeaverState};
use crate::sessions::Session;
use crate::store::{ClaimId, ClaimKey, Withdrawal};
use crate::wire::messages::{RequestOp, TxnResponse};
use crate::{ErrorKind, EtcdStore, Result, fault};

/// How often a claim is withdrawn again because another client changes it meanwhile.
const TRIES: u32 = 16;

pub(super) async fn withdraw(
    store: &EtcdStore,
    key: &ClaimKey,
    tombstone: Option<Duration>,
) -> Result<Withdrawal> {
    let known = store.0.sessions.known_in_order(&key.session);
    if let Some(session) = known.filter(|session| !has_to_read(store, session, key)) {
        return withdraw_own(store, &session, key, tombstone, None).await;
    }
    // Claims wait for a withdrawal that has to read first, whether its caller polls it or not.
    let (own, key) = (store.clone(), key.clone());
    let withdrawing =
        store.0.runtime.carry_on(async move { withdraw_after_a_read(&own, &key, tombstone).await });
    withdrawing.await.unwrap_or_else(|| Err(fault::ended()))
}

/// Whether a withdrawal has to read the claim before it can delete the claim: another client may
/// have changed the claim, or the minimum hold of the claim may not be over.
fn has_to_read(store: &EtcdStore, session: &Session, key: &ClaimKey) -> bool {
    let slot = session.claims.slot_of(&store.0.lines, key);
    session.is_shared() || store.may_be_kept(&slot, session.claims.knows_timers())
}

async fn withdraw_after_a_read(
    store: &EtcdStore,
    key: &ClaimKey,
    tombstone: Option<Duration>,
) -> Result<Withdrawal> {
    let session = match store.session_in_order(&key.session).await {
        // No key of the session is there, and no claim of it is admitted. But the claim may be sent
        // in another session.
        Err(error) if error.kind() == ErrorKind::SessionLost => {
            remove_and_mark_gone(store, None, key.id, tombstone).await?;
            return Ok(Withdrawal::Absent);
        }
        session => session?,
    };
    // The next claim of this client on the name has to come after this request, which has to read
    // before it can leave.
    let guard = store.0.order.guard(&key.name);
    match session.is_shared() {
        true => withdraw_as_read(store, &session, key, tombstone, &guard).await,
        false => withdraw_own(store, &session, key, tombstone, Some(&guard)).await,
    }
}

/// Withdraws a claim that no other client changes. A withdrawal that has to read first takes the
/// turn of the name.
async fn withdraw_own(
    store: &EtcdStore,
    session: &Session,
    key: &ClaimKey,
    tombstone: Option<Duration>,
    order: Option<&OrderGuard>,
) -> Result<Withdrawal> {
    let slot = session.claims.slot_of(&store.0.lines, key);
    let made = session.claims.left(key.id).map_or(slot.created, |state| state.created);
    let (mut left, mut turn) = (Left::Nothing, None);
    if let Some(order) = order {
        turn = Some(order.gate.lock().await);
        left = store.leave_kept(session, key, &slot).await?;
    }
    // The next claim of this client deletes the key if this request is late, but not a key that
    // stays for its minimum hold.
    let created = if left == Left::Nothing { made } else { 0 };
    let leaves = store
        .0
        .order
        .leave(&key.name, Leaver { key: slot.at.clone(), state: LeaverState::Created(created) });
    drop(turn.take());
    let removal = (left == Left::Nothing).then(|| delete_made(&slot.at, made));
    let answer = remove_and_mark_gone(store, removal, key.id, tombstone).await;
    let (leaves, answer) = leaves.answered(answer)?;
    // After this another claim may get the slot, and no claim of this client deletes its key.
    let is_deleted = leaves.was_deleted(deleted(&answer.responses) > 0).await?;
    if is_deleted {
        // No key is on the timers any more, which a new leader of etcd may have lengthened.
        slot.timers().for_each(|timer| store.revoke_unneeded(timer));
    }
    if tombstone.is_some() || made == 0 || left != Left::Nothing {
        // The key stays for its minimum hold; or a late copy of the claim may put it, or a late
        // copy of this request, which did not name its revision, may delete it.
        session.claims.retires_slot(key.id);
    }
    session.claims.releases_slot(key, store.0.clock.now());
    let removed = is_deleted || left == Left::Kept;
    Ok(if removed { Withdrawal::Removed } else { Withdrawal::Absent })
}

/// A claim that another client of the session may change at any moment, to begin its minimum hold
/// for example. So only the state that was read is deleted; of a changed claim, the new state.
async fn withdraw_as_read(
    store: &EtcdStore,
    session: &Session,
    key: &ClaimKey,
    tombstone: Option<Duration>,
    order: &OrderGuard,
) -> Result<Withdrawal> {
    let slot = session.claims.slot_of(&store.0.lines, key);
    session.claims.left(key.id);
    let mut turn = Some(order.gate.lock().await);
    for _ in 0..TRIES {
        let own = store.claim_in(session, &slot, key.id).await?;
        let left = match &own {
            Some(own) => match store.leave_as_read(own, &slot).await? {
                Some(left) => left,
                None => continue,
            },
            None => Left::Nothing,
        };
        let state = own.filter(|_| left == Left::Nothing).map_or(0, |own| own.changed);
        let leaves = store
            .0
            .order
            .leave(&key.name, Leaver { key: slot.at.clone(), state: LeaverState::Changed(state) });
        drop(turn.take());
        let removal = (left == Left::Nothing).then(|| delete_unchanged(&slot.at, state));
        let answer = remove_and_mark_gone(store, removal, key.id, tombstone).await;
        let (leaves, answer) = leaves.answered(answer)?;
        let is_deleted = deleted(&answer.responses) > 0;
        let is_claim =
            |found: Contender| found.id == Some(key.id) && session.may_have_made(found.created);
        if inners(answer.responses).filter_map(found_instead).any(is_claim) {
            continue;
        }
        let is_deleted = leaves.was_deleted(is_deleted).await?;
        if is_deleted {
            // No key is on the timers any more, which a new leader of etcd may have lengthened.
            slot.timers().for_each(|timer| store.revoke_unneeded(timer));
        }
        session.claims.releases_slot(key, store.0.clock.now());
        let removed = is_deleted || left == Left::Kept;
        return Ok(if removed { Withdrawal::Removed } else { Withdrawal::Absent });
    }
    Err(fault::always_changes())
}

/// Deletes the key if it is in this state, and reads it otherwise.
fn delete_unchanged(key: &Bytes, state: i64) -> RequestOp {
    nested(transaction(vec![changed(key, state)], vec![delete(key)], vec![get(key)]))
}

/// The key that was not deleted, since it was in another state.
fn found_instead(answer: TxnResponse) -> Option<Contender> {
    only(ranges(answer.responses).next()).filter(|_| !answer.succeeded).map(Contender::read)
}

/// Removes a claim, and puts its tombstone, which stands for so long whatever becomes of the
/// session. Both are one transaction, so a late copy of the claim comes before both or after both.
async fn remove_and_mark_gone(
    store: &EtcdStore,
    removal: Option<RequestOp>,
    id: ClaimId,
    tombstone: Option<Duration>,
) -> Result<TxnResponse> {
    let (gone, mut fresh, mut lasts) = (store.0.lines.gone(id), false, tombstone);
    loop {
        let lease = match lasts {
            None => None,
            Some(lasts) => match store.tombstone_lease(lasts, fresh).await {
                // A full database refuses every late copy of the claim too.
                Err(error) if error.is_no_space() => None,
                lease => Some(lease.map_err(|error| fault::of(error).without_effect())?),
            },
        };
        let ops: Vec<_> =
            removal.iter().cloned().chain(lease.map(|on| put(&gone, Bytes::new(), on))).collect();
        if ops.is_empty() {
            return Ok(TxnResponse::default());
        }
        match store.txn(transaction(Vec::new(), ops, Vec::new())).await {
            Err(error) if lease.is_some() && !fresh && error.is_no_lease() => fresh = true,
            // A full database refuses every late copy of the claim. But the claim may be there, so
            // it is deleted.
            Err(error) if lease.is_some() && error.is_no_space() => lasts = None,
            answer => return answer.map_err(fault::of),
        }
    }
}
