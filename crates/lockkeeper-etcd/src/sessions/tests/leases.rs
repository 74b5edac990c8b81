use std::collections::HashSet;

use super::super::leases::{IDLE, PER_LEASE};
use super::*;
use crate::ErrorKind;
use crate::wire::messages::KeyValue;

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

#[test]
fn a_renewal_for_less_than_a_leases_ttl_does_not_count() {
    let session = session(Clock::boot().now());
    let renewed = |seconds: i64| session.leases.is_renewed(first(), seconds);
    assert!(renewed(30).unwrap() && renewed(60).unwrap() && !renewed(0).unwrap());
    let error = renewed(29).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Unavailable && error.remedy().unwrap().contains("not a proxy"),
        "{error}"
    );
}

#[test]
fn a_waiters_lease_is_renewed_for_the_wait_ttl_only() {
    let now = Clock::boot().now();
    let session = session(now);
    session.leases.add(WAIT, Purpose::Wait, now);
    let renewed = |seconds: i64| session.leases.is_renewed(WAIT, seconds);
    assert!(session.leases.ttl(Purpose::Wait) < session.leases.ttl(Purpose::Hold));
    assert!(renewed(session.leases.ttl(Purpose::Wait)).unwrap() && !renewed(0).unwrap());
    assert_eq!(
        renewed(session.leases.ttl(Purpose::Wait) - 1).unwrap_err().kind(),
        ErrorKind::Unavailable
    );
}

/// A claim of that client may be on its way to a lease that looks empty here.
#[test]
fn no_lease_of_a_detached_session_is_given_back_since_another_client_may_use_it() {
    let (sessions, now) = (Sessions::default(), Clock::boot().now());
    let spec =
        SessionSpec { detached: true, ..SessionSpec::new(Duration::from_secs(30), Duration::ZERO) };
    let session = sessions.opened(&SessionId::random(), &spec, true, now);
    session.leases.add(WAIT, Purpose::Wait, now);
    for minute in 0..10 {
        assert!(session.leases.to_revoke(&HashSet::new(), now + IDLE * minute).is_empty());
        assert!(
            session.leases.living(now + IDLE * minute).contains(&WAIT),
            "others may have renewed it"
        );
    }
}

#[test]
fn leases_that_a_rush_left_empty_are_revoked_except_the_first() {
    let now = Clock::boot().now();
    let session = session(now);
    let mut others = Vec::new();
    for lease in [first(), SECOND, SECOND + 1] {
        if lease != first() {
            session.leases.add(lease, Purpose::Hold, now);
            session.leases.renewed(lease, now, 30);
        }
        for _ in 0..PER_LEASE {
            others.push((lease, joins(&session, lease, None)));
        }
    }
    assert_eq!(session.leases.choose(Purpose::Hold), None, "all are full");
    others.iter().for_each(|(_, live)| drop(session.claims.left(live.key.id)));
    session.leases.add(WAIT, Purpose::Wait, now);
    let none = HashSet::new();
    assert!(session.leases.to_revoke(&none, now).is_empty());
    assert!(session.leases.to_revoke(&none, now + IDLE).is_empty());
    // The lease has a key that this client does not know.
    let back = session.leases.to_revoke(&[SECOND].into(), now + IDLE * 2);
    assert_eq!(back, [SECOND + 1, WAIT]);
    assert_eq!(session.leases.ids(), [first(), SECOND]);
    assert_eq!(session.leases.choose(Purpose::Hold), Some(first()));
}

/// However late a renewal is: a claim that has chosen the lease before has the time to arrive
/// there.
#[test]
fn a_lease_is_revoked_a_minute_after_its_last_possible_use() {
    let now = Clock::boot().now();
    let (session, none) = (session(now), HashSet::new());
    let _full = session.leases.expects(first(), PER_LEASE);
    session.leases.add(SECOND, Purpose::Hold, now);
    session.leases.renewed(SECOND, now, 30);
    assert!(session.leases.to_revoke(&none, now).is_empty());
    assert_eq!(session.leases.choose(Purpose::Hold), Some(SECOND), "somebody is on the way there");
    assert!(session.leases.to_revoke(&none, now + IDLE * 10).is_empty());
    assert!(session.leases.to_revoke(&none, now + IDLE * 20).is_empty());
    assert_eq!(session.leases.choose(Purpose::Hold), None, "nobody chooses it from now on");
    assert!(session.leases.to_revoke(&none, now + IDLE * 21 - Duration::from_nanos(1)).is_empty());
    assert_eq!(session.leases.to_revoke(&none, now + IDLE * 21), [SECOND]);
}

