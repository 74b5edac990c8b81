//! Sessions without an etcd: what they remember, and what renewals list.

mod claims;
mod leases;

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use super::known::SESSIONS;
use super::lists::LISTED;
use super::tombstones::REMEMBERED;
use super::*;
use crate::layout::{Layout, Lines, Record, lease_of};
use crate::store::{Claim, ClaimId, ClaimKey, Live, LiveState, SessionId, SessionSpec};
use crate::time::{Clock, Instant};

pub(super) const WAIT: i64 = 77;
pub(super) const SECOND: i64 = 8;
pub(super) const TTL: Duration = Duration::from_secs(30);

pub(super) fn id() -> SessionId {
    SessionId::new("07")
}

pub(super) fn first() -> i64 {
    lease_of(&id())
}

pub(super) fn session(now: Instant) -> Arc<Session> {
    let (sessions, ttl) = (Sessions::default(), Duration::from_secs(30));
    let mut spec = SessionSpec::new(ttl, Duration::ZERO);
    spec.wait_ttl = Duration::from_secs(5);
    sessions.opened(&id(), &spec, true, now)
}

pub(super) fn joins(session: &Session, lease: i64, watched: Option<Instant>) -> Live {
    let key = ClaimKey { name: "a".parse().unwrap(), session: id(), id: ClaimId::random() };
    let claim =
        Claim::exclusive(key.clone(), &SessionSpec::new(Duration::from_secs(30), Duration::ZERO));
    let record = Arc::new(Record::of(&claim, &"c".into()));
    session.claims.slot(&Lines::new(Layout::Native, None), &key, Clock::boot().now());
    let watched = watched.map(|since| WatchedBy { since, by: Vec::new() });
    session.claims.insert(key.id, ClaimState { watched, ..ClaimState::new(lease, 1, record) });
    Live { key, state: LiveState::Queued }
}

#[test]
fn a_detached_session_that_was_lost_is_forgotten_and_another_one_is_not() {
    let (sessions, now, ttl) = (Sessions::default(), Clock::boot().now(), Duration::from_secs(30));
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

/// A client of many detached locks has a session for each of them.
#[test]
fn sessions_that_are_over_are_forgotten_when_their_number_has_doubled() {
    let (sessions, now) = (Sessions::default(), Clock::boot().now());
    let spec = SessionSpec { detached: true, ..SessionSpec::new(TTL, Duration::ZERO) };
    let mut opened = Vec::new();
    for number in 0..8 * SESSIONS {
        // Each session is over before the next one is opened.
        let now = now + TTL * 10 * u32::try_from(number).unwrap();
        let id = SessionId::random();
        sessions.opened(&id, &spec, true, now);
        opened.push(id);
    }
    let known = opened.iter().filter(|id| sessions.known(id).is_some()).count();
    assert!((1..=SESSIONS).contains(&known), "{known}");
    assert!(sessions.known(&opened[8 * SESSIONS - 1]).is_some());
}

#[test]
fn a_closed_session_is_remembered_for_its_time() {
    let (sessions, now) = (Sessions::default(), Clock::boot().now());
    let (first, second) = (SessionId::random(), SessionId::random());
    sessions.closed(&first, now + REMEMBERED);
    assert!(sessions.was_closed(&first, now) && !sessions.was_closed(&second, now));
    sessions.closed(&second, now + REMEMBERED * 2);
    assert!(!sessions.was_closed(&first, now) && sessions.was_closed(&second, now + REMEMBERED));
    // A session that is closed again is remembered from then on.
    sessions.closed(&second, now + REMEMBERED * 3);
    sessions.closed(&first, now + REMEMBERED * 3);
    assert!(sessions.was_closed(&second, now + REMEMBERED * 2));
}

#[test]
fn a_leases_keys_are_listed_after_missed_ends_and_now_and_then() {
    let now = Clock::boot().now();
    let (session, wait, before) = (session(now), SECOND, now - Duration::from_secs(30));
    session.leases.add(wait, Purpose::Wait, now);
    let all = [first(), wait];
    let watched = joins(&session, wait, Some(now));
    assert_eq!(
        session.to_list(&all, from_ref(&watched), before, now),
        all,
        "nobody has listed them yet"
    );
    session.lists.was_listed(now);
    assert!(session.to_list(&all, from_ref(&watched), before, now).is_empty());
    assert_eq!(session.to_list(&all, from_ref(&watched), now, now), [wait], "its watch is too old");
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
