//! Sweeping, after a renewal has listed all keys of a session: claims that lost replies have left
//! on its leases and leases that are not needed. The answer to the renewal does
//! not wait for it.

use std::sync::Arc;

use bytes::Bytes;

use super::proof::Proof;
use crate::layout::Missed;
use crate::layout::transaction::{delete_made, transaction};
use crate::sessions::Session;
use crate::sessions::Verdicts;
use crate::store::Live;
use crate::time::Instant;
use crate::wire::messages::TxnResponse;
use crate::{Error, EtcdStore, Result, fault};

/// What a sweep removes.
#[derive(Debug, Default)]
struct Leftovers {
    /// Leases that have had no keys for a while.
    leases: Vec<i64>,
    /// Claims that no renewal has listed for a whole ttl.
    keys: Vec<Bytes>,
    /// Claims of a detached session, which another client may list.
    verdicts: Verdicts,
}

impl EtcdStore {
    /// Removes the leftovers. What fails is tried again with a later renewal.
    /// Of a detached session other clients have `missed` these claims in their lists.
    pub(super) fn sweep(
        &self,
        session: &Arc<Session>,
        live: &[Live],
        proof: Proof,
        missed: Vec<Missed>,
    ) {
        let (sent, over) = (proof.sent, self.left_over(session, live, proof, missed));
        if over.leases.is_empty() && over.keys.is_empty() && over.verdicts.is_empty() {
            return;
        }
        let (store, session) = (self.clone(), Arc::clone(session));
        self.0.runtime.serve(async move { store.remove_all(&session, over, sent).await });
    }

    fn left_over(
        &self,
        session: &Session,
        live: &[Live],
        proof: Proof,
        missed: Vec<Missed>,
    ) -> Leftovers {
        let now = self.0.clock.now();
        let mut over = Leftovers::default();
        if proof.is_whole {
            let mut found = proof.keys;
            if session.is_shared() {
                session.claims.forget_absent(&found, live, now);
            }
            over.leases = session.leases.to_revoke(&found.values().copied().collect(), now);
            for live in live {
                found.remove(&session.claims.slot_of(&self.0.lines, &live.key).at);
            }
            found.retain(|key, _| self.0.lines.is_claim(key));
            match session.is_shared() {
                true => over.verdicts = session.lists.judge_unlisted(found, missed, now),
                false => over.keys = session.lists.left_over(found.into_keys().collect(), now),
            }
        }
        over
    }

    async fn remove_all(&self, session: &Session, over: Leftovers, sent: Instant) {
        for lease in over.leases {
            if let Err(error) = self.revoke(lease).await {
                self.log_unswept(&error);
            }
        }
        for key in over.keys {
            if let Err(error) = self.remove(session, &key, sent).await {
                self.log_unswept(&error);
            }
        }
        self.report(&session.id, over.verdicts).await;
    }

    /// Removes a leftover from the list of a renewal that was sent at this moment, unless another
    /// claim has got its slot since. The deletion names the create revision, so it does not delete
    /// a claim that gets the slot after this check.
    async fn remove(&self, session: &Session, over: &Bytes, sent: Instant) -> Result<()> {
        let there = self.read(over).await?;
        let Some(there) = there.filter(|_| !session.claims.may_be_unlisted(over, sent)) else {
            return Ok(());
        };
        let request =
            transaction(Vec::new(), vec![delete_made(over, there.create_revision)], Vec::new());
        let removed = self.txn(request).await;
        removed.map(|_: TxnResponse| ()).map_err(fault::of)
    }

    fn log_unswept(&self, error: &Error) {
        tracing::debug!(target: "lockkeeper", store = %self, %error, "leftovers were not removed");
    }
}
