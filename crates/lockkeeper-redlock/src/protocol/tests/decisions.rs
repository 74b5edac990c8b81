//! The decisions of a client, answer by answer.

use proptest::prelude::*;

use super::super::{Acquire, Release, Released, RenewStep, Renewing, Step};

fn begun(nodes: usize) -> Acquire {
    let mut acquire = Acquire::new(nodes);
    assert_eq!(acquire.begin(), Step::Ask { floor: 0, nodes: (0..nodes).collect() });
    acquire
}

#[test]
fn an_acquire_is_done_when_a_majority_has_one_number() {
    let mut acquire = begun(3);
    acquire.held(0, 0, 7);
    assert_eq!(acquire.step(), Step::Wait);
    acquire.held(2, 0, 7);
    assert_eq!(acquire.step(), Step::Granted(7));
}

#[test]
fn numbers_that_differ_are_raised_to_the_highest() {
    let mut acquire = begun(3);
    acquire.held(0, 0, 7);
    acquire.held(1, 0, 9);
    assert_eq!(acquire.step(), Step::Ask { floor: 9, nodes: vec![0, 2] });
    assert_eq!(acquire.step(), Step::Wait);
    // The answer to the first request is too low by now, and another one is under way.
    acquire.held(2, 0, 8);
    assert_eq!(acquire.step(), Step::Wait);
    acquire.held(0, 9, 9);
    assert_eq!(acquire.step(), Step::Granted(9));
}

/// A node that had a higher number by then answers with a higher one than the floor.
#[test]
fn a_number_above_the_floor_does_not_count_for_it() {
    let mut acquire = begun(3);
    acquire.held(0, 0, 7);
    acquire.held(1, 0, 9);
    acquire.refused(2);
    assert_eq!(acquire.step(), Step::Ask { floor: 9, nodes: vec![0] });
    acquire.held(0, 9, 12);
    assert_eq!(acquire.step(), Step::Ask { floor: 12, nodes: vec![1] });
    acquire.held(1, 12, 12);
    assert_eq!(acquire.step(), Step::Granted(12));
}

#[test]
fn an_acquire_fails_as_soon_as_no_majority_is_left() {
    for nodes in [3, 4, 5] {
        let mut acquire = begun(nodes);
        for node in 0..nodes - nodes / 2 - 1 {
            acquire.refused(node);
            assert_eq!(acquire.step(), Step::Wait, "{nodes} nodes, {node}");
        }
        acquire.refused(nodes - 1);
        assert_eq!(acquire.step(), Step::Failed, "{nodes} nodes");
    }
}

#[test]
fn silent_nodes_are_not_waited_for() {
    let mut acquire = begun(3);
    acquire.held(0, 0, 7);
    acquire.silence();
    assert_eq!(acquire.step(), Step::Failed);
}

#[test]
fn readers_that_raise_each_other_give_up_in_the_end() {
    let mut acquire = begun(3);
    acquire.refused(2);
    let (mut number, mut step) = (10, Step::Wait);
    acquire.held(0, 0, 7);
    acquire.held(1, 0, 9);
    for _ in 0..100 {
        step = acquire.step();
        match &step {
            Step::Ask { floor, nodes } => {
                number += 5;
                nodes.iter().for_each(|node| acquire.held(*node, *floor, number));
            }
            _ => break,
        }
    }
    assert_eq!(step, Step::Failed);
}

#[test]
fn a_renewal_counts_the_token_alone() {
    let mut renewing = Renewing::new(3, 7);
    renewing.held(0, 7);
    renewing.held(1, 8);
    assert_eq!(renewing.step(), RenewStep::Wait);
    renewing.held(2, 9);
    assert_eq!(renewing.step(), RenewStep::Lost, "others may have had the lock meanwhile");
}

#[test]
fn a_node_that_has_lost_the_claim_is_taken_again_while_another_has_it() {
    let mut renewing = Renewing::new(3, 7);
    renewing.absent(0);
    renewing.held(1, 7);
    assert_eq!(renewing.step(), RenewStep::Wait);
    renewing.taken(2);
    assert_eq!(renewing.step(), RenewStep::Take(vec![0]));
    assert_eq!(renewing.step(), RenewStep::Wait);
    renewing.held(0, 7);
    assert_eq!(renewing.step(), RenewStep::Held);
}

#[test]
fn what_no_node_has_any_more_is_not_revived() {
    let mut renewing = Renewing::new(3, 7);
    renewing.absent(0);
    renewing.absent(1);
    assert_eq!(renewing.step(), RenewStep::Lost);
}

#[test]
fn silence_proves_no_loss() {
    let mut renewing = Renewing::new(3, 7);
    renewing.held(0, 7);
    renewing.unknown(1);
    assert_eq!(renewing.step(), RenewStep::Wait);
    renewing.silence();
    assert_eq!(renewing.step(), RenewStep::Unknown);
}

#[test]
fn a_withdrawal_remembers_which_nodes_had_the_claim() {
    let mut release = Release::new(3);
    assert_eq!(release.result(), Released::Unknown);
    release.answered(0, true);
    release.answered(0, false);
    assert_eq!((release.result(), release.missing()), (Released::Unknown, vec![1, 2]));
    release.answered(1, true);
    assert_eq!(release.result(), Released::Removed);
    let mut release = Release::new(3);
    release.answered(0, true);
    release.answered(1, false);
    release.answered(2, false);
    assert_eq!(release.result(), Released::Absent);
}

proptest! {
    /// Whatever the nodes answer, in whatever order: a token is the number of a majority, and an
    /// attempt ends.
    #[test]
    fn a_token_is_always_the_number_of_a_majority(
        nodes in 2_usize..6,
        answers in prop::collection::vec((0_usize..6, prop::option::of(1_u64..5)), 1..60)
    ) {
        let mut acquire = begun(nodes);
        let mut floor = 0;
        for (node, number) in answers {
            match number {
                Some(number) => acquire.held(node % nodes, floor, floor.max(number)),
                None => acquire.refused(node % nodes),
            }
            match acquire.step() {
                Step::Granted(token) => {
                    let with_it = (0..nodes).filter(|node| acquire.number(*node) == Some(token));
                    prop_assert!(with_it.count() > nodes / 2);
                    return Ok(());
                }
                Step::Failed => return Ok(()),
                Step::Ask { floor: higher, .. } => {
                    prop_assert!(higher > floor);
                    floor = higher;
                }
                Step::Wait => {}
            }
        }
    }
}
