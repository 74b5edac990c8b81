//! A register on an unreliable network.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use crate::Seeded;
use lockkeeper::Result;
use lockkeeper::layer::{Fault, FaultPlan, Operation};
use lockkeeper_core::registers::{Register, Swap, Versioned, Write};
use lockkeeper_core::sync::lock;

/// The operations of a store whose faults a load and a write have.
const LOAD: Operation = Operation::Line;
const WRITE: Operation = Operation::Claim;

/// A register around a register, for tests: writes and their answers are lost, doubled and delayed.
///
/// The register acts as one client's connection. A late write arrives when the test calls
/// [`deliver`](Self::deliver). With [rates](Self::with) a late write may also arrive before a later
/// write of this client. Waits have no faults.
pub struct ChaosRegister {
    inner: Arc<dyn Register>,
    faulty: Mutex<Faulty>,
}

struct Faulty {
    plan: FaultPlan,
    /// Draws which late writes arrive, and when.
    seed: Seeded,
    late: Vec<(String, Write)>,
    faults: usize,
}

impl ChaosRegister {
    /// A client of `inner` without faults.
    pub fn new(inner: Arc<dyn Register>) -> Self {
        let (plan, seed) = (FaultPlan::none(), Seeded::new(0));
        Self { inner, faulty: Mutex::new(Faulty { plan, seed, late: Vec::new(), faults: 0 }) }
    }

    /// Starts the random sequence of this seed.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        let mut faulty = lock(&self.faulty);
        faulty.plan.sow(seed);
        faulty.seed = Seeded::new(!seed);
        drop(faulty);
        self
    }

    /// Adds this fault for `per_mille` of 1000 writes. [`Fault::Refused`] happens to loads too.
    #[must_use]
    pub fn with(self, fault: Fault, per_mille: u16) -> Self {
        let mut faulty = lock(&self.faulty);
        faulty.plan.faults = faulty.plan.faults.clone().with(fault, per_mille);
        drop(faulty);
        self
    }

    /// Plans this fault for the next write. Two calls plan it for the next two writes.
    pub fn plan(&self, fault: Fault) {
        lock(&self.faulty).plan.plan(WRITE, fault);
    }

    /// The number of faults of writes so far.
    pub fn faults(&self) -> usize {
        lock(&self.faulty).faults
    }

    /// Lets all late writes arrive, and returns the answers of the register.
    pub async fn deliver(&self) -> Vec<Result<Swap>> {
        let late = std::mem::take(&mut lock(&self.faulty).late);
        let mut answers = Vec::new();
        for (key, write) in late {
            answers.push(self.inner.compare_and_swap(&key, &write).await);
        }
        answers
    }
}

impl Faulty {
    /// The late write that arrives before the next write, and the fault of the next write.
    fn draw(&mut self) -> (Option<(String, Write)>, Option<Fault>) {
        let may_arrive = !self.plan.faults.is_none() && !self.late.is_empty();
        let arrival = (may_arrive && self.seed.happens(500)).then(|| {
            let at = self.seed.below(self.late.len() as u64);
            self.late.swap_remove(usize::try_from(at).unwrap_or(0))
        });
        let fault = self.plan.next_fault(WRITE);
        self.faults += usize::from(fault.is_some());
        (arrival, fault)
    }
}

#[async_trait]
impl Register for ChaosRegister {
    async fn load(&self, key: &str) -> Result<Option<Versioned>> {
        let fault = lock(&self.faulty).plan.next_fault(LOAD);
        match fault.filter(|fault| *fault == Fault::Refused).and_then(Fault::error) {
            Some(error) => Err(error),
            None => self.inner.load(key).await,
        }
    }

    async fn compare_and_swap(&self, key: &str, write: &Write) -> Result<Swap> {
        let (arrival, fault) = lock(&self.faulty).draw();
        if let Some((key, late)) = arrival {
            // No client gets the answer.
            drop(self.inner.compare_and_swap(&key, &late).await);
        }
        let Some(error) = fault.and_then(Fault::error) else {
            if fault == Some(Fault::Twice) {
                drop(self.inner.compare_and_swap(key, write).await);
            }
            return self.inner.compare_and_swap(key, write).await;
        };
        if fault.is_some_and(Fault::loses_answer) {
            drop(self.inner.compare_and_swap(key, write).await);
        }
        if fault.is_some_and(Fault::arrives_late) {
            lock(&self.faulty).late.push((key.to_owned(), write.clone()));
        }
        Err(error)
    }
}

impl fmt::Display for ChaosRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

impl fmt::Debug for ChaosRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChaosRegister").field("inner", &self.inner).finish_non_exhaustive()
    }
}
