//! The requests that make, renew and revoke leases, and ask etcd about a lease.

use std::sync::Arc;
use std::time::Duration;

use super::leases::Purpose;
use super::lost;
use super::session::Session;
use crate::random::bits128;
use crate::wire::WireError;
use crate::wire::messages::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use crate::{Error, ErrorKind, EtcdStore, Result, fault};

impl EtcdStore {
    /// A lease with room for one more claim. The call makes a lease if there is none, and awaits
    /// nothing otherwise.
    pub(crate) async fn lease(&self, session: &Arc<Session>, purpose: Purpose) -> Result<i64> {
        if let Some(lease) = self.fresh(session, purpose) {
            return Ok(lease);
        }
        // Other claims wait for this lease, even when the caller has gone.
        let (store, session) = (self.clone(), Arc::clone(session));
        let making = self.0.runtime.carry_on(async move {
            let making = store.make_lease(&session, purpose);
            session.gate.pass(store.0.calls.outage(), making).await
        });
        making.await.unwrap_or_else(|| Err(fault::ended()))
    }

    /// Makes a lease, for a call that passes the gate of the session.
    async fn make_lease(&self, session: &Session, purpose: Purpose) -> Result<i64> {
        if let Some(lease) = self.fresh(session, purpose) {
            return Ok(lease);
        }
        let known = match session.is_shared() {
            // Another client may have made a lease: every client renews it until the session ends.
            true => {
                self.learn_leases(session).await?;
                session.leases.with_room(purpose)
            }
            false => session.leases.choose(purpose).into_iter().collect(),
        };
        for lease in known {
            if self.refresh(session, lease).await? {
                return Ok(lease);
            }
        }
        let ttl = session.leases.ttl(purpose);
        let (sent, lease) = (self.0.clock.now(), self.grant(ttl).await?.id);
        if session.is_shared() {
            self.show_lease(session, lease, purpose).await?;
        }
        session.leases.add(lease, purpose, sent);
        match self.refresh(session, lease).await? {
            true => Ok(lease),
            false => Err(lost()),
        }
    }

    /// Renews one lease; `false` if the lease has ended.
    pub(crate) async fn refresh(&self, session: &Session, lease: i64) -> Result<bool> {
        let sent = self.0.clock.now();
        let ttls = self.0.calls.keep_alive(&[lease], self.0.timeout).await.map_err(fault::of)?;
        let seconds = ttls.get(&lease).copied().unwrap_or_default();
        let is_there = session.leases.is_renewed(lease, seconds)?;
        match is_there {
            true => session.leases.renewed(lease, sent, seconds),
            false => session.leases.ended(lease),
        }
        Ok(is_there)
    }

    /// Renews all leases of a session; `false` if a lease of holders has ended.
    pub(crate) async fn refresh_all(&self, session: &Session) -> Result<bool> {
        if session.is_shared() {
            self.learn_leases(session).await?;
        }
        let sent = self.0.clock.now();
        let leases = session.leases.living(sent);
        let ttls = self.0.calls.keep_alive(&leases, self.0.timeout).await.map_err(fault::of)?;
        let mut lives = true;
        for lease in leases {
            let seconds = ttls.get(&lease).copied().unwrap_or_default();
            match session.leases.is_renewed(lease, seconds)? {
                true => session.leases.renewed(lease, sent, seconds),
                false => {
                    lives &= session.leases.purpose(lease) != Some(Purpose::Hold);
                    session.leases.ended(lease);
                }
            }
        }
        Ok(lives)
    }

    /// Renews a lease of waiters that is not fresh; `false` if the lease has ended.
    pub(crate) async fn freshen(&self, session: &Session, lease: i64) -> Result<bool> {
        match session.leases.is_stale(lease, self.0.clock.now()) {
            true => self.refresh(session, lease).await,
            false => Ok(true),
        }
    }

    /// A lease that one more claim can be on for a whole ttl, if there is one.
    pub(crate) fn fresh(&self, session: &Session, purpose: Purpose) -> Option<i64> {
        session
            .leases
            .choose(purpose)
            .filter(|lease| !session.leases.is_stale(*lease, self.0.clock.now()))
    }
}

