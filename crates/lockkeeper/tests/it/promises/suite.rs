//! The cases of the contract suite, and the capabilities that each needs, read from the file that
//! lists them.

use lockkeeper::store::{Admission, Capabilities, Expiry};

const LISTS: [&str; 2] = [
    include_str!("../../../../lockkeeper-testing/src/suite.rs"),
    include_str!("../../../../lockkeeper-testing/src/keeper_suite.rs"),
];

/// The needs of the case (`Queue Weighted`). Panics for a case that is not in the suite.
pub(super) fn needs(case: &str) -> &'static str {
    let found = LISTS.iter().find_map(|list| listed(list, case));
    found.unwrap_or_else(|| panic!("the suite has no case {case}"))
}

/// Looks for the case in lines of the form `group {`, `case [needs]`, `}`.
fn listed(list: &'static str, case: &str) -> Option<&'static str> {
    let (group, name) = case.split_once("::")?;
    let mut lines =
        list.lines().map(str::trim).skip_while(|line| line.strip_suffix(" {") != Some(group));
    let inside = lines.by_ref().skip(1).take_while(|line| *line != "}");
    let of = inside.filter_map(|line| line.strip_suffix(']')?.split_once(" ["));
    of.filter(|(listed, _)| *listed == name).map(|(_, needs)| needs).next()
}

/// A need of the case that the store lacks.
pub(super) fn missing(case: &str, can: &Capabilities) -> Option<&'static str> {
    needs(case).split_whitespace().find(|need| !is_met(need, can))
}

fn is_met(need: &str, can: &Capabilities) -> bool {
    match need {
        "Amend" => can.amend,
        "Detached" => can.resumable,
        "LockDelay" => !can.lock_delay_max.is_zero(),
        "MinHold" => !can.min_hold_max.is_zero(),
        "PerClaimExpiry" => can.expiry == Expiry::PerClaim,
        "Queue" => can.queue,
        "ReadWrite" => can.admission >= Admission::ReadWrite,
        "SessionExpiry" => can.expiry != Expiry::PerClaim,
        "Weighted" => can.admission >= Admission::Weighted,
        // A need of the harness, and not of the store. The harness lists the cases that it leaves
        // out.
        _ => true,
    }
}

#[test]
fn a_case_is_found_with_its_needs() {
    assert_eq!(needs("weights::permits_are_counted"), "Queue Weighted");
    assert_eq!(needs("token::they_are_in_range"), "");
    assert_eq!(needs("loss::a_fixed_lease_begins_at_the_grant"), "Queue NoFaults");
    for unknown in ["token::permits_are_counted", "weights::no_such_case", "weights"] {
        assert!(LISTS.iter().all(|list| listed(list, unknown).is_none()), "{unknown}");
    }
}

#[test]
fn a_case_that_needs_more_than_a_store_has_is_missing_there() {
    let mutexes =
        Capabilities { admission: Admission::Exclusive, amend: false, ..Capabilities::full() };
    assert_eq!(missing("weights::permits_are_counted", &mutexes), Some("Weighted"));
    assert_eq!(missing("weights::readers_share", &mutexes), Some("ReadWrite"));
    assert_eq!(missing("amend::a_dead_claim_is_not_changed", &mutexes), Some("Amend"));
    assert_eq!(missing("claim::a_held_lock_is_not_granted_again", &mutexes), None);
    assert_eq!(missing("session::an_expired_session_is_lost", &mutexes), Some("SessionExpiry"));
}
