//! The operations of a history: each with its beginning, its end, and the looks at the lock that it
//! acquired.

use std::collections::HashMap;
use std::fmt;

use super::{Broken, Call, Entry, Outcome, Violation, What};

/// One operation on the lock in question.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) process: String,
    pub(super) number: u64,
    pub(super) client: String,
    pub(super) call: Call,
    pub(super) began: u64,
    pub(super) ended: Option<u64>,
    pub(super) outcome: Option<Outcome>,
    /// The times at which the guard reported the lock as held, each with the time until which it
    /// might report so.
    pub(super) looks: Vec<(u64, u64)>,
    /// The time of the last entry of its process.
    pub(super) last_seen: u64,
}

/// The operations on this lock, in the order in which they began.
pub(super) fn of(entries: &[Entry], lock: &str) -> Result<Vec<Operation>, Violation> {
    let mut last_seen: HashMap<&str, u64> = HashMap::new();
    let mut known: HashMap<(&str, u64), Option<Operation>> = HashMap::new();
    for entry in entries {
        let last = last_seen.entry(&entry.process).or_default();
        *last = entry.at.max(*last);
        if let What::Call { client, lock: of, call } = &entry.what {
            let operation = (of == lock).then(|| Operation::begin(entry, client, call));
            known.insert((&entry.process, entry.op), operation);
        }
    }
    for entry in entries {
        let Some(operation) = known.get_mut(&(entry.process.as_str(), entry.op)) else {
            return Err(nonsense(lock, entry));
        };
        if let Some(operation) = operation {
            operation.add(entry);
        }
    }
    let mut operations: Vec<Operation> = known.into_values().flatten().collect();
    for operation in &mut operations {
        operation.last_seen = last_seen[operation.process.as_str()];
    }
    operations
        .sort_by(|a, b| (a.began, &a.process, a.number).cmp(&(b.began, &b.process, b.number)));
    Ok(operations)
}

fn nonsense(lock: &str, entry: &Entry) -> Violation {
    Violation {
        lock: lock.to_owned(),
        broken: Broken::Nonsense,
        operation: format!("operation {} of {}", entry.op, entry.process),
        at: entry.at,
        because: "it never began".to_owned(),
    }
}

impl Operation {
    fn begin(entry: &Entry, client: &str, call: &Call) -> Self {
        Self {
            process: entry.process.clone(),
            number: entry.op,
            client: client.to_owned(),
            call: call.clone(),
            began: entry.at,
            ended: None,
            outcome: None,
            looks: Vec::new(),
            last_seen: 0,
        }
    }

    fn add(&mut self, entry: &Entry) {
        match entry.what {
            What::Call { .. } => {}
            What::Return(outcome) => (self.ended, self.outcome) = (Some(entry.at), Some(outcome)),
            What::Holds { until } => self.looks.push((entry.at, until)),
        }
    }

    /// The number of the token that the operation got.
    pub(super) fn token(&self) -> Option<u64> {
        match self.outcome {
            Some(Outcome::Granted { token }) => Some(token.get()),
            _ => None,
        }
    }

    /// The operation that acquired the guard of this operation.
    pub(super) fn guard(&self) -> Option<u64> {
        match self.call {
            Call::Acquire { .. } => None,
            Call::Release { of }
            | Call::Drop { of }
            | Call::Downgrade { of }
            | Call::Upgrade { of, .. } => Some(of),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.call {
            Call::Acquire { weight, of, waits, .. } => {
                let of = of.map(|of| format!("/{of}")).unwrap_or_default();
                format!("{} of {weight}{of}", if waits { "acquire" } else { "try" })
            }
            Call::Release { of } => format!("release of {of}"),
            Call::Drop { of } => format!("drop of {of}"),
            Call::Downgrade { of } => format!("downgrade of {of}"),
            Call::Upgrade { of, .. } => format!("upgrade of {of}"),
        };
        write!(
            f,
            "{what} by {} (operation {} of {}, {}",
            self.client,
            self.number,
            self.process,
            seconds(self.began)
        )?;
        match self.ended {
            Some(ended) => write!(f, " to {}", seconds(ended))?,
            None => write!(f, ", never ended")?,
        }
        match self.outcome {
            Some(Outcome::Granted { token }) => write!(f, ", token {token})"),
            Some(outcome) => write!(f, ", {outcome:?})"),
            None => write!(f, ")"),
        }
    }
}

/// A time as people read it.
pub(super) fn seconds(at: u64) -> String {
    format!("{}.{:06} s", at / 1_000_000_000, at / 1000 % 1_000_000)
}
