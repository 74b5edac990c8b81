//! Taking a claim out of its line: exactly that one, by the revision that made its key.

use std::time::Duration;

use bytes::Bytes;

use super::layout::transaction::{delete_made, deleted, put, transaction};
use super::sessions::{Purpose, Seat};
use super::wire::WireError;
use super::wire::messages::{TxnRequest, TxnResponse};
use super::{EtcdStore, fault};
use crate::Result;
use crate::store::{ClaimKey, Live, Withdrawal};

pub(super) async fn withdraw(store: &EtcdStore, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
    let session = store.0.sessions.get(&key.session)?;
    let seat = session.seat_of(&store.0.lines, key);
    let place = session.left(key.id);
    let leaves = store.0.order.leave(&key.name, seat.at.clone(), seat.created);
    let mut ops = vec![delete_made(&seat.at, seat.created)];
    if let Some(tombstone) = tombstone {
        // It lives as long as a late copy of the claim could be put in line.
        let lease = session.lease(Purpose::Hold).or_else(|| session.leases().first().copied());
        if let Some(lease) = lease {
            let gone = store.0.lines.gone(key.id);
            session.said_gone(gone.clone(), store.0.clock.now() + tombstone);
            ops.push(put(&gone, Bytes::new(), lease));
        }
    }
    let answer: TxnResponse =
        match store.0.calls.ask("/etcdserverpb.KV/Txn", transaction(Vec::new(), ops, Vec::new())).await {
            // Without its lease nothing of it can come, and nothing of it is there; unless somebody has broken it.
            Err(error) if error.is_no_lease() => alone(store, &seat).await.map_err(fault::of)?,
            answer => answer.map_err(fault::of)?,
        };
    match tombstone {
        // A copy of its claim may come, and finds that it is gone; but nobody else sits there meanwhile.
        Some(_) => session.spoils_its_seat(key.id),
        None => session.leaves_its_seat(key),
    }
    if session.life.is_none() {
        // Nothing else of a session that somebody else has opened is known here.
        store.0.sessions.forget(&key.session);
    }
    let removed = deleted(&answer.responses) > 0 || (leaves.was_taken_along() && place.is_some());
    Ok(if removed { Withdrawal::Removed } else { Withdrawal::Absent })
}

async fn alone(store: &EtcdStore, seat: &Seat) -> Result<TxnResponse, WireError> {
    let request: TxnRequest = transaction(Vec::new(), vec![delete_made(&seat.at, seat.created)], Vec::new());
    store.0.calls.ask("/etcdserverpb.KV/Txn", request).await
}

impl EtcdStore {
    /// Whether a claim may be on a lease that is none of its session's: one that was broken.
    pub(super) fn is_elsewhere(&self, live: &Live) -> bool {
        self.0.sessions.get(&live.key.session).is_ok_and(|session| session.is_broken(live.key.id))
    }
}
