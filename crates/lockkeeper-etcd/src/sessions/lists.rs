//! What a renewal asks of the leases of a session, and which of them are given back.

use std::collections::HashSet;
use std::time::Duration;

use super::{Purpose, Session};
use crate::store::{Live, LiveState};
use crate::time::Instant;
use crate::{Error, ErrorKind, Result};

/// How often at least it is asked which keys are on a lease, though nobody has to know.
const LISTED: Duration = Duration::from_secs(10);

/// For how long nothing has stood on a lease, and nobody has chosen it, before nothing more is put
/// on it; and then, until it is given back: longer than a claim takes to arrive there that has
/// chosen it before.
const IDLE: Duration = Duration::from_secs(60);

impl Session {
    /// Whether a lease that has so many seconds left was renewed; it is not there any more if not.
    ///
    /// # Errors
    /// `Unavailable` for less than its life, which no member says of one that it has renewed:
    /// something between us and etcd has answered from what it knew.
    pub(crate) fn is_renewed(&self, id: i64, seconds: i64) -> Result<bool> {
        let ttl = match self.purpose(id) {
            Some(Purpose::Hold) => self.hold,
            Some(Purpose::Wait) => self.wait,
            None => 1,
        };
        if seconds > 0 && seconds < ttl {
            let problem = format!(
                "a lease of {ttl} s was renewed for {seconds} s: something else than etcd has answered"
            );
            return Err(Error::new(ErrorKind::Unavailable, problem)
                .with_remedy("the members of etcd themselves in the URL, and not a proxy"));
        }
        Ok(seconds > 0)
    }

    /// Of which of these leases the keys have to be listed: of those on which somebody stands who
    /// does not hear of its end by a watch; now and then of all, for what nobody knows of.
    pub(crate) fn to_list(
        &self,
        leases: &[i64],
        live: &[Live],
        trusted: Instant,
        now: Instant,
    ) -> Vec<i64> {
        let inner = self.lock();
        let is_due = inner.listed.is_none_or(|listed| now.saturating_since(listed) >= LISTED);
        let mut needed = Vec::new();
        for live in live {
            match inner.claims.get(&live.key.id) {
                Some(state) if live.state == LiveState::Queued && state.waits_watched(trusted) => {}
                Some(state) => needed.push(state.lease),
                None => return leases.to_vec(),
            }
        }
        leases.iter().copied().filter(|lease| is_due || needed.contains(lease)).collect()
    }

    /// The keys of all leases were listed by a renewal that was sent then.
    pub(crate) fn was_listed(&self, sent: Instant) {
        self.lock().listed = Some(sent);
    }

    /// The leases that are not needed any more; the session has the name of the first.
    pub(crate) fn to_revoke(&self, used: &HashSet<i64>, now: Instant) -> Vec<i64> {
        if self.is_shared() {
            // Another client may have chosen it.
            return Vec::new();
        }
        let mut inner = self.lock();
        let mut back = Vec::new();
        let has_passed = |since: Instant| now.saturating_since(since) >= IDLE;
        for lease in inner.leases.iter_mut().skip(1) {
            if lease.claims > 0 || used.contains(&lease.id) {
                (lease.empty, lease.retired) = (None, None);
                continue;
            }
            if has_passed(*lease.empty.get_or_insert(now))
                && has_passed(*lease.retired.get_or_insert(now))
            {
                back.push(lease.id);
            }
        }
        inner.leases.retain(|lease| !back.contains(&lease.id));
        back
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;
    use std::sync::Arc;

    use super::super::{ClaimState, PER_LEASE, REMEMBERED, Sessions, WatchedBy};
    use super::*;
    use crate::layout::{Layout, Lines, Record, lease_of};
    use crate::store::{Claim, ClaimId, ClaimKey, SessionId, SessionSpec};
    use crate::time::Clock;

    const WAIT: i64 = 77;
    const SECOND: i64 = 8;

    fn id() -> SessionId {
        SessionId::new("07")
    }

    fn first() -> i64 {
        lease_of(&id())
    }

    fn session(now: Instant) -> Arc<Session> {
        let (sessions, ttl) = (Sessions::default(), Duration::from_secs(30));
        let mut spec = SessionSpec::new(ttl, Duration::ZERO);
        spec.wait_ttl = Duration::from_secs(5);
        sessions.opened(&id(), &spec, true, now)
    }

    fn joins(session: &Session, lease: i64, watched: Option<Instant>) -> Live {
        let key = ClaimKey { name: "a".parse().unwrap(), session: id(), id: ClaimId::random() };
        let claim = Claim::exclusive(
            key.clone(),
            &SessionSpec::new(Duration::from_secs(30), Duration::ZERO),
        );
        let record = Arc::new(Record::of(&claim, &"c".into()));
        session.slot(&Lines::new(Layout::Native, None), &key, Clock::boot().now());
        let watched = watched.map(|since| WatchedBy { since, by: Vec::new() });
        session.insert_claim(
            key.id,
            ClaimState {
                lease,
                created: 1,
                held: false,
                is_dated: false,
                granted: None,
                watched,
                blocked_by: None,
                record,
                is_elsewhere: false,
            },
        );
        Live { key, state: LiveState::Queued }
    }

    #[test]
    fn a_renewal_for_less_than_a_leases_ttl_does_not_count() {
        let session = session(Clock::boot().now());
        let renewed = |seconds: i64| session.is_renewed(first(), seconds);
        assert!(renewed(30).unwrap() && renewed(60).unwrap() && !renewed(0).unwrap());
        let error = renewed(29).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Unavailable
                && error.remedy().unwrap().contains("not a proxy"),
            "{error}"
        );
    }

