//! Histories written by hand. Each bad history has one fault, and is beside the nearest good
//! history.

use std::time::Duration;

use super::super::{Broken, Call, History, Outcome, Rules};
use super::{ALL, Script, acquire, granted};

#[track_caller]
fn good(script: &Script, rules: Rules) {
    if let Err(violation) = script.history().check("m", &rules) {
        panic!("{violation}");
    }
}

/// Asserts which promise is broken, and which operation is named.
#[track_caller]
fn bad(script: &Script, rules: Rules, broken: Broken, op: u64) {
    let violation = script.history().check("m", &rules).expect_err("a violation");
    assert_eq!(violation.broken, broken, "{violation}");
    assert!(violation.operation.contains(&format!("(operation {op} of p")), "{violation}");
}

fn mutex() -> Rules {
    Rules::exclusive()
}

#[test]
fn one_after_the_other_is_good() {
    let mut script = Script::default();
    let a = script.got((10, 20), ALL, 1);
    script.released((30, 40), a);
    let b = script.got((15, 36), ALL, 2);
    script.holds(b, 50, 60);
    let summary = script.history().check("m", &mutex()).unwrap();
    assert_eq!((summary.operations, summary.grants, summary.lost), (3, 2, 1));
}

#[test]
fn two_holders_at_once_are_named() {
    let mut script = Script::default();
    let a = script.got((10, 20), ALL, 1);
    script.holds(a, 50, 90);
    let b = script.got((25, 45), ALL, 2);
    script.holds(b, 55, 90);
    bad(&script, mutex(), Broken::Exclusion, b);
}

#[test]
fn a_hold_lasts_until_its_last_known_validity() {
    let mut script = Script::default();
    let a = script.got((10, 20), ALL, 1);
    script.holds(a, 22, 60);
    let b = script.got((25, 45), ALL, 2);
    script.holds(b, 50, 90);
    good(&script, mutex());
    // The process of `a` was alive: it released the lock.
    script.released((70, 80), a);
    bad(&script, mutex(), Broken::Exclusion, b);
}

#[test]
fn readers_hold_together_and_exclude_a_writer() {
    let mut script = Script::default();
    let (a, b) = (script.got((10, 20), 1, 1), script.got((10, 21), 1, 2));
    for reader in [a, b] {
        script.holds(reader, 50, 90);
    }
    good(&script, mutex());
    let writer = script.got((30, 40), ALL, 3);
    script.holds(writer, 45, 90);
    bad(&script, mutex(), Broken::Exclusion, writer);
}

#[test]
fn permits_are_counted() {
    let mut script = Script::default();
    for token in 1..=2 {
        let permits = script.got((10, 20 + token), 2, token);
        script.holds(permits, 50, 90);
    }
    good(&script, Rules::permits(4));
    bad(&script, Rules::permits(3), Broken::Exclusion, 2);
}

/// A claim of `weight` permits that names the capacity `of`.
fn permits(weight: u32, of: u32, waits: bool) -> Call {
    Call::Acquire { weight, of: Some(of), waits, sure: true, owner: None }
}

#[test]
fn the_smallest_number_of_permits_counts_for_all() {
    let mut script = Script::default();
    let large = script.op((10, 20), permits(2, 5, true), Some(granted(1)));
    script.holds(large, 65, 90);
    let small = script.op((22, 30), permits(1, 3, true), Some(granted(2)));
    script.holds(small, 65, 90);
    // Three permits are held, and one of their holders names a capacity of 3.
    script.op((40, 45), permits(1, 5, false), Some(Outcome::Refused));
    good(&script, Rules::permits(5));
    let beyond = script.op((52, 55), permits(1, 5, true), Some(granted(3)));
    script.holds(beyond, 60, 90);
    bad(&script, Rules::permits(5), Broken::Exclusion, beyond);
}

#[test]
fn a_number_that_has_left_counts_no_more() {
    let mut script = Script::default();
    let small = script.op((10, 20), permits(1, 1, true), Some(granted(1)));
    script.released((21, 22), small);
    let large = script.op((30, 40), permits(4, 5, true), Some(granted(2)));
    script.holds(large, 50, 90);
    good(&script, Rules::permits(5));
    script.op((55, 58), permits(1, 5, false), Some(Outcome::Refused));
    bad(&script, Rules::permits(5), Broken::Order, 4);
}

#[test]
fn a_token_that_comes_twice_is_named() {
    let mut script = Script::default();
    let a = script.got((10, 20), ALL, 7);
    script.released((21, 22), a);
    let b = script.got((30, 40), ALL, 7);
    bad(&script, mutex(), Broken::Token, b);
}

