//! The rules hold in every world within the bounds.

use super::world::Bounds;

/// Explores a world, and returns how many states it has.
fn holds(bounds: &Bounds) -> usize {
    let found = bounds.explore(false);
    assert!(!found.twice, "two claims got one token: {bounds:?}");
    assert!(!found.disorder, "a token is lower than one of before: {bounds:?}");
    assert!(!found.crowd, "more hold than may: {bounds:?}");
    assert!(found.all_in_order, "no two claims got tokens one after the other: {bounds:?}");
    eprintln!("{} states of {bounds:?}", found.states);
    found.states
}

/// The run of all tests may take longer.
fn all() -> bool {
    std::env::var_os("LOCKKEEPER_ALL").is_some()
}

#[test]
fn tokens_of_mutexes_are_unique_and_rise() {
    assert!(holds(&Bounds { highest: if all() { 4 } else { 3 }, ..Bounds::MUTEX }) > 10_000);
}

#[test]
fn tokens_are_unique_and_rise_on_two_and_four_nodes() {
    holds(&Bounds { nodes: 2, highest: if all() { 5 } else { 4 }, ..Bounds::MUTEX });
    holds(&Bounds { nodes: 4, highest: 2, ..Bounds::MUTEX });
}

#[test]
fn tokens_of_readers_are_unique_and_rise() {
    holds(&Bounds { weights: [1, 1, 3], capacity: 3, ..Bounds::MUTEX });
}

#[test]
fn tokens_of_a_reader_and_a_writer_are_unique_and_rise() {
    holds(&Bounds { weights: [1, 3, 3], capacity: 3, ..Bounds::MUTEX });
}

#[test]
fn no_writer_holds_beside_readers_while_no_node_drops_a_claim() {
    let readers =
        Bounds { claims: 3, weights: [1, 1, 3], capacity: 3, drops: false, ..Bounds::MUTEX };
    let found = Bounds { others: false, ..readers }.explore(false);
    assert!(!found.crowd && !found.twice && !found.disorder, "{found:?}");
}
