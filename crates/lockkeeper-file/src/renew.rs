//! Sessions, with which claims live and end. Every claim and every renewal proves that the client
//! is alive, and starts both leases of its session again. So a lease in the file never ends before
//! the client's deadline. It may end a little later, so not every claim has to write it.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::params;

use super::layout::Txn;
use super::layout::claim_row::{ClaimRow, claim_rows};
use super::layout::times::{Micros, SPARE_MAX, span};
use crate::fault::Outcome;
use crate::liveness::ClientId;
use crate::store::{
    Asked, ClaimId, Live, LiveState, Opened, Renewal, Renewed, SessionId, SessionSpec, refusal,
};
use crate::{Error, ErrorKind};

/// Up to this many claims are looked up one by one; more, with one query for all of the session.
const SHORT_LIST: usize = 16;
/// A session that opens removes the leftovers of other sessions in this number of lines.
const CLEARED: u32 = 4;
/// A lease in the file is longer than granted by this part of the ttl, up to [`SPARE_MAX`]: a later
/// claim in this time need not write the lease.
const SPARE_PART: Micros = 128;

/// The answer about one claim, and the request for its lock.
type Answer = (Renewal, Option<Asked>);

impl Txn<'_> {
    /// The same id again is the same session, whichever client opens it; an ended session stays
    /// ended.
    pub(crate) fn open(
        &mut self,
        id: &SessionId,
        spec: &SessionSpec,
        client: &str,
    ) -> Outcome<Opened> {
        let is_closed = "SELECT 1 FROM lk_closed WHERE id = ?1 AND until_us > ?2";
        if self.first(is_closed, params![id.as_str(), self.now], |_| Ok(()))?.is_some() {
            return Err(refusal::session_ended().into());
        }
        let [ttl, wait_ttl, delay] = [spec.ttl, spec.wait_ttl, spec.lock_delay].map(span);
        let known = self.first(
            "SELECT ttl_us, wait_ttl_us, delay_us, detached, client, dead = 0 AND hold_until_us > ?2
             FROM lk_session WHERE id = ?1",
            params![id.as_str(), self.now],
            |row| {
                let durations = [row.get::<_, Micros>(0)?, row.get(1)?, row.get(2)?];
                Ok(((durations, row.get::<_, bool>(3)?), row.get::<_, String>(4)?, row.get::<_, bool>(5)?))
            },
        )?;
        if let Some((known, opened_by, is_open)) = known {
            if is_open && known != ([ttl, wait_ttl, delay], spec.detached) {
                return Err(refusal::other_durations().into());
            }
            if is_open && !spec.detached && opened_by != client {
                return Err(refusal::other_client().into());
            }
            self.revive(id)?;
            return Ok(Opened { ttl: spec.ttl });
        }
        self.change(
            "INSERT INTO lk_session (id, client, detached, ttl_us, wait_ttl_us, delay_us, hold_until_us, wait_until_us)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7 + ?4, ?7 + ?5)",
            params![id.as_str(), client, spec.detached, ttl, wait_ttl, delay, self.now],
        )?;
        self.clear_ended(CLEARED)?;
        Ok(Opened { ttl: spec.ttl })
    }

    pub(crate) fn renew(&mut self, session: &SessionId, live: &[Live]) -> Outcome<Renewed> {
        let ttl = self.revive(session)?;
        let renewals = if live.len() <= SHORT_LIST {
            self.renew_few(session, live)?
        } else {
            let claims = self.claims_of(session)?;
            live.iter()
                .map(|l| self.renew_one(l, claims.get(&l.key.id)))
                .collect::<Outcome<Vec<_>>>()?
        };
        self.drop_leftovers(session, live, ttl)?;
        let asked = live
            .iter()
            .zip(&renewals)
            .filter_map(|(l, (_, asked))| Some((l.key.id, asked.clone()?)));
        let requests = asked.collect();
        Ok(Renewed {
            claims: renewals.into_iter().map(|(renewal, _)| renewal).collect(),
            server_time: None,
            requests,
        })
    }

    fn renew_few(&mut self, session: &SessionId, live: &[Live]) -> Outcome<Vec<Answer>> {
        let mut renewals = Vec::with_capacity(live.len());
        for l in live {
            let row = if l.key.session == *session { self.find(&l.key)? } else { None };
            renewals.push(self.renew_one(l, row.as_ref())?);
        }
        Ok(renewals)
    }

    fn renew_one(&mut self, live: &Live, row: Option<&ClaimRow>) -> Outcome<Answer> {
        if let Some(row) = row.filter(|row| row.unlisted.is_some()) {
            self.note_unlisted(row, None)?;
        }
        let renewal = match row {
            None if live.state == LiveState::InFlight => Renewal::Unknown,
            None => Renewal::Lost(self.who_removed(live.key.id)?),
            Some(ClaimRow { broken: Some(broken), .. }) => Renewal::Lost(Some(broken.clone())),
            Some(row) if row.granted() => {
                self.hold(row)?;
                Renewal::Held { token: row.token(), ttl: row.ttl() }
            }
            Some(row) => self.renew_waiting(row)?,
        };
        let asked = row
            .filter(|_| matches!(renewal, Renewal::Held { .. }))
            .and_then(|row| row.asked.clone());
        Ok((renewal, asked))
    }

    /// A waiter learns at once of the end of a client before it. Here it looks for the end of a
    /// client that lives and does nothing any more: no other claim may come to look.
    fn renew_waiting(&mut self, row: &ClaimRow) -> Outcome<Renewal> {
        if self.remove_dead_before(row)? {
            let front = self.settle(&row.name)?;
            if let Some(held) = front.holders.iter().find(|it| it.ord == row.ord) {
                self.hold(held)?;
                return Ok(Renewal::Held { token: held.token(), ttl: held.ttl() });
            }
        }
        Ok(Renewal::Queued)
    }

    /// Starts both leases of a session again, unless they are almost new, and returns its ttl. An
    /// end stays an end: waiting claims with an ended lease are removed before, and a session that
    /// has ended is lost.
    pub(crate) fn revive(&mut self, session: &SessionId) -> Outcome<Micros> {
        let found = self.first(
            "SELECT ttl_us, wait_ttl_us, hold_until_us, wait_until_us FROM lk_session
             WHERE id = ?1 AND dead = 0 AND hold_until_us > ?2",
            params![session.as_str(), self.now],
            |row| Ok([row.get::<_, Micros>(0)?, row.get(1)?, row.get(2)?, row.get(3)?]),
        )?;
        let Some([ttl, wait_ttl, hold_until, wait_until]) = found else {
            self.note_the_end(session)?;
            return Err(session_lost().into());
        };
        if wait_until <= self.now {
            let over = self.all(
                claim_rows!("WHERE c.session = ?1 AND c.state < 2"),
                [session.as_str()],
                ClaimRow::read,
            )?;
            self.remove_all(over.into_iter())?;
        }
        let (holds, waits) = (self.now.saturating_add(ttl), self.now.saturating_add(wait_ttl));
        if hold_until < holds || wait_until < waits {
            self.change(
                "UPDATE lk_session SET hold_until_us = ?2, wait_until_us = ?3 WHERE id = ?1",
                params![
                    session.as_str(),
                    holds.saturating_add(spare(ttl)),
                    waits.saturating_add(spare(wait_ttl))
                ],
            )?;
        }
        Ok(ttl)
    }

    /// A client learns now that the session has ended. A restart of the machine must not bring the
    /// session back, and after a restart the file alone does not show how long the session has been
    /// over.
    fn note_the_end(&mut self, session: &SessionId) -> Outcome<()> {
        self.memory.leftovers.forget(session);
        let is_new = self.change(
            "UPDATE lk_session SET dead = 1 WHERE id = ?1 AND detached = 1 AND dead = 0",
            [session.as_str()],
        )? > 0;
        self.needs_disk |= is_new;
        Ok(())
    }

    pub(crate) fn claims_of(&self, session: &SessionId) -> Outcome<HashMap<ClaimId, ClaimRow>> {
        let claims =
            self.all(claim_rows!("WHERE c.session = ?1"), [session.as_str()], ClaimRow::read)?;
        Ok(claims.into_iter().map(|row| (row.id, row)).collect())
    }

    /// Records that a client's process has ended: both leases of its sessions end now.
    pub(crate) fn declare_dead(&mut self, client: &ClientId) -> Outcome<()> {
        self.change(
            "UPDATE lk_session SET dead = 1, hold_until_us = min(hold_until_us, ?2),
             wait_until_us = min(wait_until_us, ?2) WHERE client = ?1 AND dead = 0 AND detached = 0",
            params![client, self.now],
        )?;
        self.dead.push(Arc::clone(client));
        Ok(())
    }

    /// The store was dropped, and removes the file of its own client if nothing needs the file any
    /// more: no session ends with the client, and no duplicate of its descriptor is left.
    pub(crate) fn leave(&mut self, own: &ClientId) -> Outcome<()> {
        let open = "SELECT 1 FROM lk_session WHERE client = ?1 AND dead = 0 AND detached = 0";
        let is_needed = self.first(open, [own], |_| Ok(()))?.is_some();
        if !is_needed && self.dead_clients.clients().is_dead(own) {
            self.dead.push(Arc::clone(own));
        }
        Ok(())
    }
}

fn spare(lease: Micros) -> Micros {
    (lease / SPARE_PART).min(SPARE_MAX)
}

fn session_lost() -> Error {
    Error::new(
        ErrorKind::SessionLost,
        "the session has ended: it was not renewed in time, or was closed",
    )
    .with_remedy("acquire the lock again")
}