#[test]
fn a_token_that_goes_back_is_named() {
    let mut script = Script::default();
    let a = script.got((10, 20), 1, 7);
    let b = script.got((30, 40), 1, 6);
    script.released((50, 60), a);
    bad(&script, mutex(), Broken::Token, b);
}

#[test]
fn tokens_of_those_who_came_together_may_return_in_any_order() {
    let mut script = Script::default();
    script.got((10, 20), 1, 7);
    script.got((15, 40), 1, 6);
    good(&script, mutex());
}

#[test]
fn a_token_lower_than_that_of_who_held_before_has_no_order() {
    let mut script = Script::default();
    let a = script.got((10, 20), ALL, 7);
    script.released((21, 22), a);
    // `b` had asked before `a` had the lock, so `b` may also have had it first.
    let b = script.got((15, 40), ALL, 6);
    good(&script, mutex());
    script.holds(b, 50, 60);
    bad(&script, mutex(), Broken::Order, b);
}

#[test]
fn a_grant_that_returned_before_the_release_was_requested_has_no_order() {
    let mut script = Script::default();
    let a = script.got((10, 20), ALL, 1);
    script.holds(a, 30, 30);
    let b = script.got((22, 28), ALL, 2);
    script.released((40, 50), a);
    // No look shows `b` as a holder: only the order shows the fault.
    bad(&script, mutex(), Broken::Order, b);
}

#[test]
fn a_refusal_needs_a_holder() {
    let mut script = Script::default();
    let a = script.got((10, 20), ALL, 1);
    script.refused((22, 25), 1);
    script.released((30, 40), a);
    script.refused((35, 45), ALL);
    good(&script, mutex());
    script.refused((50, 55), ALL);
    bad(&script, mutex(), Broken::Order, 5);
}

#[test]
fn a_reader_beside_readers_is_not_refused() {
    let mut script = Script::default();
    script.got((10, 20), 1, 1);
    script.refused((22, 25), ALL);
    good(&script, mutex());
    script.refused((26, 30), 1);
    bad(&script, mutex(), Broken::Order, 3);
}

#[test]
fn who_waits_is_a_reason_to_refuse_others() {
    let mut script = Script::default();
    let reader = script.got((10, 20), 1, 1);
    script.got((15, 60), ALL, 2);
    script.refused((22, 25), 1);
    script.released((50, 55), reader);
    good(&script, mutex());
}

#[test]
fn an_unknown_outcome_justifies_refusals_while_its_claim_may_linger() {
    let mut script = Script::default();
    script.op((10, 20), acquire(ALL, false), Some(Outcome::Unknown));
    script.refused((30, 35), ALL);
    good(&script, mutex());
    good(&script, mutex().lingering(Duration::from_nanos(12)));
    bad(&script, mutex().lingering(Duration::from_nanos(8)), Broken::Order, 2);
}

#[test]
fn who_was_killed_may_hold_for_ever_or_no_more() {
    let mut script = Script::default();
    let a = script.got((10, 20), ALL, 1);
    script.holds(a, 30, 1000);
    script.refused((200, 210), ALL);
    let b = script.got((220, 230), ALL, 2);
    script.holds(b, 240, 250);
    good(&script, mutex());
    let violation =
        script.history().check("m", &mutex().delayed(Duration::from_nanos(300))).unwrap_err();
    assert_eq!(violation.broken, Broken::Order, "its delay was not kept: {violation}");
}

#[test]
fn a_release_of_unknown_outcome_may_come_late_or_never() {
    for refused in [true, false] {
        let mut script = Script::default();
        let a = script.got((10, 20), ALL, 1);
        script.op((30, 40), Call::Release { of: a }, Some(Outcome::Unknown));
        if refused {
            script.refused((100, 110), ALL);
        }
        script.got((120, 130), ALL, 2);
        good(&script, mutex());
    }
}

