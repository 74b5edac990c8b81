//! A register on an unreliable network.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::Seeded;
use lockkeeper::layer::Fault;
use lockkeeper::{Error, ErrorKind, Result};
use lockkeeper_core::registers::{Register, Swap, Versioned, Write};

/// A register around a register, for tests: writes and their answers are lost, doubled and delayed.
///
/// The register acts as one client's connection. A late write arrives when the test calls
/// [`deliver`](Self::deliver). With [rates](Self::with) a late write may also arrive before a later
/// write of this client. Waits have no faults.
pub struct ChaosRegister {
    inner: Arc<dyn Register>,
    fault_profile: Mutex<FaultProfile>,
}

#[derive(Debug)]
struct FaultProfile {
    seed: Seeded,
    rates: Vec<(Fault, u16)>,
    planned: VecDeque<Fault>,
    late: Vec<(String, Write)>,
    faults: usize,
}

impl ChaosRegister {
    /// A client of `inner` without faults.
    pub fn new(inner: Arc<dyn Register>) -> Self {
        let fault_profile = FaultProfile {
            seed: Seeded::new(0),
            rates: Vec::new(),
            planned: VecDeque::new(),
            late: Vec::new(),
            faults: 0,
        };
        Self { inner, fault_profile: Mutex::new(fault_profile) }
    }

    /// Starts the random sequence of this seed.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.fault_profile().seed = Seeded::new(seed);
        self
    }

    /// Adds this fault for `per_mille` of 1000 writes. [`Fault::Refused`] happens to loads too.
    #[must_use]
    pub fn with(self, fault: Fault, per_mille: u16) -> Self {
        self.fault_profile().rates.push((fault, per_mille));
        self
    }

    /// Plans this fault for the next write. Two calls plan it for the next two writes.
    pub fn plan(&self, fault: Fault) {
        self.fault_profile().planned.push_back(fault);
    }

    /// The number of faults so far.
    pub fn faults(&self) -> usize {
        self.fault_profile().faults
    }

    /// Lets all late writes arrive, and returns the answers of the register.
    pub async fn deliver(&self) -> Vec<Result<Swap>> {
        let late = std::mem::take(&mut self.fault_profile().late);
        let mut answers = Vec::new();
        for (key, write) in late {
            answers.push(self.inner.compare_and_swap(&key, &write).await);
        }
        answers
    }

    fn fault_profile(&self) -> MutexGuard<'_, FaultProfile> {
        self.fault_profile.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultProfile {
    fn draw(&mut self) -> Option<Fault> {
        let lot = self.seed.below(1000);
        let mut bound = 0;
        let drawn = self.rates.iter().find(|(_, rate)| {
            bound += u64::from(*rate);
            lot < bound
        });
        let fault = self.planned.pop_front().or(drawn.map(|(fault, _)| *fault));
        self.faults += usize::from(fault.is_some());
        fault
    }

    /// One of the late writes, if it has to arrive now.
    fn arrival(&mut self) -> Option<(String, Write)> {
        let due = !self.rates.is_empty() && !self.late.is_empty() && self.seed.happens(500);
        due.then(|| {
            self.late
                .swap_remove(usize::try_from(self.seed.below(self.late.len() as u64)).unwrap_or(0))
        })
    }
}

fn unavailable(what: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("chaos: {what}"))
}

#[async_trait]
impl Register for ChaosRegister {
    async fn load(&self, key: &str) -> Result<Option<Versioned>> {
        let refused = {
            let FaultProfile { seed, rates, .. } = &mut *self.fault_profile();
            let rate = rates
                .iter()
                .find(|(fault, _)| *fault == Fault::Refused)
                .map_or(0, |(_, rate)| *rate);
            seed.happens(rate)
        };
        if refused {
            return Err(unavailable("the request was not sent"));
        }
        self.inner.load(key).await
    }

    async fn compare_and_swap(&self, key: &str, write: &Write) -> Result<Swap> {
        let (arrival, fault) = {
            let mut fault_profile = self.fault_profile();
            (fault_profile.arrival(), fault_profile.draw())
        };
        if let Some((key, late)) = arrival {
            // No client gets the answer.
            drop(self.inner.compare_and_swap(&key, &late).await);
        }
        match fault {
            Some(Fault::Refused) => return Err(unavailable("the request was not sent")),
            Some(Fault::LostRequest) => {
                return Err(unavailable("no answer came").with_unknown_effect());
            }
            Some(Fault::Overdue) => {
                self.fault_profile().late.push((key.to_owned(), write.clone()));
                return Err(unavailable("no answer came in time").with_unknown_effect());
            }
            Some(Fault::Twice) => drop(self.inner.compare_and_swap(key, write).await),
            _ => {}
        }
        let answer = self.inner.compare_and_swap(key, write).await;
        match fault {
            Some(Fault::LateCopy) => {
                self.fault_profile().late.push((key.to_owned(), write.clone()))
            }
            Some(Fault::LostReply) => {}
            _ => return answer,
        }
        Err(unavailable("the answer was lost").with_unknown_effect())
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
