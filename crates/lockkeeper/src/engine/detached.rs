//! Claims that outlive their process: detached as a handle, and adopted by the process that has the
//! handle.
//!
//! A detached claim belongs to its handle: this engine neither renews nor closes it any more. An
//! adopted claim does not belong to this engine either. The engine believes in it only after a
//! renewal of its own, for the life that this renewal has proven. Only an explicit release
//! withdraws it.

use std::sync::Arc;

use super::session::proof_lag;
use super::{Engine, Hold, Session};
use crate::store::{ClaimKey, SessionSpec};
use crate::{Error, ErrorKind, LostReason, Result};

impl Engine {
    /// The claim and its session go on without this engine.
    pub(crate) fn detach(&self, hold: &Arc<Hold>) {
        // The session ends first: no watchdog closes an ended session because it is idle.
        hold.session.end();
        self.sessions.forget(&hold.session);
        hold.session.claims.forget(hold, self.now());
        self.sessions.publish();
    }

    /// A claim that another process has detached, with the life of its session.
    pub(crate) fn adopt(&self, key: ClaimKey, token: u64, spec: SessionSpec) -> Arc<Hold> {
        let session =
            Arc::new(Session::adopted(spec, key.session.clone(), proof_lag(&self.capabilities)));
        let hold = Arc::new(Hold::adopted(key, token, Arc::clone(&session), self.clock.clone()));
        session.claims.add(&hold, self.now());
        self.sessions.add(session);
        hold
    }

    /// Renews this claim once, until the store has acknowledged it. Must be polled to its end.
    pub(crate) async fn renew_once(self: &Arc<Self>, hold: &Arc<Hold>) -> Result<()> {
        let name = &hold.key.name;
        let sent = self.now();
        let renewed = match hold.loss() {
            None => self.renew(&hold.session, std::slice::from_ref(hold)).await,
            Some(_) => Ok(()),
        };
        if let Some(reason) = hold.loss() {
            return Err(Error::lost(name.clone(), reason.clone()));
        }
        renewed.map_err(|error| self.describe(error, name).with_unknown_effect())?;
        if hold.lease_deadline() >= hold.proven_until(sent) {
            return Ok(());
        }
        let error =
            Error::new(ErrorKind::Unavailable, "the store does not know whether it is held");
        Err(self.describe(error, name).with_unknown_effect())
    }

    /// Whether an adopted claim is lost, according to the store.
    pub(super) async fn finds_over(self: &Arc<Self>, hold: &Arc<Hold>) -> bool {
        if self.is_in_its_delay(hold).await {
            hold.lose(LostReason::Expired);
        }
        hold.is_dead() || (self.renew_once(hold).await.is_err() && hold.is_dead())
    }

    /// Whether only the lock-delay keeps the claim. A renewal would end the delay on a store where
    /// each claim has a life of its own.
    async fn is_in_its_delay(&self, hold: &Hold) -> bool {
        let delay = hold.session.spec.lock_delay;
        if delay.is_zero() {
            return false;
        }
        // If the store does not answer now, the renewal reports more.
        let line = self.store.line(&hold.key.name).await.unwrap_or_default();
        let claim = line.entries.iter().find(|entry| entry.id == hold.key.id.hash());
        claim.and_then(|entry| entry.expires_in).is_some_and(|left| left <= delay)
    }
}
