//! Taking a claim out of its line: exactly that claim, by the create revision of its key.

use std::time::Duration;

use bytes::Bytes;

use super::keep::Left;
use super::layout::Incarnation;
use super::layout::transaction::{delete_made, deleted, put, transaction};
use super::sessions::Purpose;
use super::wire::WireError;
use super::wire::messages::{RequestOp, TxnResponse};
use super::{EtcdStore, fault, wire};
use crate::Result;
use crate::store::{ClaimKey, Live, SessionId, Store as _, Withdrawal};

pub(super) async fn withdraw(store: &EtcdStore, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
    let session = store.0.sessions.get(&key.session)?;
    let slot = session.slot_of(&store.0.lines, key);
    let is_known = session.knows(key.id);
    let state = session.left(key.id);
    let made = state.as_ref().map_or(slot.created, |state| state.created);
    let left = store.leave_kept(key, &slot, is_known).await?;
    // The next claim of this client deletes the key if this request is late, but not a key that
    // stays for its minimum hold.
    let created = if left == Left::Nothing { made } else { 0 };
    let leaves = store.0.order.leave(&key.name, Incarnation { key: slot.at.clone(), created });
    let removal = (left == Left::Nothing).then(|| delete_made(&slot.at, made));
    let (mut leases, gone) = (Vec::new(), store.0.lines.gone(key.id));
    if let Some(tombstone) = tombstone {
        // The tombstone lives as long as a late copy of the claim could join the line: on a lease
        // of the session or, if those have ended, on the timer of the claim.
        let hold = session.lease(Purpose::Hold).or_else(|| session.leases().first().copied());
        leases = slot.timers().chain(hold).collect();
        session.said_gone(gone.clone(), store.0.clock.now() + tombstone);
    }
    let answer = remove_and_mark_gone(store, removal, &gone, leases).await;
    let was_piggybacked = leaves.was_piggybacked() && state.is_some();
    let answer = answer.map_err(|error| match was_piggybacked {
        true => fault::of(error).with_unknown_effect(),
        false => fault::of(error),
    })?;
    // From now on the next claim does not delete the key: it is gone, and another claim may use the
    // slot.
    drop(leaves);
    if deleted(&answer.responses) > 0 {
        // No key is on the timers any more, which a new leader of etcd may have lengthened.
        slot.timers().for_each(|timer| store.revoke_unneeded(timer));
    }
    if tombstone.is_some() || made == 0 || left != Left::Nothing {
        // The key stays for its minimum hold; or a late copy of the claim may put it, or a late
        // copy of this request, which did not name its revision, may delete it.
        session.retires_slot(key.id);
    }
    session.releases_slot(key, store.0.clock.now());
    if session.ttl.is_none() {
        // Another client opened the session. This client knew only this claim in it.
        store.0.sessions.forget(&key.session);
    }
    let removed = deleted(&answer.responses) > 0 || was_piggybacked || left == Left::Kept;
    Ok(if removed { Withdrawal::Removed } else { Withdrawal::Absent })
}

/// Removes a claim, and puts its tombstone on the last of these leases that has not ended. Both are
/// one transaction, so a late copy of the claim comes before both or after both.
async fn remove_and_mark_gone(
    store: &EtcdStore,
    removal: Option<RequestOp>,
    gone: &Bytes,
    mut leases: Vec<i64>,
) -> Result<TxnResponse, WireError> {
    loop {
        let lease = leases.pop();
        let ops: Vec<_> = removal.iter().cloned().chain(lease.map(|on| put(gone, Bytes::new(), on))).collect();
        if ops.is_empty() {
            return Ok(TxnResponse::default());
        }
        match store.txn(transaction(Vec::new(), ops, Vec::new())).await {
            Err(error) if lease.is_some() && error.is_no_lease() => {}
            // A full database refuses every late copy of the claim. But the claim may be there, so
            // it is deleted.
            Err(error) if lease.is_some() && error.is_no_space() => leases.clear(),
            answer => return answer,
        }
    }
}

/// Ends the leases of a session, and the claims with them. Claims on other leases are withdrawn one by one.
pub(super) async fn close(store: &EtcdStore, session: &SessionId, live: &[Live]) -> Result<()> {
    let (session, id) = (store.0.sessions.get(session)?, session);
    // Under the gate no other call makes a lease for this session, and after it none will.
    let mut is_closed = session.gate.lock().await;
    *is_closed = true;
    let leases = session.leases();
    let elsewhere = store.not_on(&session, id, &leases, live).await?;
    for withdrawn in wire::all(elsewhere.iter().map(|key| store.withdraw(key, None))).await {
        withdrawn?;
    }
    for lease in leases {
        store.revoke(lease).await?;
    }
    store.0.sessions.forget(id);
    Ok(())
}
