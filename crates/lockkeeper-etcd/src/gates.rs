//! The gates of a client. A call holds a gate while it awaits etcd, and the other calls that want
//! the gate wait. Two calls that hold a gate each, and want the gate of the other one, would wait
//! forever. The order of the gates excludes that: a call that holds a gate waits for no gate above
//! it, and for no second gate of the same kind.
//!
//! ```text
//! gate                     one for each      a call holds it while it
//! -----------------------  ----------------  ---------------------------------------------------
//! lookup (`Lookup`)        session           reads the session, and prepares its claim
//! turn (`OrderGuard`)      name              sends its claim, or reads the claim that it releases
//! leases (`LeaseGate`)     session           makes a lease
//! tombstones (`making`)    client            makes the lease of tombstones
//! login (`Calls`)          client            logs in
//! ```
//!
//! While etcd is silent, the calls at a gate would fail one after the other, each after its whole
//! time-out. So the calls that waited at a [`SharingGate`] for an attempt without an answer fail
//! with it, once each member had an attempt: the attempt after a failure asks the next member. An
//! attempt that fails at once, as on a connection that was cut, says nothing about the next one.
//! Only the turns of a name are no such gate, since each claim sends a request of its own.
//!
//! A claim that has its turn makes leases, so a call that withdraws claims must not hold the gate
//! of the leases. Therefore no call gets hold of a [`LeaseGate`]: the gate takes the work instead,
//! and a close only shuts it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper_core::sync::lock;
use tokio::sync::{Mutex as Gate, MutexGuard};

use crate::time::Clock;
use crate::wire::WireError;
use crate::{Error, ErrorKind, Result, sessions};

/// What the gates count as an outage of etcd.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    /// An attempt that fails sooner was not silence: the next one may succeed on a new connection.
    silence: Duration,
    /// So many attempts ask another member each.
    members: usize,
}

impl Outage {
    pub(crate) fn new(timeout: Duration, members: usize) -> Self {
        Self { silence: Duration::from_millis(250).min(timeout / 4), members }
    }
}

/// The error of an attempt behind a gate.
pub(crate) trait Failure: Clone {
    /// Whether etcd has not answered, so that the next attempt would take as long to fail.
    fn is_silence(&self) -> bool;
}

impl Failure for Error {
    fn is_silence(&self) -> bool {
        self.kind() == ErrorKind::Unavailable
    }
}

impl Failure for WireError {
    fn is_silence(&self) -> bool {
        self.is_the_members_fault()
    }
}

/// A gate whose waiters share a failure.
#[derive(Debug)]
pub(crate) struct SharingGate<E = Error> {
    gate: Gate<()>,
    failures: Mutex<Failures<E>>,
}

/// The attempts that etcd has not answered.
#[derive(Debug)]
struct Failures<E> {
    in_a_row: usize,
    /// How many failures the waiters share, and the last one.
    shared: u64,
    last: Option<E>,
}

impl<E> Default for SharingGate<E> {
    fn default() -> Self {
        let failures = Mutex::new(Failures { in_a_row: 0, shared: 0, last: None });
        Self { gate: Gate::default(), failures }
    }
}

/// A call that is behind the gate, until this is dropped.
#[derive(Debug)]
pub(crate) struct Passed<'a, E> {
    _turn: MutexGuard<'a, ()>,
    failures: &'a Mutex<Failures<E>>,
    outage: Outage,
}

impl<E: Failure> SharingGate<E> {
    /// Waits until no other call is behind the gate.
    ///
    /// # Errors
    /// The error of an attempt that no member has answered and that ended during this wait.
    pub(crate) async fn enter(&self, outage: Outage) -> std::result::Result<Passed<'_, E>, E> {
        let before = lock(&self.failures).shared;
        let turn = self.gate.lock().await;
        {
            let failures = lock(&self.failures);
            if let Some(error) = failures.last.as_ref().filter(|_| failures.shared > before) {
                return Err(error.clone());
            }
        }
        Ok(Passed { _turn: turn, failures: &self.failures, outage })
    }

    /// Makes an attempt when no other call makes one.
    ///
    /// # Errors
    /// As [`enter`](Self::enter), and the error of the attempt.
    pub(crate) async fn pass<T>(
        &self,
        outage: Outage,
        attempt: impl Future<Output = std::result::Result<T, E>>,
    ) -> std::result::Result<T, E> {
        self.enter(outage).await?.attempt(attempt).await
    }
}

impl<E: Failure> Passed<'_, E> {
    /// Makes an attempt, whose failure the waiting calls share if no member answers.
    pub(crate) async fn attempt<T>(
        &self,
        attempt: impl Future<Output = std::result::Result<T, E>>,
    ) -> std::result::Result<T, E> {
        let begun = Clock::boot().now();
        let made = attempt.await;
        let was_silent = Clock::boot().now().saturating_since(begun) >= self.outage.silence;
        let mut failures = lock(self.failures);
        match made.as_ref().err().filter(|error| was_silent && error.is_silence()) {
            None => failures.in_a_row = 0,
            Some(error) => {
                failures.in_a_row += 1;
                if failures.in_a_row >= self.outage.members {
                    failures.shared += 1;
                    failures.last = Some(error.clone());
                }
            }
        }
        drop(failures);
        made
    }
}

