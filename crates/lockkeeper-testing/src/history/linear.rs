//! Whether a history fits one order, and the first operation that does not.

use super::operations::Operation;
use super::{Answer, Broken, Rules, Step, Violation, linearize};

pub(super) fn check(
    lock: &str,
    operations: &[Operation],
    steps: &[Step],
    rules: &Rules,
) -> Result<(), Violation> {
    match linearize(rules.capacity, steps) {
        Answer::Yes => Ok(()),
        Answer::No => {
            let first = &operations[first_beyond(rules.capacity, steps).op];
            Err(Violation::new(
                lock,
                Broken::Order,
                first,
                "no order of what had happened by then explains it",
            ))
        }
        Answer::Undecided => {
            let last = &operations[steps[steps.len() - 1].op];
            Err(Violation::new(
                lock,
                Broken::Undecided,
                last,
                "the search for an order up to here was given up",
            ))
        }
    }
}

/// The step whose end makes the history impossible. A step that began before that end and ended
/// later may have happened by then, or not.
fn first_beyond(capacity: u32, steps: &[Step]) -> &Step {
    let mut ends: Vec<&Step> = steps.iter().filter(|step| step.ended.is_some()).collect();
    ends.sort_by_key(|step| step.ended);
    let impossible = |end: &&&Step| linearize(capacity, &until(steps, end.ended)) == Answer::No;
    let first = ends.partition_point(|end| !impossible(&end));
    ends[first.min(ends.len() - 1)]
}

fn until(steps: &[Step], end: Option<u64>) -> Vec<Step> {
    let begun = steps.iter().filter(|step| Some(step.began) <= end);
    begun.map(|step| Step { ended: step.ended.filter(|_| step.ended <= end), ..*step }).collect()
}