/// Single leases.
impl EtcdStore {
    /// Makes a lease of so many seconds, or of more: etcd has a minimum.
    pub(crate) async fn grant(&self, seconds: i64) -> Result<LeaseGrantResponse> {
        self.try_grant(seconds).await.map_err(fault::of)
    }

    /// Makes a lease, for a caller that has to know why etcd refuses.
    pub(crate) async fn try_grant(&self, seconds: i64) -> Result<LeaseGrantResponse, WireError> {
        // etcd chooses the id. If the answer is lost, the lease ends by itself.
        let request = LeaseGrantRequest { ttl: seconds, id: 0 };
        self.0.calls.ask("/etcdserverpb.Lease/LeaseGrant", request).await
    }

    /// Makes a lease of so many seconds with an id of this client's choice, which the client can
    /// revoke even if the answer is lost. Returns the term of etcd's leader; 0 if that is not
    /// known.
    pub(crate) async fn grant_chosen(&self, id: i64, seconds: i64) -> Result<u64, WireError> {
        let request = LeaseGrantRequest { ttl: seconds, id };
        let asked = self.0.calls.ask("/etcdserverpb.Lease/LeaseGrant", request).await;
        match asked {
            // A copy of this request has made it: the id is random.
            Err(error) if error.is_lease_there() => Ok(0),
            asked => {
                let granted: LeaseGrantResponse = asked?;
                Ok(granted.header.map_or(0, |header| header.raft_term))
            }
        }
    }

    /// Makes the lease with this id; `false` if a lease has this id.
    pub(super) async fn grant_as(&self, lease: i64, seconds: i64) -> Result<bool> {
        let request = LeaseGrantRequest { ttl: seconds, id: lease };
        let granted: LeaseGrantResponse =
            match self.0.calls.ask("/etcdserverpb.Lease/LeaseGrant", request).await {
                Err(error) if error.is_lease_there() => return Ok(false),
                granted => granted.map_err(fault::of)?,
            };
        if granted.ttl < seconds {
            self.revoke_unneeded(lease);
            let problem = format!("etcd grants {} s instead of {seconds} s", granted.ttl);
            return Err(Error::new(ErrorKind::Unsupported, problem).with_remedy("a shorter ttl"));
        }
        Ok(true)
    }

    /// Ends a lease. etcd deletes all keys on the lease at one revision. A lease that has ended
    /// before is no error.
    pub(crate) async fn revoke(&self, lease: i64) -> Result<()> {
        let request = LeaseRevokeRequest { id: lease };
        let asked = self.0.calls.ask("/etcdserverpb.Lease/LeaseRevoke", request).await;
        match asked.map(|_: LeaseRevokeResponse| ()) {
            Err(error) if error.is_no_lease() => Ok(()),
            revoked => revoked.map_err(fault::of),
        }
    }

    /// Ends a lease that has no key any more. No call waits for the end.
    pub(crate) fn revoke_unneeded(&self, lease: i64) {
        let store = self.clone();
        self.0.runtime.serve(async move {
            if let Err(error) = store.revoke(lease).await {
                tracing::debug!(target: "lockkeeper", %store, %error, "a lease runs on to its end for nothing");
            }
        });
    }

    /// How long a lease lives at least, in whole seconds; `None` for a lease that has ended.
    pub(crate) async fn left_of(&self, lease: i64) -> Result<Option<Duration>> {
        Ok(u64::try_from(self.asked_of(lease).await?.ttl).ok().map(Duration::from_secs))
    }

    /// etcd's answer about a lease.
    pub(crate) async fn asked_of(&self, lease: i64) -> Result<LeaseTimeToLiveResponse> {
        let request = LeaseTimeToLiveRequest { id: lease, keys: false };
        let asked = self.0.calls.ask("/etcdserverpb.Lease/LeaseTimeToLive", request).await;
        asked.map_err(|error| fault::of(error).without_effect())
    }
}

/// A random id for a lease.
pub(crate) fn random_lease() -> i64 {
    let mut bits = [0; 8];
    bits.copy_from_slice(&bits128()[..8]);
    (i64::from_be_bytes(bits) & i64::MAX).max(1)
}