#[test]
fn what_was_lost_is_kept_for_its_delay() {
    let mut script = Script::default();
    let a = script.got((10, 20), ALL, 1);
    script.holds(a, 25, 40);
    script.op((70, 80), Call::Release { of: a }, Some(Outcome::Lost));
    let b = script.got((30, 65), ALL, 2);
    script.holds(b, 66, 90);
    good(&script, mutex().delayed(Duration::from_nanos(20)));
    bad(&script, mutex().delayed(Duration::from_nanos(30)), Broken::Order, b);
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer() {
    for (weight, is_good) in [(1, true), (ALL, false)] {
        let mut script = Script::default();
        let a = script.got((10, 20), ALL, 1);
        script.op((30, 40), Call::Downgrade { of: a }, Some(Outcome::Done));
        script.holds(a, 80, 90);
        let b = script.got((35, 50), weight, 2);
        script.holds(b, 60, 90);
        if is_good {
            good(&script, mutex());
        } else {
            bad(&script, mutex(), Broken::Exclusion, b);
        }
    }
}

#[test]
fn readers_come_no_sooner_than_the_downgrade() {
    let mut script = Script::default();
    let a = script.got((10, 20), ALL, 1);
    let early = script.got((21, 28), 1, 2);
    script.op((30, 40), Call::Downgrade { of: a }, Some(Outcome::Done));
    script.holds(a, 80, 90);
    bad(&script, mutex(), Broken::Order, early);
}

#[test]
fn an_upgrade_takes_the_place_of_its_reader_alone() {
    for beside in [false, true] {
        let mut script = Script::default();
        let a = script.got((10, 20), 1, 1);
        if beside {
            script.got((12, 22), 1, 2);
        }
        let up = script.op((30, 40), Call::Upgrade { of: a, sure: true }, Some(granted(3)));
        script.released((50, 60), up);
        if beside {
            script.released((41, 45), 2);
            bad(&script, mutex(), Broken::Order, up);
        } else {
            good(&script, mutex());
        }
    }
}

#[test]
fn a_reader_beside_an_upgraded_writer_is_named() {
    let mut script = Script::default();
    let a = script.got((10, 20), 1, 1);
    let up = script.op((30, 40), Call::Upgrade { of: a, sure: true }, Some(granted(2)));
    script.holds(up, 80, 90);
    let reader = script.got((45, 50), 1, 3);
    script.holds(reader, 60, 90);
    bad(&script, mutex(), Broken::Exclusion, reader);
}

#[test]
fn an_upgrade_is_refused_only_beside_others() {
    let mut script = Script::default();
    let a = script.got((10, 20), 1, 1);
    let b = script.got((12, 22), 1, 2);
    script.op((30, 40), Call::Upgrade { of: a, sure: true }, Some(Outcome::Refused));
    script.released((50, 60), b);
    good(&script, mutex());
    let up = script.op((70, 80), Call::Upgrade { of: a, sure: true }, Some(Outcome::Refused));
    bad(&script, mutex(), Broken::Order, up);
}

#[test]
fn an_owner_holds_again_and_releases_as_often() {
    let entry = Call::Acquire { weight: ALL, of: None, waits: true, sure: true, owner: Some(5) };
    let mut script = Script::default();
    let outer = script.op((10, 20), entry.clone(), Some(granted(1)));
    let inner = script.op((30, 40), entry.clone(), Some(granted(1)));
    script.released((50, 60), outer);
    script.holds(inner, 70, 70);
    script.released((75, 80), inner);
    let next = script.got((55, 77), ALL, 2);
    script.holds(next, 90, 100);
    good(&script, mutex());
    // After the last release of the owner, the token is spent.
    let again = script.op((110, 120), entry, Some(granted(1)));
    bad(&script, mutex(), Broken::Token, again);
}

#[test]
fn nobody_else_gets_it_between_the_releases_of_an_owner() {
    let entry = Call::Acquire { weight: ALL, of: None, waits: true, sure: true, owner: Some(5) };
    let mut script = Script::default();
    let outer = script.op((10, 20), entry.clone(), Some(granted(1)));
    let inner = script.op((30, 40), entry, Some(granted(1)));
    script.released((50, 60), inner);
    script.got((55, 65), ALL, 2);
    script.released((75, 80), outer);
    bad(&script, mutex(), Broken::Order, 4);
}

#[test]
fn an_end_without_a_beginning_is_nonsense() {
    let mut script = Script::default();
    script.released((10, 20), 7);
    let violation = script.history().check("m", &mutex()).unwrap_err();
    assert_eq!(violation.broken, Broken::Nonsense);
    let mut script = Script::default();
    script.holds(3, 10, 20);
    assert_eq!(script.history().check("m", &mutex()).unwrap_err().broken, Broken::Nonsense);
}

#[test]
fn a_history_is_read_as_written_except_a_torn_line() {
    let mut script = Script::default();
    let a = script.got((10, 20), 1, (1 << 54) + 1);
    script.holds(a, 25, 40);
    let up = script.op((30, 40), Call::Upgrade { of: a, sure: true }, Some(granted((1 << 54) + 2)));
    script.op((50, 60), Call::Drop { of: up }, None);
    let history = script.history();
    let mut text = Vec::new();
    history.write(&mut text).unwrap();
    assert_eq!(History::read(&text[..]).unwrap(), history);
    let cut = History::read(&text[..text.len() - 5]).unwrap();
    assert_eq!(cut.entries(), &history.entries()[..history.entries().len() - 1]);
    let error = History::read(&b"{}\n"[..]).unwrap_err();
    assert!(error.to_string().starts_with("line 1 is no entry"), "{error}");
}
