//! Claims that take the place of another claim of the caller, as an upgrade does.

use std::sync::Arc;

use super::transactions::{deletions, held, staying};
use super::{Claiming, Outcome};
use crate::keep::Timer;
use crate::layout::transaction::{
    changed, created, delete, empty_but_for, leased, present, transaction,
};
use crate::layout::{Contender, Incarnation, Leaver, LeaverState};
use crate::sessions::{Purpose, Session};
use crate::store::admit::same_kind;
use crate::store::{Claim, ClaimId, ClaimKey, refusal};
use crate::wire::messages::{Compare, TxnRequest};
use crate::{ErrorKind, EtcdStore, Result, fault};

/// How often a claim is replaced again because another client changes it meanwhile.
const TRIES: u32 = 16;

/// The claim that is to be replaced.
#[derive(Clone, Debug)]
pub(super) enum Replaced {
    /// A claim that no other client changes but to break it, as this client knows it: its key, its
    /// revision (0 if that is not known), the lease that it is on, and its capacity. A claim that
    /// was marked as broken is on another lease.
    Known { own: Incarnation, lease: i64, capacity: u32 },
    /// A claim that another client may change, as it was read, and what shows that its session is
    /// not over: only its minimum hold would be left.
    Read { own: Box<Contender>, is_open: Vec<Compare> },
    /// A claim that is not there, or that has no holder: it is broken, or kept for its minimum
    /// hold.
    Over,
}

/// The claim that this claim is to replace, and the timer of the minimum hold that this claim
/// inherits.
pub(super) async fn replaced_by(
    store: &EtcdStore,
    session: &Arc<Session>,
    claim: &Claim,
    old: ClaimId,
) -> Result<(Replaced, Option<Timer>)> {
    // A detached claim has a session of its own.
    let of_old = store.0.sessions.of(old).unwrap_or_else(|| Arc::clone(session));
    let slot = of_old.claims.slot_of(&store.0.lines, &ClaimKey { id: old, ..claim.key.clone() });
    let (replaced, timer) = match of_old.claims.state(old).filter(|_| of_old.claims.knows_timers())
    {
        Some(state) => {
            let (own, capacity) =
                (Incarnation { key: slot.at, created: state.created }, state.record.capacity);
            (Replaced::Known { own, lease: state.lease, capacity }, slot.timer)
        }
        None => match store.claim_in(&of_old, &slot, old).await?.filter(|own| !own.is_over()) {
            None => return Ok((Replaced::Over, None)),
            Some(own) => {
                let timer = match own.keep() {
                    Some(keep) => Some(store.timer_of(*keep).await?),
                    None => None,
                };
                let is_open = if of_old.is_shared() { store.is_open(&of_old) } else { Vec::new() };
                (Replaced::Read { own: Box::new(own), is_open }, timer)
            }
        },
    };
    let timer = timer.filter(|timer| timer.is_over > store.0.clock.now());
    if let Some(timer) = timer {
        session.claims.times(claim.key.id, timer);
    }
    Ok((replaced, timer))
}

impl Claiming {
    /// Takes the place of the caller's own claim, if that is the only claim of the line.
    pub(super) async fn replace(&self, mut replaced: Replaced) -> Result<Outcome> {
        if let Some(capacity) = replaced.capacity()
            && !same_kind(capacity, self.claim.capacity)
        {
            return Err(refusal::other_kind(self.claim.capacity));
        }
        let mut lease = match &self.timer {
            Some(timer) => self.store.last_to_end(&self.session, 0, timer).await?,
            None => self.store.lease(&self.session, Purpose::Hold).await?,
        };
        let old = replaced.leaver().map(|old| old.key);
        for _ in 0..TRIES {
            let (leaving, carrying) = self.leaving(old.as_ref());
            let request = self.replacing(&replaced, &leaving, lease);
            let answer = self.txn_carrying(request, carrying).await;
            self.end_turn();
            let answer = match answer {
                // The timer of the minimum hold has ended, and etcd has done nothing.
                Err(error) if error.kind() == ErrorKind::SessionLost && self.is_timer(lease) => {
                    lease = self.store.lease(&self.session, Purpose::Hold).await?;
                    continue;
                }
                answer => answer?,
            };
            if answer.succeeded && !matches!(replaced, Replaced::Over) {
                return Ok(held(lease, &answer));
            }
            let (line, revision) = match self.outside(answer) {
                Outcome::Outside { line, revision } => (line, revision),
                known => return Ok(known),
            };
            let stay = staying(&line, &leaving);
            self.check(&stay)?;
            replaced = match &*stay {
                [alone] => match replaced.found_again(alone)? {
                    Some(replaced) => replaced,
                    None => return Ok(Outcome::Outside { line, revision }),
                },
                _ => return Ok(Outcome::Outside { line, revision }),
            };
        }
        Err(fault::always_changes())
    }