#[test]
fn a_lease_that_somebody_has_chosen_is_not_empty() {
    let now = Clock::boot().now();
    let (session, none) = (session(now), HashSet::new());
    let _full = session.leases.expects(first(), PER_LEASE);
    session.leases.add(SECOND, Purpose::Hold, now);
    session.leases.renewed(SECOND, now, 30);
    for minute in 0..10 {
        assert_eq!(session.leases.choose(Purpose::Hold), Some(SECOND), "after {minute} minutes");
        assert!(session.leases.to_revoke(&none, now + IDLE * minute).is_empty());
    }
}

/// No listing shows its key yet.
#[test]
fn a_lease_with_a_claim_under_way_is_not_revoked() {
    let now = Clock::boot().now();
    let (session, none) = (session(now), HashSet::new());
    session.leases.add(SECOND, Purpose::Hold, now);
    let expected = session.leases.expects(SECOND, 1);
    for minute in 0..3 {
        assert!(
            session.leases.to_revoke(&none, now + IDLE * minute).is_empty(),
            "after {minute} minutes"
        );
    }
    drop(expected);
    for minute in 3..5 {
        assert!(
            session.leases.to_revoke(&none, now + IDLE * minute).is_empty(),
            "after {minute} minutes"
        );
    }
    assert_eq!(session.leases.to_revoke(&none, now + IDLE * 5), [SECOND]);
}

/// A renewal may be dropped while its grants are on their way.
#[test]
fn claims_that_nobody_awaits_any_more_take_no_room_on_a_lease() {
    let session = session(Clock::boot().now());
    let expected = session.leases.expects(first(), PER_LEASE);
    assert_eq!(session.leases.choose(Purpose::Hold), None);
    drop(expected);
    assert_eq!(session.leases.choose(Purpose::Hold), Some(first()));
}

/// A client that counts from its own last renewal must not put a claim on a lease that was
/// renewed before that.
#[test]
fn a_lease_of_another_client_bears_nothing_before_this_client_has_renewed_it() {
    let (sessions, lines, id) =
        (Sessions::default(), Lines::new(Layout::Native, None), SessionId::random());
    let now = Clock::boot().now();
    let spec =
        SessionSpec { detached: true, wait_ttl: TTL / 3, ..SessionSpec::new(TTL, Duration::ZERO) };
    let session = sessions.opened(&id, &spec, false, now);
    session.leases.learn(&lines, &id, &shown(&lines, &id), now);
    let [(hold, _), (wait, _)] = THEIRS;
    assert_eq!(
        [hold, wait].map(|lease| session.leases.purpose(lease)),
        [Some(Purpose::Hold), Some(Purpose::Wait)]
    );
    assert!(session.leases.bears_holders(lease_of(&id)) && !session.leases.bears_holders(hold));
    assert!(session.leases.is_stale(wait, now), "a waiter counts from its request on");
    assert_eq!(session.leases.choose(Purpose::Wait), None);
    assert_eq!(
        session.leases.renewal_of(hold).1,
        TTL,
        "another client may have renewed it just now"
    );
    for (lease, seconds) in
        [(hold, session.leases.ttl(Purpose::Hold)), (wait, session.leases.ttl(Purpose::Wait))]
    {
        session.leases.renewed(lease, now, seconds);
    }
    assert!(
        session.leases.bears_holders(hold)
            && !session.leases.bears_holders(wait)
            && !session.leases.is_stale(wait, now)
    );
}

/// A client has made a lease, and its renewal reads the lease before the client has the answer.
#[test]
fn a_lease_is_known_once() {
    let (sessions, lines, id) =
        (Sessions::default(), Lines::new(Layout::Native, None), SessionId::random());
    let now = Clock::boot().now();
    let spec =
        SessionSpec { detached: true, wait_ttl: TTL / 3, ..SessionSpec::new(TTL, Duration::ZERO) };
    let session = sessions.insert(Session::opened(&lines, &id, &spec, false, 1, now), now);
    session.leases.learn(&lines, &id, &shown(&lines, &id), now);
    session.leases.add(THEIRS[0].0, Purpose::Hold, now);
    assert_eq!(session.leases.ids(), [lease_of(&id), THEIRS[0].0, THEIRS[1].0]);
}

#[test]
fn what_another_program_shows_on_a_lease_of_its_own_is_no_lease_of_the_session() {
    let (sessions, lines, id) =
        (Sessions::default(), Lines::new(Layout::Native, None), SessionId::random());
    let (now, spec) = (Clock::boot().now(), SessionSpec::new(TTL, Duration::ZERO));
    let session = sessions.opened(&id, &spec, false, now);
    let elsewhere =
        shown(&lines, &id).into_iter().map(|kv| KeyValue { lease: 7, ..kv }).collect::<Vec<_>>();
    session.leases.learn(&lines, &id, &elsewhere, now);
    assert_eq!(session.leases.ids(), [lease_of(&id)]);
}
