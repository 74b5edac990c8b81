//! The faults between a client and a store, and their rates.

use std::collections::HashMap;
use std::time::Duration;

use crate::seeded::Seeded;
use crate::{Error, ErrorKind, LockName};

/// One fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The request is never sent. The caller gets `Unavailable`, no effect.
    Refused,
    /// The store does nothing, and answers with an error of this kind, no effect.
    Answered(ErrorKind),
    /// The request is lost on its way. The caller cannot know, and gets `Unavailable`, unknown
    /// effect.
    LostRequest,
    /// The store processes the request, and the answer is lost: `Unavailable`, unknown effect.
    LostReply,
    /// The store processes the request twice, as with a driver that repeats a request on its own.
    /// The caller gets the second answer. Of two withdrawals the caller gets the first answer, as
    /// the contract of [`Store::withdraw`](crate::store::Store::withdraw) asks of such a driver.
    Twice,
    /// The answer is lost, and the store processes a copy of the request later. For `claim`,
    /// `renew`, `amend` and `withdraw`; any other request only loses its answer.
    LateCopy,
    /// The caller gets an error at once, as if the store had not answered, and the store processes
    /// the request only later. For `claim`, `renew`, `amend` and `withdraw`; any other request is
    /// lost.
    Overdue,
    /// A wait misses its wake-up.
    LostWake,
    /// A wait ends at once without a reason.
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
    Id,
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
    /// No faults.
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

    /// Returns whether there are no faults.
    pub fn is_none(&self) -> bool {
        self.rates.is_empty() && self.slow == 0 && self.delays.is_empty()
    }

    /// The store cannot be reached: every request is lost, and no caller can know it.
    pub fn cut_off() -> Self {
        Self::none().with(Fault::LostRequest, 1000)
    }

    /// Adds this fault for `per_mille` of 1000 requests. At most one fault happens to a request.
    #[must_use]
    pub fn with(mut self, fault: Fault, per_mille: u16) -> Self {
        self.rates.push((fault, per_mille));
        self
    }

    /// Delays `per_mille` of 1000 requests before they are processed, and as many answers on their
    /// way back, each by up to `longest`.
    #[must_use]
    pub fn slow(mut self, per_mille: u16, longest: Duration) -> Self {
        (self.slow, self.slow_max) = (per_mille, longest);
        self
    }

    /// Delays every answer to this operation by this time, in addition to [`slow`](Self::slow) and
    /// regardless of [`only`](Self::only). The request itself is processed at once. Zero ends the
    /// delay.
    #[must_use]
    pub fn delayed(mut self, operation: Operation, by: Duration) -> Self {
        self.delay(operation, by);
        self
    }

    fn delay(&mut self, operation: Operation, by: Duration) {
        if by.is_zero() {
            self.delays.remove(&operation);
        } else {
            self.delays.insert(operation, by);
        }
    }

    /// Sets how late a late request arrives at most; 5 s by default, and at most 60 s. A copy of a
    /// claim that arrives after its tombstone has ended is a fault that no store can handle.
    #[must_use]
    pub fn late(mut self, longest: Duration) -> Self {
        self.late_max = longest.min(crate::store::TOMBSTONE_MIN);
        self
    }

    /// Limits how many answers in a row are lost for requests of one kind about one lock. So a
    /// client that repeats its request once more than that always gets through.
    #[must_use]
    pub fn in_a_row(mut self, most: u32) -> Self {
        self.in_a_row = most;
        self
    }

    /// Restricts the faults to these operations.
    #[must_use]
    pub fn only(mut self, operations: &[Operation]) -> Self {
        self.only = Some(operations.to_vec());
        self
    }

    /// Draws the fault and the delays of the next request.
    fn draw(&self, operation: Operation, seed: &mut Seeded) -> Drawn {
        // Every number is drawn each time, so one rate does not change the draws of another.
        let lot = seed.below(1000);
        let before = self.draw_delay(seed);
        let (after, always) =
            (self.draw_delay(seed), self.delays.get(&operation).copied().unwrap_or_default());
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

/// How many answers in a row are missing, by the kind of request and its lock: the requests of one
/// lock do not use up the limit of another.
#[derive(Debug, Default)]
struct Streaks(HashMap<(Operation, Option<LockName>), u32>);

impl Streaks {
    /// The draw, without a fault if too many answers in a row are missing.
    fn limit(
        &mut self,
        faults: &Faults,
        of: (Operation, Option<LockName>),
        mut drawn: Drawn,
    ) -> Drawn {
        let streak = self.0.entry(of).or_default();
        let missing = drawn.fault.is_some_and(Fault::answers_nothing);
        if missing && *streak >= faults.in_a_row {
            drawn.fault = None;
        }
        *streak = if drawn.fault.is_some_and(Fault::answers_nothing) { *streak + 1 } else { 0 };
        drawn
    }
}

/// The faults of one client: the rates with their seed, and the planned faults.
#[derive(Debug)]
#[doc(hidden)]
pub struct FaultPlan {
    pub faults: Faults,
    seed: Seeded,
    planned: Vec<(Operation, Fault)>,
    streaks: Streaks,
}

impl FaultPlan {
    /// No faults.
    pub fn none() -> Self {
        Self {
            faults: Faults::none(),
            seed: Seeded::new(0),
            planned: Vec::new(),
            streaks: Streaks::default(),
        }
    }

    /// Starts the random sequence of this seed.
    pub fn sow(&mut self, seed: u64) {
        self.seed = Seeded::new(seed);
    }

    /// Plans this fault for the next request of this kind, regardless of the rates.
    pub fn plan(&mut self, operation: Operation, fault: Fault) {
        self.planned.push((operation, fault));
    }

    /// Ends all faults.
    pub fn quiet(&mut self) {
        self.faults = Faults::none();
        self.planned.clear();
    }

    pub(super) fn delay(&mut self, operation: Operation, by: Duration) {
        self.faults.delay(operation, by);
    }

    /// The fault and the delays of the next request.
    pub(super) fn draw(&mut self, operation: Operation, about: Option<&LockName>) -> Drawn {
        let Self { faults, seed, planned, streaks } = self;
        let mut drawn =
            streaks.limit(faults, (operation, about.cloned()), faults.draw(operation, seed));
        if let Some(next) = planned.iter().position(|(planned, _)| *planned == operation) {
            drawn.fault = Some(planned.remove(next).1);
        }
        drawn
    }

    /// The fault of the next request.
    pub fn next_fault(&mut self, operation: Operation) -> Option<Fault> {
        self.draw(operation, None).fault
    }
}

impl Fault {
    /// The error in place of the answer; `None` if the caller gets an answer of the store.
    #[doc(hidden)]
    pub fn error(self) -> Option<Error> {
        let unavailable = |what: &str| Error::new(ErrorKind::Unavailable, format!("chaos: {what}"));
        match self {
            Self::Answered(kind) => Some(Error::new(kind, "the test planned this failure")),
            Self::Refused => Some(unavailable("the request was not sent")),
            Self::LostRequest => Some(unavailable("no answer came").with_unknown_effect()),
            Self::Overdue => Some(unavailable("no answer came in time").with_unknown_effect()),
            Self::LostReply | Self::LateCopy => {
                Some(unavailable("the answer was lost").with_unknown_effect())
            }
            Self::Twice | Self::LostWake | Self::FalseWake => None,
        }
    }

    /// Whether the store processes the request at once, and its answer is lost.
    #[doc(hidden)]
    pub fn loses_answer(self) -> bool {
        matches!(self, Self::LostReply | Self::LateCopy)
    }

    /// Whether a copy of the request arrives late.
    #[doc(hidden)]
    pub fn arrives_late(self) -> bool {
        matches!(self, Self::LateCopy | Self::Overdue)
    }

    fn answers_nothing(self) -> bool {
        !matches!(self, Self::Twice | Self::LostWake | Self::FalseWake)
    }

    fn can_happen_to(self, operation: Operation) -> bool {
        match self {
            Self::LostWake | Self::FalseWake => operation == Operation::Wait,
            Self::Twice => operation != Operation::Wait,
            _ => true,
        }
    }
}

/// The faults and the delays of one request.
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