    fn replacing(&self, replaced: &Replaced, leaving: &[Leaver], lease: i64) -> TxnRequest {
        let Some(old) = replaced.leaver() else {
            return transaction(Vec::new(), self.known_and_line(), Vec::new());
        };
        let mut when = self.is_new();
        when.extend(replaced.is_unchanged());
        let mut but = leaving.to_vec();
        but.push(old.clone());
        when.extend(empty_but_for(&self.line, &but));
        let mut then = deletions(leaving);
        then.push(delete(&old.key));
        then.extend(self.put(lease, true));
        transaction(when, then, self.known_and_line())
    }

    fn is_timer(&self, lease: i64) -> bool {
        self.timer.is_some_and(|timer| timer.keep.lease == lease)
    }
}

impl Replaced {
    /// The state of the claim that goes.
    fn leaver(&self) -> Option<Leaver> {
        match self {
            // Every incarnation, if it is not known which one: the comparison adds one to the
            // revision.
            Self::Known { own: Incarnation { key, created: 0 }, .. } => {
                Some(Leaver { key: key.clone(), state: LeaverState::Created(i64::MAX - 1) })
            }
            Self::Known { own, .. } => {
                Some(Leaver { key: own.key.clone(), state: LeaverState::Created(own.created) })
            }
            Self::Read { own, .. } => {
                Some(Leaver { key: own.key.clone(), state: LeaverState::Changed(own.changed) })
            }
            Self::Over => None,
        }
    }

    fn is_unchanged(&self) -> Vec<Compare> {
        match self {
            Self::Known { own: Incarnation { key, created: 0 }, lease, .. } => {
                vec![present(key), leased(key, *lease)]
            }
            Self::Known { own, lease, .. } => {
                vec![created(&own.key, own.created), leased(&own.key, *lease)]
            }
            Self::Read { own, is_open } => {
                is_open.iter().cloned().chain([changed(&own.key, own.changed)]).collect()
            }
            Self::Over => Vec::new(),
        }
    }

    fn capacity(&self) -> Option<u32> {
        match self {
            Self::Known { capacity, .. } => Some(*capacity),
            Self::Read { own, .. } => Some(own.capacity()),
            Self::Over => None,
        }
    }

    /// The claim as it is now, if a renewal has changed it meanwhile, and not a break or a release.
    ///
    /// # Errors
    /// `Unavailable` if its minimum hold has another timer now.
    fn found_again(&self, found: &Contender) -> Result<Option<Self>> {
        match self {
            Self::Known { own, lease, capacity }
                if found.key == own.key && *lease != found.lease && !found.is_broken() =>
            {
                Ok(Some(Self::Known { own: own.clone(), lease: found.lease, capacity: *capacity }))
            }
            Self::Read { own, is_open }
                if found.incarnation() == own.incarnation()
                    && found.changed != own.changed
                    && !found.is_over() =>
            {
                match found.keep() == own.keep() {
                    true => Ok(Some(Self::Read {
                        own: Box::new(found.clone()),
                        is_open: is_open.clone(),
                    })),
                    false => Err(fault::always_changes()),
                }
            }
            _ => Ok(None),
        }
    }
}
