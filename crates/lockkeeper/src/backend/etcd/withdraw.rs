//! Taking a claim out of its line: exactly that one, by the revision that made its key.

use std::time::Duration;

use bytes::Bytes;

use super::keep::Left;
use super::layout::transaction::{delete_made, deleted, put, transaction};
use super::sessions::Purpose;
use super::wire::WireError;
use super::wire::messages::{TxnRequest, TxnResponse};
use super::{EtcdStore, fault};
use crate::Result;
use crate::store::{ClaimKey, Withdrawal};

pub(super) async fn withdraw(store: &EtcdStore, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
    let session = store.0.sessions.get(&key.session)?;
    let seat = session.seat_of(&store.0.lines, key);
    let is_known = session.knows(key.id);
    let place = session.left(key.id);
    let made = place.as_ref().map_or(seat.created, |place| place.created);
    let left = store.leave_kept(key, &seat, is_known).await?;
    // Whoever comes next takes along what leaves, and not what stays.
    let leaves = store.0.order.leave(&key.name, seat.at.clone(), if left == Left::Nothing { made } else { 0 });
    let mut ops = match left {
        Left::Nothing => vec![delete_made(&seat.at, made)],
        Left::Kept | Left::KeptBefore => Vec::new(),
    };
    if let Some(tombstone) = tombstone {
        // It lives as long as a late copy of the claim could be put in line.
        let lease = session.lease(Purpose::Hold).or_else(|| session.leases().first().copied());
        if let Some(lease) = lease {
            let gone = store.0.lines.gone(key.id);
            session.said_gone(gone.clone(), store.0.clock.now() + tombstone);
            ops.push(put(&gone, Bytes::new(), lease));
        }
    }
    let asked = match ops.is_empty() {
        true => Ok(TxnResponse::default()),
        false => store.0.calls.ask("/etcdserverpb.KV/Txn", transaction(Vec::new(), ops, Vec::new())).await,
    };
    let answer: Result<TxnResponse, WireError> = match asked {
        // Without its lease, or where there is no space, nothing of it can come; but it may be there.
        Err(error) if error.is_no_lease() || error.is_no_space() => match left {
            Left::Nothing => alone(store, &seat.at, made).await,
            Left::Kept | Left::KeptBefore => Ok(TxnResponse::default()),
        },
        answer => answer,
    };
    let was_taken_along = leaves.was_taken_along() && place.is_some();
    let answer = answer.map_err(|error| match was_taken_along {
        true => fault::of(error).with_unknown_effect(),
        false => fault::of(error),
    })?;
    // Whoever comes next does not take along what is gone, with a seat that is another's then.
    drop(leaves);
    if tombstone.is_some() || made == 0 || left != Left::Nothing {
        // It stands there still; or a copy of its claim may come and finds that it is gone, or one of this request and deletes whatever is there.
        session.spoils_its_seat(key.id);
    }
    session.leaves_its_seat(key, store.0.clock.now());
    if session.life.is_none() {
        // Nothing else of a session that somebody else has opened is known here.
        store.0.sessions.forget(&key.session);
    }
    let removed = deleted(&answer.responses) > 0 || was_taken_along || left == Left::Kept;
    Ok(if removed { Withdrawal::Removed } else { Withdrawal::Absent })
}

async fn alone(store: &EtcdStore, at: &Bytes, made: i64) -> Result<TxnResponse, WireError> {
    let request: TxnRequest = transaction(Vec::new(), vec![delete_made(at, made)], Vec::new());
    store.0.calls.ask("/etcdserverpb.KV/Txn", request).await
}
