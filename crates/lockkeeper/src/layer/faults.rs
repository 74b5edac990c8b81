//! What can go wrong between a client and a store, and how often.

use std::collections::HashMap;
use std::time::Duration;

use crate::testing::Seeded;
use crate::{ErrorKind, LockName};

/// One thing that goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The request is never sent, and the caller is told so: `Unavailable`, no effect.
    Refused,
    /// The store does nothing, and answers with an error of this kind: no effect.
    Answered(ErrorKind),
    /// The request gets lost on its way. The caller cannot know: `Unavailable`, unknown effect.
    LostRequest,
    /// The request is processed and the answer gets lost: `Unavailable`, unknown effect.
    LostReply,
    /// The request is processed twice, and the second answer is returned: a driver that repeats by itself. Of two
    /// withdrawals the first answer is returned, as the contract of [`Store::withdraw`](crate::store::Store::withdraw)
    /// asks of such a driver.
    Twice,
    /// The answer gets lost, and a copy of the request is processed once more, later. For `claim`, `renew` and
    /// `withdraw`; any other request only loses its answer.
    LateCopy,
    /// The caller is told at once that the store did not answer, and the request is processed only later. For
    /// `claim`, `renew` and `withdraw`; any other request gets lost.
    Overdue,
    /// A wait sleeps through its wake-up.
    LostWake,
    /// A wait ends at once for no reason.
    FalseWake,
}

/// The methods of a store that do I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the method of this name")]
#[non_exhaustive]
pub enum Operation {
    Open,
    Renew,
    Close,
    Claim,
    Amend,
    Withdraw,
    Wait,
    Line,
}

/// Which faults happen, how often, and to which operations.
///
/// ```
/// use std::time::Duration;
/// use lockkeeper::layer::{Fault, Faults, Operation};
///
/// let storm = Faults::none()
///     .with(Fault::LostReply, 50)
///     .with(Fault::LateCopy, 20)
///     .slow(200, Duration::from_millis(300))
///     .only(&[Operation::Claim, Operation::Withdraw]);
/// # let _ = storm;
/// ```
#[derive(Clone, Debug)]
pub struct Faults {
    rates: Vec<(Fault, u16)>,
    only: Option<Vec<Operation>>,
    slow: u16,
    slow_max: Duration,
    late_max: Duration,
    in_a_row: u32,
    delays: HashMap<Operation, Duration>,
}

impl Faults {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self {
            rates: Vec::new(),
            only: None,
            slow: 0,
            slow_max: Duration::ZERO,
            late_max: Duration::from_secs(5),
            in_a_row: u32::MAX,
            delays: HashMap::new(),
        }
    }

    /// Whether nothing goes wrong.
    pub fn is_none(&self) -> bool {
        self.rates.is_empty() && self.slow == 0 && self.delays.is_empty()
    }

    /// The store cannot be reached: no request arrives, and no caller can be sure of it.
    pub fn cut_off() -> Self {
        Self::none().with(Fault::LostRequest, 1000)
    }

    /// This fault happens to so many requests in a thousand. At most one fault happens to a request.
    #[must_use]
    pub fn with(mut self, fault: Fault, per_mille: u16) -> Self {
        self.rates.push((fault, per_mille));
        self
    }

    /// So many requests in a thousand are held up before they are processed, and as many answers on their way back,
    /// each for up to `longest`.
    #[must_use]
    pub fn slow(mut self, per_mille: u16, longest: Duration) -> Self {
        (self.slow, self.slow_max) = (per_mille, longest);
        self
    }

    /// Every answer to this operation comes this much later, besides what [`slow`](Self::slow) and
    /// [`only`](Self::only) say. The request itself is processed at once. Zero ends it.
    #[must_use]
    pub fn delayed(mut self, operation: Operation, by: Duration) -> Self {
        self.delay(operation, by);
        self
    }

    pub(super) fn delay(&mut self, operation: Operation, by: Duration) {
        if by.is_zero() {
            self.delays.remove(&operation);
        } else {
            self.delays.insert(operation, by);
        }
    }

    /// What comes late comes up to this much later; 5 s unless told. A copy of a claim that comes later than its
    /// tombstone stands is a fault that no store answers for, so this is at most 60 s.
    #[must_use]
    pub fn late(mut self, longest: Duration) -> Self {
        self.late_max = longest.min(crate::store::TOMBSTONE_MIN);
        self
    }

    /// No more than this many answers to requests of one kind about one lock are missing in a row, so that a client that asks once
    /// more than that always gets through.
    #[must_use]
    pub fn in_a_row(mut self, most: u32) -> Self {
        self.in_a_row = most;
        self
    }

    /// All this happens to these operations only.
    #[must_use]
    pub fn only(mut self, operations: &[Operation]) -> Self {
        self.only = Some(operations.to_vec());
        self
    }

    /// What happens to the next request.
    pub(super) fn draw(&self, operation: Operation, seed: &mut Seeded) -> Drawn {
        // Everything is drawn each time, so that one rate does not shift what the others draw.
        let lot = seed.below(1000);
        let before = self.draw_delay(seed);
        let (after, always) = (self.draw_delay(seed), self.delays.get(&operation).copied().unwrap_or_default());
        let late = Duration::from_nanos(seed.below(nanos(self.late_max)));
        if self.only.as_ref().is_some_and(|only| !only.contains(&operation)) {
            return Drawn { after: always, late, ..Drawn::default() };
        }
        Drawn { fault: self.fault_of(operation, lot), before, after: after + always, late }
    }

    fn fault_of(&self, operation: Operation, lot: u64) -> Option<Fault> {
        let mut below = 0;
        for (fault, rate) in &self.rates {
            below += u64::from(*rate);
            if lot < below {
                return Some(*fault).filter(|fault| fault.can_happen_to(operation));
            }
        }
        None
    }

    fn draw_delay(&self, seed: &mut Seeded) -> Duration {
        let slow = seed.happens(self.slow);
        let delay = Duration::from_nanos(seed.below(nanos(self.slow_max)));
        if slow { delay } else { Duration::ZERO }
    }
}

/// How many answers are missing in a row, by the kind of request and the lock that it is about: those who ask at the same
/// time for different ones do not use up each other's luck.
#[derive(Debug, Default)]
pub(super) struct Streaks(HashMap<(Operation, Option<LockName>), u32>);

impl Streaks {
    /// What is drawn, if the answers to these requests have not been missing for too long.
    pub(super) fn limit(&mut self, faults: &Faults, of: (Operation, Option<LockName>), mut drawn: Drawn) -> Drawn {
        let streak = self.0.entry(of).or_default();
        let missing = drawn.fault.is_some_and(Fault::answers_nothing);
        if missing && *streak >= faults.in_a_row {
            drawn.fault = None;
        }
        *streak = if drawn.fault.is_some_and(Fault::answers_nothing) { *streak + 1 } else { 0 };
        drawn
    }
}

impl Fault {
    fn answers_nothing(self) -> bool {
        !matches!(self, Self::Twice | Self::LostWake | Self::FalseWake)
    }

    fn can_happen_to(self, operation: Operation) -> bool {
        match self {
            Self::LostWake | Self::FalseWake => operation == Operation::Wait,
            // Opened twice, the first session would stay behind unknown to anybody.
            Self::Twice => !matches!(operation, Operation::Open | Operation::Wait),
            _ => true,
        }
    }
}

/// What happens to one request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drawn {
    pub(super) fault: Option<Fault>,
    pub(super) before: Duration,
    pub(super) after: Duration,
    pub(super) late: Duration,
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}
