//! Claims that take the place of another claim of the caller, as an upgrade does.

use std::sync::Arc;

use super::transactions::{deletions, held, staying};
use super::{Claiming, Outcome};
use crate::layout::transaction::{created, delete, empty_but_for, leased, present, transaction};
use crate::layout::{Contender, Incarnation};
use crate::sessions::{KeySlot, Purpose};
use crate::store::admit::same_kind;
use crate::store::{ClaimId, ClaimKey, refusal};
use crate::wire::messages::TxnRequest;
use crate::{ErrorKind, Result};

/// The claim that is to be replaced.
struct Replaced {
    /// Its key. The revision is 0 if this client does not know it.
    own: Incarnation,
    /// The lease that the claim is on, if this client knows it. A claim that was marked as broken
    /// is on another one.
    lease: Option<i64>,
}

impl Claiming {
    /// Takes the place of the caller's own claim, if that is the only claim of the line.
    pub(super) async fn replace(&self, old: ClaimId) -> Result<Outcome> {
        let mut replaced = self.replaced(old)?;
        let mut lease = match &self.timer {
            Some(timer) => self.store.last_to_end(&self.session, 0, timer).await?,
            None => self.store.lease(&self.session, Purpose::Hold).await?,
        };
        let mut leaving = self.leaving();
        leaving.retain(|leaving| leaving.key != replaced.own.key);
        loop {
            let answer = self.txn_in_session(self.replacing(&replaced, &leaving, lease)).await;
            self.end_turn();
            let answer = match answer {
                // The timer of the minimum hold has ended, and etcd has done nothing.
                Err(error) if error.kind() == ErrorKind::SessionLost && self.is_timer(lease) => {
                    lease = self.store.lease(&self.session, Purpose::Hold).await?;
                    continue;
                }
                answer => answer?,
            };
            if answer.succeeded {
                return Ok(held(lease, &answer));
            }
            let (line, revision) = match self.outside(answer) {
                Outcome::Outside { line, revision } => (line, revision),
                known => return Ok(known),
            };
            let stay = staying(&line, &leaving);
            self.check(&stay)?;
            match &*stay {
                [alone] if replaced.was_moved(alone) => replaced.lease = Some(alone.lease),
                _ => return Ok(Outcome::Outside { line, revision }),
            }
        }
    }

    /// What this client knows of the claim that is to be replaced.
    fn replaced(&self, old: ClaimId) -> Result<Replaced> {
        // A detached claim has a session of its own.
        let session = self.store.0.sessions.of(old).unwrap_or_else(|| Arc::clone(&self.session));
        let KeySlot { at: key, created, .. } =
            session.slot_of(&self.store.0.lines, &ClaimKey { id: old, ..self.claim.key.clone() });
        let Some(state) = session.claim_state(old) else {
            return Ok(Replaced { own: Incarnation { key, created }, lease: None });
        };
        match same_kind(state.record.capacity, self.claim.capacity) {
            true => Ok(Replaced { own: Incarnation { key, created: state.created }, lease: Some(state.lease) }),
            false => Err(refusal::other_kind(self.claim.capacity)),
        }
    }

    fn replacing(&self, replaced: &Replaced, leaving: &[Incarnation], lease: i64) -> TxnRequest {
        let Incarnation { key: old, created: made } = &replaced.own;
        let mut when = self.is_new();
        when.push(match made {
            0 => present(old),
            made => created(old, *made),
        });
        when.extend(replaced.lease.map(|on| leased(old, on)));
        let mut but = leaving.to_vec();
        // Every incarnation, if it is not known which one: the comparison adds one to the revision.
        but.push(Incarnation { key: old.clone(), created: if *made == 0 { i64::MAX - 1 } else { *made } });
        when.extend(empty_but_for(&self.line, &but));
        let mut then = deletions(leaving);
        then.extend([delete(old), self.put(lease, true)]);
        transaction(when, then, self.known_and_line())
    }

    fn is_timer(&self, lease: i64) -> bool {
        self.timer.is_some_and(|timer| timer.keep.lease == lease)
    }
}

impl Replaced {
    /// Whether this is the claim, moved to another lease by a renewal meanwhile, and not by a
    /// break.
    fn was_moved(&self, found: &Contender) -> bool {
        found.key == self.own.key && self.lease.is_some_and(|on| on != found.lease) && !found.is_broken()
    }
}