/// The gate of the leases of a session.
#[derive(Debug, Default)]
pub(crate) struct LeaseGate {
    gate: SharingGate,
    is_closed: AtomicBool,
}

impl LeaseGate {
    /// Makes a lease when no other call makes one. `making` waits for no gate above this one.
    ///
    /// # Errors
    /// `SessionLost` once the session is closed.
    pub(crate) async fn pass<T>(
        &self,
        outage: Outage,
        making: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let passed = self.gate.enter(outage).await?;
        match self.is_closed.load(Ordering::Acquire) {
            true => Err(sessions::lost()),
            false => passed.attempt(making).await,
        }
    }

    /// Waits for the end of the call that makes a lease. No lease is made after that.
    pub(crate) async fn close(&self) {
        let _turn = self.gate.gate.lock().await;
        self.is_closed.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::ErrorKind;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_close_waits_for_the_lease_that_is_being_made_and_no_other_is_made_after_it() {
        let (gate, mut cx) = (LeaseGate::default(), Context::from_waker(Waker::noop()));
        let outage = Outage::new(ms(3000), 1);
        let (made, is_made) = tokio::sync::oneshot::channel();
        let mut making = pin!(gate.pass(outage, async { Ok(is_made.await) }));
        assert!(making.as_mut().poll(&mut cx).is_pending());
        let mut closing = pin!(gate.close());
        assert!(closing.as_mut().poll(&mut cx).is_pending());
        let mut late = pin!(gate.pass(outage, async { Ok(()) }));
        assert!(late.as_mut().poll(&mut cx).is_pending());
        made.send(7).unwrap();
        assert!(matches!(making.as_mut().poll(&mut cx), Poll::Ready(Ok(Ok(7)))));
        assert!(closing.as_mut().poll(&mut cx).is_ready());
        let Poll::Ready(Err(error)) = late.as_mut().poll(&mut cx) else { panic!("it is made") };
        assert_eq!(error.kind(), ErrorKind::SessionLost);
    }

    #[test]
    fn only_the_calls_that_waited_for_an_unanswered_attempt_share_its_failure() {
        let mut cx = Context::from_waker(Waker::noop());
        let [silent, cut] = [Duration::ZERO, ms(250)];
        for (kind, silence, members, is_shared) in [
            (ErrorKind::Unavailable, silent, 1, true),
            (ErrorKind::Unavailable, silent, 2, false),
            (ErrorKind::Unavailable, cut, 1, false),
            (ErrorKind::Denied, silent, 1, false),
        ] {
            let (gate, outage) = (SharingGate::default(), Outage { silence, members });
            let (fail, fails) = tokio::sync::oneshot::channel();
            let failing = async { Err::<(), _>(fails.await.unwrap()) };
            let mut first = pin!(gate.pass(outage, failing));
            assert!(first.as_mut().poll(&mut cx).is_pending());
            let mut second = pin!(gate.pass(outage, async { Ok(()) }));
            assert!(second.as_mut().poll(&mut cx).is_pending());
            fail.send(Error::new(kind, "no answer")).unwrap();
            assert!(matches!(first.as_mut().poll(&mut cx), Poll::Ready(Err(_))));
            let mut late = pin!(gate.pass(outage, async { Ok(()) }));
            let _ = late.as_mut().poll(&mut cx);
            let Poll::Ready(shared) = second.as_mut().poll(&mut cx) else { panic!("{kind:?}") };
            assert_eq!(
                shared.map_err(|error| error.kind()),
                if is_shared { Err(kind) } else { Ok(()) }
            );
            assert!(matches!(late.as_mut().poll(&mut cx), Poll::Ready(Ok(()))), "{kind:?}");
        }
    }

    /// Each attempt asks the next of three members.
    #[test]
    fn a_failure_is_shared_once_as_many_attempts_in_a_row_as_members_had_no_answer() {
        let outage = Outage { silence: Duration::ZERO, members: 3 };
        let silent = || Err(Error::new(ErrorKind::Unavailable, "no answer"));
        let mut cx = Context::from_waker(Waker::noop());
        let gate = SharingGate::default();
        let is_shared: Vec<bool> = [silent(), silent(), Ok(()), silent(), silent(), silent()]
            .into_iter()
            .map(|answer| {
                let (ends, end) = tokio::sync::oneshot::channel();
                let mut first = pin!(gate.pass(outage, async {
                    end.await.unwrap();
                    answer
                }));
                assert!(first.as_mut().poll(&mut cx).is_pending());
                let mut second = pin!(gate.enter(outage));
                assert!(second.as_mut().poll(&mut cx).is_pending());
                ends.send(()).unwrap();
                assert!(first.as_mut().poll(&mut cx).is_ready());
                let Poll::Ready(entered) = second.as_mut().poll(&mut cx) else { panic!() };
                entered.is_err()
            })
            .collect();
        assert_eq!(is_shared, [false, false, false, false, false, true]);
    }

    #[test]
    fn silence_is_shorter_than_a_short_timeout() {
        for (timeout, silence) in [(50, Duration::from_micros(12_500)), (3000, ms(250))] {
            assert_eq!(Outage::new(ms(timeout), 1).silence, silence);
        }
    }
}