    #[test]
    fn a_waiters_lease_is_renewed_for_the_wait_ttl_only() {
        let now = Clock::boot().now();
        let session = session(now);
        session.add(WAIT, Purpose::Wait, now);
        let renewed = |seconds: i64| session.is_renewed(WAIT, seconds);
        assert!(session.wait < session.hold);
        assert!(renewed(session.wait).unwrap() && !renewed(0).unwrap());
        assert_eq!(renewed(session.wait - 1).unwrap_err().kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn a_detached_session_that_was_lost_is_forgotten_and_another_one_is_not() {
        let (sessions, now, ttl) =
            (Sessions::default(), Clock::boot().now(), Duration::from_secs(30));
        let [ours, theirs] = [false, true].map(|detached| {
            let (id, spec) = (
                SessionId::random(),
                SessionSpec { detached, ..SessionSpec::new(ttl, Duration::ZERO) },
            );
            let session = sessions.opened(&id, &spec, true, now);
            assert!(Arc::ptr_eq(&sessions.known(&id).unwrap(), &session));
            assert!(
                Arc::ptr_eq(&sessions.opened(&id, &spec, true, now), &session),
                "opened again it is the same"
            );
            id
        });
        for id in [&ours, &theirs] {
            sessions.lost(&sessions.known(id).unwrap());
        }
        assert!(sessions.known(&ours).is_some() && sessions.known(&theirs).is_none());
    }

    #[test]
    fn a_closed_session_is_remembered_for_its_time() {
        let (sessions, now) = (Sessions::default(), Clock::boot().now());
        let (first, second) = (SessionId::random(), SessionId::random());
        sessions.closed(&first, now + REMEMBERED);
        assert!(sessions.was_closed(&first, now) && !sessions.was_closed(&second, now));
        sessions.closed(&second, now + REMEMBERED * 2);
        assert!(
            !sessions.was_closed(&first, now) && sessions.was_closed(&second, now + REMEMBERED)
        );
    }

    /// It may be on its way to a lease that looks empty here.
    #[test]
    fn no_lease_of_a_detached_session_is_given_back_since_another_client_may_use_it() {
        let (sessions, now) = (Sessions::default(), Clock::boot().now());
        let spec = SessionSpec {
            detached: true,
            ..SessionSpec::new(Duration::from_secs(30), Duration::ZERO)
        };
        let session = sessions.opened(&SessionId::random(), &spec, true, now);
        session.add(WAIT, Purpose::Wait, now);
        for minute in 0..10 {
            assert!(session.to_revoke(&HashSet::new(), now + IDLE * minute).is_empty());
            assert!(
                session.living(now + IDLE * minute).contains(&WAIT),
                "others may have renewed it"
            );
        }
    }

    #[test]
    fn a_leases_keys_are_listed_after_missed_ends_and_now_and_then() {
        let now = Clock::boot().now();
        let (session, wait, before) = (session(now), SECOND, now - Duration::from_secs(30));
        session.add(wait, Purpose::Wait, now);
        let all = [first(), wait];
        let watched = joins(&session, wait, Some(now));
        assert_eq!(
            session.to_list(&all, from_ref(&watched), before, now),
            all,
            "nobody has listed them yet"
        );
        session.was_listed(now);
        assert!(session.to_list(&all, from_ref(&watched), before, now).is_empty());
        assert_eq!(
            session.to_list(&all, from_ref(&watched), now, now),
            [wait],
            "its watch is too old"
        );
        let alone = joins(&session, wait, None);
        assert_eq!(session.to_list(&all, &[watched.clone(), alone], before, now), [wait]);
        let mut granted = joins(&session, first(), Some(now));
        granted.state = LiveState::Granted;
        assert_eq!(session.to_list(&all, &[watched.clone(), granted], before, now), [first()]);
        let mut unknown = watched.clone();
        unknown.key.id = ClaimId::random();
        assert_eq!(session.to_list(&all, &[unknown], before, now), all);
        assert_eq!(session.to_list(&all, &[watched], before, now + LISTED), all);
    }

    #[test]
    fn leases_that_a_rush_left_empty_are_revoked_except_the_first() {
        let now = Clock::boot().now();
        let session = session(now);
        let mut others = Vec::new();
        for lease in [first(), SECOND, SECOND + 1] {
            if lease != first() {
                session.add(lease, Purpose::Hold, now);
                session.renewed(lease, now, 30);
            }
            for _ in 0..PER_LEASE {
                others.push((lease, joins(&session, lease, None)));
            }
        }
        assert_eq!(session.lease(Purpose::Hold), None, "all are full");
        others.iter().for_each(|(_, live)| drop(session.left(live.key.id)));
        session.add(WAIT, Purpose::Wait, now);
        let none = HashSet::new();
        assert!(session.to_revoke(&none, now).is_empty());
        assert!(session.to_revoke(&none, now + IDLE).is_empty());
        // A key stands there that nobody knows of.
        let back = session.to_revoke(&[SECOND].into(), now + IDLE * 2);
        assert_eq!(back, [SECOND + 1, WAIT]);
        assert_eq!(session.leases(), [first(), SECOND]);
        assert_eq!(session.lease(Purpose::Hold), Some(first()));
    }

    /// However late a renewal is: a claim that has chosen the lease before has the time to arrive
    /// there.
    #[test]
    fn a_lease_is_revoked_a_minute_after_its_last_possible_use() {
        let now = Clock::boot().now();
        let (session, none) = (session(now), HashSet::new());
        let _full = session.expects(first(), PER_LEASE);
        session.add(SECOND, Purpose::Hold, now);
        session.renewed(SECOND, now, 30);
        assert!(session.to_revoke(&none, now).is_empty());
        assert_eq!(session.lease(Purpose::Hold), Some(SECOND), "somebody is on the way there");
        assert!(session.to_revoke(&none, now + IDLE * 10).is_empty());
        assert!(session.to_revoke(&none, now + IDLE * 20).is_empty());
        assert_eq!(session.lease(Purpose::Hold), None, "nobody chooses it from now on");
        assert!(session.to_revoke(&none, now + IDLE * 21 - Duration::from_nanos(1)).is_empty());
        assert_eq!(session.to_revoke(&none, now + IDLE * 21), [SECOND]);
    }

    #[test]
    fn a_lease_that_somebody_has_chosen_is_not_empty() {
        let now = Clock::boot().now();
        let (session, none) = (session(now), HashSet::new());
        let _full = session.expects(first(), PER_LEASE);
        session.add(SECOND, Purpose::Hold, now);
        session.renewed(SECOND, now, 30);
        for minute in 0..10 {
            assert_eq!(session.lease(Purpose::Hold), Some(SECOND), "after {minute} minutes");
            assert!(session.to_revoke(&none, now + IDLE * minute).is_empty());
        }
    }

    /// No listing shows its key yet.
    #[test]
    fn a_lease_with_a_claim_under_way_is_not_revoked() {
        let now = Clock::boot().now();
        let (session, none) = (session(now), HashSet::new());
        session.add(SECOND, Purpose::Hold, now);
        let expected = session.expects(SECOND, 1);
        for minute in 0..3 {
            assert!(
                session.to_revoke(&none, now + IDLE * minute).is_empty(),
                "after {minute} minutes"
            );
        }
        drop(expected);
        for minute in 3..5 {
            assert!(
                session.to_revoke(&none, now + IDLE * minute).is_empty(),
                "after {minute} minutes"
            );
        }
        assert_eq!(session.to_revoke(&none, now + IDLE * 5), [SECOND]);
    }

    /// Its attempt was polled no more for a while, and reads the answer now.
    #[test]
    fn a_claim_whose_answer_comes_after_its_withdrawal_is_recorded_nowhere() {
        let now = Clock::boot().now();
        let session = session(now);
        let live = joins(&session, first(), None);
        let state = session.claim_state(live.key.id).unwrap();
        assert_eq!(session.lock().leases[0].claims, 1);
        session.left(live.key.id);
        // While its withdrawal is on its way, and after that.
        session.insert_claim(live.key.id, state.clone());
        session.releases_slot(&live.key, now);
        assert!(session.claim_state(live.key.id).is_none());
        session.insert_claim(live.key.id, state);
        assert!(session.claim_state(live.key.id).is_none());
        assert_eq!(session.lock().leases[0].claims, 0);
    }

    /// A renewal may be dropped while its grants are on their way.
    #[test]
    fn claims_that_nobody_awaits_any_more_take_no_room_on_a_lease() {
        let session = session(Clock::boot().now());
        let expected = session.expects(first(), PER_LEASE);
        assert_eq!(session.lease(Purpose::Hold), None);
        drop(expected);
        assert_eq!(session.lease(Purpose::Hold), Some(first()));
    }
}
