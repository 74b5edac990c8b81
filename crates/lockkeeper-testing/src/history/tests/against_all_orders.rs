//! The search against a search that tries every order, and is too simple to be wrong.

use proptest::prelude::*;

use super::super::{Answer, Effect, Lock, Step, linearize};

/// Every order of every choice of the optional steps.
fn in_any_order(lock: &Lock, left: &[Step]) -> bool {
    let first_end = left.iter().filter_map(|step| step.ended).min();
    let Some(first_end) = first_end else { return true };
    (0..left.len()).filter(|&i| left[i].began <= first_end).any(|i| {
        let mut left = left.to_vec();
        let step = left.remove(i);
        lock.after(&step.effect).is_some_and(|lock| in_any_order(&lock, &left))
    })
}

fn effects() -> impl Strategy<Value = Effect> {
    let weight = || prop_oneof![Just(1_u32), Just(2), Just(3)];
    prop_oneof![
        4 => (0..4_usize, weight(), 0..3_u32, 1..9_u64)
            .prop_map(|(hold, weight, more, token)| Effect::Grant { hold, weight, of: weight + more, token }),
        4 => (0..4_usize).prop_map(|hold| Effect::Free { hold }),
        1 => (0..4_usize).prop_map(|hold| Effect::Share { hold }),
        1 => (0..4_usize, 4..6_usize, 1..9_u64).prop_map(|(old, hold, token)| Effect::Swap { old, hold, token }),
        2 => (weight(), 0..3_u32).prop_map(|(weight, more)| Effect::Refuse { weight, of: weight + more }),
        1 => (0..4_usize).prop_map(|hold| Effect::RefuseSwap { hold }),
    ]
}

/// Steps as histories have them: each hold begins and ends once, and is shared before its end.
fn is_of_a_history(steps: &[Step]) -> bool {
    let count =
        |pick: &dyn Fn(&Effect) -> bool| steps.iter().filter(|step| pick(&step.effect)).count();
    let once = (0..6).all(|id| {
        let got = |e: &Effect| matches!(e, Effect::Grant { hold, .. } | Effect::Swap { hold, .. } if *hold == id);
        let ended = |e: &Effect| matches!(e, Effect::Free { hold } | Effect::Swap { old: hold, .. } if *hold == id);
        let shared = |e: &Effect| matches!(e, Effect::Share { hold } if *hold == id);
        count(&got) <= 1 && count(&ended) <= 1 && count(&shared) <= 1
    });
    let in_order = steps.iter().all(|share| match share.effect {
        Effect::Share { hold } => steps.iter().all(|end| match end.effect {
            Effect::Free { hold: of } | Effect::Swap { old: of, .. } if of == hold => {
                share.ended.is_none_or(|ended| ended < end.began)
            }
            _ => true,
        }),
        _ => true,
    });
    once && in_order
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..12_u64, 0..6_u64, prop::bool::weighted(0.8), effects()).prop_map(
        |(began, takes, ends, effect)| Step {
            began,
            ended: ends.then_some(began + takes),
            effect,
            op: 0,
        },
    );
    prop::collection::vec(step, 1..8)
        .prop_filter("no history has such steps", |steps| is_of_a_history(steps))
}

/// Steps of a history that did happen, with their times blurred, so that many have an order.
fn possible_steps() -> impl Strategy<Value = Vec<Step>> {
    (prop::collection::vec((effects(), 0..4_u64, 0..4_u64, prop::bool::weighted(0.85)), 8..40))
        .prop_map(|drawn| {
            let (mut lock, mut steps) = (Lock::new(3), Vec::new());
            for (at, (effect, before, after, ends)) in drawn.into_iter().enumerate() {
                let at = 10 + at as u64;
                let step =
                    Step { began: at - before, ended: ends.then_some(at + after), effect, op: 0 };
                let mut with = steps.clone();
                with.push(step);
                if steps.len() < 9
                    && is_of_a_history(&with)
                    && let Some(next) = lock.after(&effect)
                {
                    (lock, steps) = (next, with);
                }
            }
            steps
        })
}

fn expected(steps: &[Step]) -> Answer {
    if in_any_order(&Lock::new(3), steps) { Answer::Yes } else { Answer::No }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_search_finds_an_order_where_there_is_one(steps in steps()) {
        prop_assert_eq!(linearize(3, &steps), expected(&steps));
    }

    #[test]
    fn what_did_happen_has_an_order(steps in possible_steps()) {
        prop_assert_eq!(linearize(3, &steps), Answer::Yes);
    }

    #[test]
    fn what_nearly_happened_is_judged_as_by_trying_all_orders(steps in possible_steps(), at in 0..9_usize, by in 0..9_u64) {
        let mut steps = steps;
        if let Some(step) = steps.get_mut(at) {
            step.began += by;
            step.ended = step.ended.map(|ended| ended + by);
        }
        prop_assume!(is_of_a_history(&steps));
        prop_assert_eq!(linearize(3, &steps), expected(&steps));
    }
}
