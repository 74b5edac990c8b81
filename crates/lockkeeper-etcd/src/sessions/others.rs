//! What the other clients of a detached session have made and said.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;

use super::{Purpose, Session};
use crate::keep::Leftover;
use crate::layout::{Lines, Missed, SessionPart};
use crate::sessions::Verdicts;
use crate::store::SessionId;
use crate::time::Instant;
use crate::wire::messages::KeyValue;

impl Session {
    /// These leases of it are there, as their keys show. None is dropped that is not among them: it
    /// may have been made since.
    pub(crate) fn has_leases(
        &self,
        lines: &Lines,
        id: &SessionId,
        found: &[KeyValue],
        now: Instant,
    ) {
        for kv in found {
            let Some(SessionPart::Lease { id: lease, holds }) = lines.part_of_session(id, &kv.key)
            else {
                continue;
            };
            // On another lease it is somebody else's word.
            if kv.lease == lease {
                self.add(lease, if holds { Purpose::Hold } else { Purpose::Wait }, now);
            }
        }
    }

    /// What is to be done about the keys that are on its leases and that the list of a renewal does
    /// not name, of which others have said this. A claim that is on none of its leases is no
    /// leftover: it may be kept.
    pub(crate) fn judge_unlisted(
        &self,
        unlisted: HashMap<Bytes, i64>,
        said: Vec<Missed>,
        now: Instant,
    ) -> Verdicts {
        let whole = Duration::from_secs(self.hold.unsigned_abs());
        let mut inner = self.lock();
        let mut verdicts = Verdicts::default();
        let is_said = |claim: &Bytes| said.iter().any(|missed| missed.claim == *claim);
        verdicts.missed = unlisted.keys().filter(|claim| !is_said(claim)).cloned().collect();
        let seen = std::mem::take(&mut inner.missed);
        for missed in said {
            let before = seen.get(&missed.key).filter(|(created, _)| *created == missed.created);
            let since = before.map_or(now, |(_, since)| *since);
            inner.missed.insert(missed.key.clone(), (missed.created, since));
            if now.saturating_since(since) >= whole {
                let lease = unlisted.get(&missed.claim).copied();
                verdicts.over.push(Leftover { missed, lease });
            }
        }
        verdicts
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{ClaimState, Sessions};
    use super::*;
    use crate::layout::{Layout, Record, lease_of};
    use crate::store::{Claim, ClaimId, ClaimKey, Live, LiveState, SessionSpec};
    use crate::time::Clock;

    const TTL: Duration = Duration::from_secs(30);

    /// The lease of holders and the lease of waiters that another client has made, as its keys show
    /// them.
    const THEIRS: [(i64, bool); 2] = [(8, true), (9, false)];

    fn shown(lines: &Lines, id: &SessionId) -> Vec<KeyValue> {
        let show = |(lease, holds)| KeyValue {
            key: lines.session_lease(id, lease, holds),
            lease,
            ..KeyValue::default()
        };
        THEIRS.map(show).to_vec()
    }

    /// A client that counts from its own last renewal must not put a claim on a lease that was
    /// renewed before that.
    #[test]
    fn a_lease_of_another_client_bears_nothing_before_this_client_has_renewed_it() {
        let (sessions, lines, id) =
            (Sessions::default(), Lines::new(Layout::Native, None), SessionId::random());
        let now = Clock::boot().now();
        let spec = SessionSpec {
            detached: true,
            wait_ttl: TTL / 3,
            ..SessionSpec::new(TTL, Duration::ZERO)
        };
        let session = sessions.opened(&id, &spec, false, now);
        session.has_leases(&lines, &id, &shown(&lines, &id), now);
        let [(hold, _), (wait, _)] = THEIRS;
        assert_eq!(
            [hold, wait].map(|lease| session.purpose(lease)),
            [Some(Purpose::Hold), Some(Purpose::Wait)]
        );
        assert!(session.bears_holders(lease_of(&id)) && !session.bears_holders(hold));
        assert!(session.is_stale(wait, now), "a waiter counts from its request on");
        assert_eq!(session.lease(Purpose::Wait), None);
        assert_eq!(session.renewal_of(hold).1, TTL, "another client may have renewed it just now");
        for (lease, seconds) in [(hold, session.hold), (wait, session.wait)] {
            session.renewed(lease, now, seconds);
        }
        assert!(
            session.bears_holders(hold)
                && !session.bears_holders(wait)
                && !session.is_stale(wait, now)
        );
    }

    /// A client has made a lease, and its renewal reads the lease before the client has the answer.
    #[test]
    fn a_lease_is_known_once() {
        let (sessions, lines, id) =
            (Sessions::default(), Lines::new(Layout::Native, None), SessionId::random());
        let now = Clock::boot().now();
        let spec = SessionSpec {
            detached: true,
            wait_ttl: TTL / 3,
            ..SessionSpec::new(TTL, Duration::ZERO)
        };
        let session = sessions.insert(Session::opened(&id, &spec, false, 1, now), now);
        session.has_leases(&lines, &id, &shown(&lines, &id), now);
        session.add(THEIRS[0].0, Purpose::Hold, now);
        assert_eq!(session.leases(), [lease_of(&id), THEIRS[0].0, THEIRS[1].0]);
    }

    /// Else a lease that has served 500 claims would count as full for ever.
    #[test]
    fn a_claim_that_another_client_has_withdrawn_is_forgotten_after_a_whole_life() {
        let (sessions, lines, id) =
            (Sessions::default(), Lines::new(Layout::Native, None), SessionId::random());
        let now = Clock::boot().now();
        let spec = SessionSpec { detached: true, ..SessionSpec::new(TTL, Duration::ZERO) };
        let session = sessions.insert(Session::opened(&id, &spec, false, 1, now), now);
        let key =
            ClaimKey { name: "a".parse().unwrap(), session: id.clone(), id: ClaimId::random() };
        let slot = session.slot(&lines, &key, now);
        let record = Arc::new(Record::of(&Claim::exclusive(key.clone(), &spec), &"c".into()));
        let state = ClaimState {
            lease: lease_of(&id),
            created: 1,
            held: true,
            is_dated: true,
            granted: None,
            watched: None,
            blocked_by: None,
            record,
            is_elsewhere: false,
        };
        session.insert_claim(key.id, state);
        let listed = [Live { key: key.clone(), state: LiveState::Granted }];
        let there = HashMap::from([(slot.at, lease_of(&id))]);
        let is_known = || session.claim_state(key.id).is_some() && session.has_slot(key.id);
        for (keys, live) in [(&there, &[][..]), (&HashMap::new(), &listed[..])] {
            session.forget_absent(keys, live, now);
            session.forget_absent(keys, live, now + TTL * 2);
            assert!(is_known());
        }
        session.forget_absent(&HashMap::new(), &[], now);
        assert!(is_known());
        session.forget_absent(&HashMap::new(), &[], now + TTL);
        assert!(session.claim_state(key.id).is_none() && !session.has_slot(key.id));
    }

    #[test]
    fn what_another_program_shows_on_a_lease_of_its_own_is_no_lease_of_the_session() {
        let (sessions, lines, id) =
            (Sessions::default(), Lines::new(Layout::Native, None), SessionId::random());
        let (now, spec) = (Clock::boot().now(), SessionSpec::new(TTL, Duration::ZERO));
        let session = sessions.opened(&id, &spec, false, now);
        let elsewhere = shown(&lines, &id)
            .into_iter()
            .map(|kv| KeyValue { lease: 7, ..kv })
            .collect::<Vec<_>>();
        session.has_leases(&lines, &id, &elsewhere, now);
        assert_eq!(session.leases(), [lease_of(&id)]);
    }
}
