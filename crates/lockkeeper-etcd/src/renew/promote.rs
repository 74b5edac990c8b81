//! Promoting admitted claims: each moves to a hold lease, unless it is on one.
//!
//! The transaction of a promotion compares the revision of the claim, so it changes exactly the
//! claim that was found. It puts the key again, which keeps its create revision and wakes the
//! waiter behind it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::layout::Contender;
use crate::layout::transaction::{
    changed, created, get, inners, leased, move_to, nested, only, put, ranges, transaction,
};
use crate::layout::{millis, unix_ms};
use crate::look::Found;
use crate::sessions::{Purpose, Session};
use crate::store::ClaimKey;
use crate::time::Instant;
use crate::wire::all;
use crate::wire::messages::RequestOp;
use crate::{ErrorKind, EtcdStore, Result, fault};

/// How often a promotion is tried because the claim was moved meanwhile.
const TRIES: u32 = 8;
/// How many claims one transaction promotes: etcd takes 128 operations, and counts the comparisons
/// of nested ones too.
const TOGETHER: usize = 100;

/// A claim of this client that is admitted.
#[derive(Clone, Debug)]
pub(crate) struct Admitted<'a> {
    pub(crate) key: &'a ClaimKey,
    pub(crate) found: Box<Found>,
    /// When the claim was notified of its grant.
    pub(crate) since: Option<Instant>,
}

impl EtcdStore {
    /// Moves an admitted claim of this client to a hold lease; `false` if the claim is not there
    /// any more.
    pub(crate) async fn promote(
        &self,
        session: &Arc<Session>,
        key: &ClaimKey,
        created: i64,
        lease: i64,
    ) -> Result<bool> {
        let at = session.claims.slot_of(&self.0.lines, key).at;
        let Some(lease) = self.hold(session, &at, created, lease).await? else { return Ok(false) };
        session.claims.holds(key.id, lease, created);
        Ok(true)
    }

    /// Moves an admitted claim to a hold lease, unless it is on one, and returns the lease that it
    /// is on then; `None` if the claim is not there any more. The key is put again even on the same
    /// lease, which wakes the waiter behind it.
    pub(crate) async fn hold(
        &self,
        session: &Arc<Session>,
        key: &Bytes,
        revision: i64,
        lease: i64,
    ) -> Result<Option<i64>> {
        let mut on = lease;
        for _ in 0..TRIES {
            let hold = match session.leases.bears_holders(on) {
                true => on,
                false => self.lease(session, Purpose::Hold).await?,
            };
            let when = vec![created(key, revision), leased(key, on)];
            let request = transaction(when, vec![move_to(key, hold)], vec![get(key)]);
            let moved = self.txn(request).await.map_err(fault::of_a_put)?;
            if moved.succeeded {
                return Ok(Some(hold));
            }
            // A renewal and a request of the claim may both find that it is admitted: then it is on
            // the lease to which the other one has moved it.
            let own = only(ranges(moved.responses).next()).map(Contender::read);
            match own.filter(|own| own.created == revision && !own.is_over()) {
                Some(own) if session.leases.bears_holders(own.lease) => return Ok(Some(own.lease)),
                Some(own) if self.is_lease_of(session, own.lease).await? => on = own.lease,
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Promotes many claims, in few transactions side by side: a renewal of many claims has to end
    /// within a waiter's ttl. Returns for each claim whether it holds. `false` means that this is
    /// not known.
    ///
    /// # Errors
    /// `SessionLost` if a hold lease has ended.
    pub(crate) async fn promote_all(
        &self,
        session: &Arc<Session>,
        admitted: &[Admitted<'_>],
    ) -> Result<Vec<bool>> {
        let mut hold = Vec::with_capacity(admitted.len());
        for (promoted, chunk) in
            all(admitted.chunks(TOGETHER).map(|chunk| self.promote_together(session, chunk)))
                .await
                .into_iter()
                .zip(admitted.chunks(TOGETHER))
        {
            match promoted {
                Err(error) if error.kind() == ErrorKind::SessionLost => return Err(error),
                // The other transactions count, whatever became of this one.
                Err(_) => hold.extend(chunk.iter().map(|_| false)),
                Ok(promoted) => hold.extend(promoted),
            }
        }
        Ok(hold)
    }

    async fn promote_together(
        &self,
        session: &Arc<Session>,
        chunk: &[Admitted<'_>],
    ) -> Result<Vec<bool>> {
        let lease = self.lease(session, Purpose::Hold).await?;
        let expected = session.leases.expects(lease, chunk.len());
        let target = |one: &Admitted<'_>| match session.leases.bears_holders(one.found.lease) {
            true => one.found.lease,
            false => lease,
        };
        let targets: Vec<_> = chunk.iter().map(target).collect();
        let moves =
            chunk.iter().zip(&targets).map(|(one, to)| self.moving(session, one, *to)).collect();
        let asked = self.txn(transaction(Vec::new(), moves, Vec::new())).await;
        drop(expected);
        let answer = asked.map_err(fault::of_a_put)?;
        let moved =
            inners(answer.responses).map(|inner| inner.succeeded).chain(std::iter::repeat(false));
        let moved: Vec<_> = moved.take(chunk.len()).collect();
        let settle = async |one: &Admitted<'_>, to: i64, is_moved: bool| {
            if is_moved {
                session.claims.holds(one.key.id, to, one.found.created);
                session.claims.is_dated(one.key.id);
                return Ok(true);
            }
            self.promote(session, one.key, one.found.created, one.found.lease).await
        };
        let settled = chunk
            .iter()
            .zip(targets)
            .zip(moved)
            .map(|((one, to), is_moved)| settle(one, to, is_moved));
        all(settled).await.into_iter().collect()
    }

    fn moving(&self, session: &Session, one: &Admitted<'_>, to: i64) -> RequestOp {
        let at = session.claims.slot_of(&self.0.lines, one.key).at;
        let when = vec![changed(&at, one.found.changed)];
        let Some(mut record) = one.found.record.clone() else {
            return nested(transaction(when, vec![move_to(&at, to)], Vec::new()));
        };
        let held =
            one.since.map_or(Duration::ZERO, |since| self.0.clock.now().saturating_since(since));
        record.held_ms.get_or_insert(unix_ms().saturating_sub(millis(held)));
        nested(transaction(when, vec![put(&at, record.written(), to)], Vec::new()))
    }
}
