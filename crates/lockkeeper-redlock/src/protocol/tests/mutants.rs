//! Each rule that looks as good, and is not: the search finds what goes wrong.

use super::world::{Bounds, Found, Mutant};

fn caught(bounds: &Bounds) -> Found {
    bounds.explore(true)
}

fn mutex(mutant: Mutant) -> Found {
    caught(&Bounds { mutant, any_floor: false, ..Bounds::MUTEX })
}

#[test]
fn a_the_maximum_without_a_raise_gives_one_token_twice() {
    let found = mutex(Mutant::MaximumWithoutRaise);
    assert!(found.twice || found.disorder, "{found:?}");
}

#[test]
fn b_the_median_gives_one_token_twice_or_goes_back() {
    let found = mutex(Mutant::Median);
    assert!(found.twice || found.disorder, "{found:?}");
}

#[test]
fn c_a_raise_on_a_node_without_the_claim_gives_one_token_twice() {
    assert!(mutex(Mutant::RaiseAnyone).twice);
}

#[test]
fn d_acknowledgements_of_higher_numbers_give_one_token_twice() {
    assert!(mutex(Mutant::AtLeast).twice);
}

#[test]
fn e_a_counter_that_is_lost_once_gives_one_token_twice() {
    let found = caught(&Bounds { losses: 1, any_floor: false, ..Bounds::MUTEX });
    assert!(found.twice || found.disorder, "{found:?}");
}

#[test]
fn g_a_raise_to_the_floor_alone_gives_readers_one_token_twice() {
    let readers = Bounds { weights: [1, 1, 3], capacity: 3, any_floor: false, ..Bounds::MUTEX };
    assert!(caught(&Bounds { mutant: Mutant::SetToFloor, ..readers }).twice);
}

#[test]
fn h_a_semaphore_over_a_majority_has_too_many_holders() {
    let permits = Bounds { claims: 3, capacity: 2, drops: false, others: false, ..Bounds::MUTEX };
    assert!(caught(&permits).crowd);
}
