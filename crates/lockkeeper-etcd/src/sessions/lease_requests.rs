//! The leases of a session, as etcd makes and renews them.

use std::sync::Arc;

use crate::sessions::{self, Purpose, Session};
use crate::{EtcdStore, Result, fault};

impl EtcdStore {
    /// A lease that bears one more claim, made if there is none. If there is one, nothing is
    /// awaited.
    pub(crate) async fn lease(&self, session: &Arc<Session>, purpose: Purpose) -> Result<i64> {
        if let Some(lease) = self.fresh(session, purpose) {
            return Ok(lease);
        }
        // Others wait for this lease, even when the caller has gone.
        let (store, session) = (self.clone(), Arc::clone(session));
        let making =
            self.0.runtime.carry_on(async move { store.make_lease(&session, purpose).await });
        making.await.unwrap_or_else(|| Err(fault::ended()))
    }

    async fn make_lease(&self, session: &Session, purpose: Purpose) -> Result<i64> {
        let is_closed = session.gate.lock().await;
        if *is_closed {
            return Err(sessions::lost());
        }
        if let Some(lease) = self.fresh(session, purpose) {
            return Ok(lease);
        }
        if let Some(lease) = session.lease(purpose)
            && self.refresh(session, lease).await?
        {
            return Ok(lease);
        }
        let ttl = if purpose == Purpose::Hold { session.hold } else { session.wait };
        let (sent, lease) = (self.0.clock.now(), self.grant(ttl).await?.id);
        if session.is_shared() {
            self.show_lease(session, lease, purpose).await?;
        }
        session.add(lease, purpose, sent);
        match self.refresh(session, lease).await? {
            true => Ok(lease),
            false => Err(sessions::lost()),
        }
    }

    /// Renews one lease; `false` when it is not there any more.
    pub(crate) async fn refresh(&self, session: &Session, lease: i64) -> Result<bool> {
        let sent = self.0.clock.now();
        let ttls = self.0.calls.keep_alive(&[lease], self.0.timeout).await.map_err(fault::of)?;
        let seconds = ttls.get(&lease).copied().unwrap_or_default();
        let is_there = session.is_renewed(lease, seconds)?;
        match is_there {
            true => session.renewed(lease, sent, seconds),
            false => session.ended(lease),
        }
        Ok(is_there)
    }

    /// Renews all leases of a session; `false` when one of its holders' leases is not there any
    /// more.
    pub(crate) async fn refresh_all(&self, session: &Session) -> Result<bool> {
        if session.is_shared() {
            self.learn_leases(session).await?;
        }
        let sent = self.0.clock.now();
        let leases = session.living(sent);
        let ttls = self.0.calls.keep_alive(&leases, self.0.timeout).await.map_err(fault::of)?;
        let mut lives = true;
        for lease in leases {
            let seconds = ttls.get(&lease).copied().unwrap_or_default();
            match session.is_renewed(lease, seconds)? {
                true => session.renewed(lease, sent, seconds),
                false => {
                    lives &= session.purpose(lease) != Some(Purpose::Hold);
                    session.ended(lease);
                }
            }
        }
        Ok(lives)
    }

    /// Renews a lease of waiters that is not fresh; `false` when it is not there any more.
    pub(crate) async fn freshen(&self, session: &Session, lease: i64) -> Result<bool> {
        match session.is_stale(lease, self.0.clock.now()) {
            true => self.refresh(session, lease).await,
            false => Ok(true),
        }
    }

    /// A lease that bears one more claim for its whole life, if there is one.
    pub(crate) fn fresh(&self, session: &Session, purpose: Purpose) -> Option<i64> {
        session.lease(purpose).filter(|lease| !session.is_stale(*lease, self.0.clock.now()))
    }
}
