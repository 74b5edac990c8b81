use std::collections::HashMap;

use super::*;

/// The attempt was not polled for a while, and reads the answer now.
#[test]
fn a_claim_whose_answer_comes_after_its_withdrawal_is_recorded_nowhere() {
    let now = Clock::boot().now();
    let session = session(now);
    let live = joins(&session, first(), None);
    let state = session.claims.state(live.key.id).unwrap();
    assert_eq!(session.leases.claims_on_the_first(), 1);
    session.claims.left(live.key.id);
    // While its withdrawal is on its way, and after that.
    session.claims.insert(live.key.id, state.clone());
    session.claims.releases_slot(&live.key, now);
    assert!(session.claims.state(live.key.id).is_none());
    session.claims.insert(live.key.id, state);
    assert!(session.claims.state(live.key.id).is_none());
    assert_eq!(session.leases.claims_on_the_first(), 0);
}

/// Else a lease that has served 500 claims would count as full for ever.
#[test]
fn a_claim_that_another_client_has_withdrawn_is_forgotten_after_a_whole_life() {
    let (sessions, lines, id) =
        (Sessions::default(), Lines::new(Layout::Native, None), SessionId::random());
    let now = Clock::boot().now();
    let spec = SessionSpec { detached: true, ..SessionSpec::new(TTL, Duration::ZERO) };
    let session = sessions.insert(Session::opened(&lines, &id, &spec, false, 1, now), now);
    let key = ClaimKey { name: "a".parse().unwrap(), session: id.clone(), id: ClaimId::random() };
    let slot = session.claims.slot(&lines, &key, now);
    let record = Arc::new(Record::of(&Claim::exclusive(key.clone(), &spec), &"c".into()));
    let state =
        ClaimState { held: true, is_dated: true, ..ClaimState::new(lease_of(&id), 1, record) };
    session.claims.insert(key.id, state);
    let listed = [Live { key: key.clone(), state: LiveState::Granted }];
    let there = HashMap::from([(slot.at, lease_of(&id))]);
    let is_known = || session.claims.state(key.id).is_some() && session.claims.has_slot(key.id);
    for (keys, live) in [(&there, &[][..]), (&HashMap::new(), &listed[..])] {
        session.claims.forget_absent(keys, live, now);
        session.claims.forget_absent(keys, live, now + TTL * 2);
        assert!(is_known());
    }
    session.claims.forget_absent(&HashMap::new(), &[], now);
    assert!(is_known());
    session.claims.forget_absent(&HashMap::new(), &[], now + TTL);
    assert!(session.claims.state(key.id).is_none() && !session.claims.has_slot(key.id));
}

/// The answer to the claim was lost, and another client has withdrawn the claim.
#[test]
fn a_slot_of_a_claim_without_an_answer_is_released_after_a_whole_life() {
    let (sessions, lines, id) =
        (Sessions::default(), Lines::new(Layout::Native, None), SessionId::random());
    let now = Clock::boot().now();
    let spec = SessionSpec { detached: true, ..SessionSpec::new(TTL, Duration::ZERO) };
    let session = sessions.opened(&id, &spec, false, now);
    let key = ClaimKey { name: "a".parse().unwrap(), session: id, id: ClaimId::random() };
    session.claims.slot(&lines, &key, now);
    let listed = [Live { key: key.clone(), state: LiveState::InFlight }];
    for live in [&listed[..], &[]] {
        session.claims.forget_absent(&HashMap::new(), live, now + TTL);
        assert!(session.claims.has_slot(key.id));
    }
    session.claims.forget_absent(&HashMap::new(), &[], now + TTL * 2);
    assert!(!session.claims.has_slot(key.id));
}
