//! Renewing the leases of a session, and listing the keys on them at the same time.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;

use crate::sessions::{Purpose, Session, lost};
use crate::store::{ClaimKey, Live, SessionId};
use crate::time::Instant;
use crate::wire::all;
use crate::wire::messages::{LeaseTimeToLiveRequest, LeaseTimeToLiveResponse};
use crate::{Error, ErrorKind, EtcdStore, Result, fault};

/// What a renewal of a session has shown.
pub(super) struct Proof {
    /// The lease of each key, for the leases that were listed.
    pub(super) keys: HashMap<Bytes, i64>,
    pub(super) listed: Vec<i64>,
    /// Whether all leases were listed.
    pub(super) is_whole: bool,
    /// The leases that live on.
    pub(super) renewed: Vec<i64>,
    /// When the requests were sent. The list proves nothing about a claim that has joined since.
    pub(super) sent: Instant,
}

/// The keys on some leases.
#[derive(Default)]
struct Listed {
    keys: HashMap<Bytes, i64>,
    /// The leases that have ended.
    gone: Vec<i64>,
}

impl EtcdStore {
    /// Renews all leases of a session, and lists the keys of the leases for which that matters.
    pub(super) async fn prove(
        &self,
        session: &Session,
        live: &[Live],
        trusted: Instant,
    ) -> Result<Proof> {
        let sent = self.0.clock.now();
        let mut leases = session.leases.living(sent);
        let listed = session.to_list(&leases, live, trusted, sent);
        let within = session.spec.ttl / 4;
        let (ttls, on_leases) =
            tokio::join!(self.0.calls.keep_alive(&leases, within), self.keys_on(&listed, within));
        let mut over: Vec<i64> = Vec::new();
        let ttls = ttls.map_err(fault::of)?;
        let Listed { keys, gone } = on_leases?;
        for (lease, seconds) in ttls {
            match session.leases.is_renewed(lease, seconds)? {
                true => session.leases.renewed(lease, sent, seconds),
                false => over.push(lease),
            }
        }
        if gone.iter().any(|lease| !over.contains(lease)) {
            // One member renews a lease that another member does not have: one of the two has an
            // old state.
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the members of etcd contradict each other about a lease",
            )
            .with_remedy("lockkeeper doctor"));
        }
        if over.iter().any(|lease| session.leases.purpose(*lease) == Some(Purpose::Hold)) {
            return Err(lost());
        }
        let is_whole = listed.len() == leases.len();
        leases.retain(|lease| !over.contains(lease));
        // The claims that waited on these leases are gone, which their looks find.
        over.into_iter().for_each(|lease| session.leases.ended(lease));
        if is_whole {
            session.lists.was_listed(sent);
        }
        Ok(Proof { keys, listed, is_whole, renewed: leases, sent })
    }

    /// The claims of a session, in `live` or not, that do not end with these leases: a break or a
    /// minimum hold has moved them to other leases, or may do so.
    pub(crate) async fn not_on(
        &self,
        session: &Session,
        id: &SessionId,
        leases: &[i64],
        live: &[Live],
    ) -> Result<Vec<ClaimKey>> {
        let mut claims = session.claims.with_slots(id);
        claims.extend(
            live.iter()
                .filter(|live| !session.claims.has_slot(live.key.id))
                .map(|live| live.key.clone()),
        );
        if claims.is_empty() {
            return Ok(claims);
        }
        let Listed { keys, .. } = self.keys_on(leases, self.0.timeout).await?;
        claims.retain(|key| {
            let slot = session.claims.slot_of(&self.0.lines, key);
            slot.timer.is_some() || !keys.contains_key(&slot.at)
        });
        Ok(claims)
    }

    /// The keys of the claims on these leases.
    pub(crate) async fn claims_on(&self, leases: &[i64]) -> Result<Vec<Bytes>> {
        let Listed { keys, .. } = self.keys_on(leases, self.0.timeout).await?;
        Ok(keys.into_keys().filter(|key| self.0.lines.is_claim(key)).collect())
    }

    /// The keys on these leases, and the leases that have ended.
    async fn keys_on(&self, leases: &[i64], within: Duration) -> Result<Listed> {
        let mut listed = Listed::default();
        let ask = |lease: &i64| {
            let request = LeaseTimeToLiveRequest { id: *lease, keys: true };
            self.0.calls.ask_within("/etcdserverpb.Lease/LeaseTimeToLive", request, within)
        };
        for (lease, asked) in leases.iter().zip(all(leases.iter().map(ask)).await) {
            let answer: LeaseTimeToLiveResponse = asked.map_err(fault::of)?;
            // etcd answers -1 for a lease that has ended, and 0 for one with less than a second
            // left.
            if answer.ttl < 0 {
                listed.gone.push(*lease);
            }
            listed.keys.extend(answer.keys.into_iter().map(|key| (key, *lease)));
        }
        Ok(listed)
    }
}
