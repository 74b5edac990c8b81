//! The check of tokens: no token is given twice, and tokens rise.

use std::collections::HashMap;

use super::holds::Hold;
use super::operations::Operation;
use super::{Broken, Violation};

pub(super) fn check(lock: &str, operations: &[Operation], holds: &[Hold]) -> Result<(), Violation> {
    let violation = |later: &Hold, what: &str, earlier: &Hold| {
        let because = format!("{what} {}", operations[earlier.op]);
        Violation::new(lock, Broken::Token, &operations[later.op], because)
    };
    let mut given: HashMap<u64, &Hold> = HashMap::new();
    let mut by_end: Vec<&Hold> = holds.iter().collect();
    by_end.sort_by_key(|hold| hold.since(operations));
    for &hold in &by_end {
        if let Some(earlier) = given.insert(hold.token, hold) {
            return Err(violation(hold, "the token is that of", earlier));
        }
    }
    // The holds are sorted by the beginnings of their operations.
    let (mut ended, mut highest): (_, Option<&Hold>) = (by_end.into_iter().peekable(), None);
    for hold in holds {
        while let Some(earlier) =
            ended.next_if(|earlier| earlier.since(operations) < operations[hold.op].began)
        {
            highest = highest.filter(|highest| highest.token > earlier.token).or(Some(earlier));
        }
        if let Some(earlier) = highest.filter(|highest| highest.token > hold.token) {
            return Err(violation(hold, "the token is lower than that of", earlier));
        }
    }
    Ok(())
}
