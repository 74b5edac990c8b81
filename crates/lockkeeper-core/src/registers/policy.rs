//! How often an attempt is repeated, and how long the pauses are.

use std::time::Duration;

use crate::time::{Clock, Instant};
use crate::{Error, ErrorKind, Result, random, runtime};

/// How an optimistic attempt is repeated (back-off). After each failure it pauses for a random time
/// between zero and a bound. The bound doubles each time, so that clients that conflicted once do
/// not conflict again in step.
///
/// ```
/// use std::time::Duration;
/// use lockkeeper::optimistic::Policy;
///
/// let patient = Policy::default().within(Duration::from_secs(120)).longest(Duration::from_secs(5));
/// let once = Policy::default().attempts(1);
/// # let _ = (patient, once);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a policy does nothing by itself"]
pub struct Policy {
    first: Duration,
    longest: Duration,
    attempts: u32,
    within: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(5),
            longest: Duration::from_millis(100),
            attempts: u32::MAX,
            within: Duration::from_secs(30),
        }
    }
}

impl Policy {
    /// Sets the bound of the first pause; 5 ms by default. Each further pause doubles it.
    pub fn first(mut self, pause: Duration) -> Self {
        self.first = pause;
        self
    }

    /// Sets the largest bound of a pause; 100 ms by default. Other writers do not wait for a client
    /// that pauses. So with long pauses among many writers a client may never succeed.
    pub fn longest(mut self, pause: Duration) -> Self {
        self.longest = pause;
        self
    }

    /// Sets the number of tries in all; unlimited by default. Reads after a lost answer count too.
    /// 0 is taken as 1.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Sets the time for all tries; 30 s by default. A request without an answer by then is given
    /// up, and its outcome is unknown.
    pub fn within(mut self, time: Duration) -> Self {
        self.within = time;
        self
    }

    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) outside a runtime.
    #[doc(hidden)]
    pub fn start(&self) -> Result<Tries> {
        runtime::check_here()?;
        let clock = Clock::tokio();
        Ok(Tries { policy: self.clone(), started: clock.now(), clock, made: 1 })
    }

    /// The bound of the pause after this many tries.
    fn bound(&self, made: u32) -> Duration {
        let doubled = 1_u32.checked_shl(made.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(doubled).min(self.longest)
    }
}

/// The tries of one call.
#[derive(Debug)]
#[doc(hidden)]
pub struct Tries {
    policy: Policy,
    clock: Clock,
    started: Instant,
    made: u32,
}

impl Tries {
    /// Pauses before the next try; `false` if no further try is due.
    #[doc(hidden)]
    pub async fn again(&mut self) -> bool {
        let Some(pause) = self.next_pause() else { return false };
        self.clock.sleep(pause).await;
        true
    }

    /// Begins the next try, if one is due. Returns the pause before it.
    fn next_pause(&mut self) -> Option<Duration> {
        let bound = u64::try_from(self.policy.bound(self.made).as_nanos()).unwrap_or(u64::MAX);
        let pause = Duration::from_nanos(random::below(bound.saturating_add(1)));
        if self.made >= self.policy.attempts || pause >= self.left() {
            return None;
        }
        self.made += 1;
        Some(pause)
    }

    /// Awaits an answer for as long as there is time.
    #[doc(hidden)]
    pub async fn answer<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let silent = || {
            let problem = format!("no answer came within {:?}", self.policy.within);
            Error::new(ErrorKind::Unavailable, problem)
                .with_remedy("check that the store runs, or set a longer Policy::within")
        };
        self.clock
            .timeout(self.left(), request)
            .await
            .unwrap_or_else(|| Err(silent().with_unknown_effect()))
    }

    /// The error when every try met a conflict.
    #[doc(hidden)]
    pub fn conflict(&self) -> Error {
        let problem = format!("another client was faster each time ({} tries)", self.made);
        Error::new(ErrorKind::Conflict, problem)
            .with_remedy("more time or more tries (Policy), or a lock around the work")
    }

    fn left(&self) -> Duration {
        self.policy.within.saturating_sub(self.clock.now().saturating_since(self.started))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_bound_doubles_up_to_the_longest() {
        let policy = Policy::default().first(ms(10)).longest(ms(75));
        let bounds: Vec<_> = [1, 2, 3, 4, 5, 40, u32::MAX].map(|made| policy.bound(made)).into();
        assert_eq!(bounds, [10, 20, 40, 75, 75, 75, 75].map(ms));
        assert_eq!(
            Policy::default().first(Duration::MAX).longest(Duration::MAX).bound(9),
            Duration::MAX
        );
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_are_spread_over_their_bound() {
        let policy = Policy::default().first(ms(1000)).longest(ms(1000));
        let mut pauses = Vec::new();
        for _ in 0..64 {
            let mut tries = policy.start().unwrap();
            assert!(tries.again().await);
            pauses.push(tries.clock.now().saturating_since(tries.started));
        }
        assert!(pauses.iter().all(|pause| *pause <= ms(1001)), "{pauses:?}");
        // 64 even draws that all lie in one half: one in 2^63.
        assert!(
            pauses.iter().any(|pause| *pause < ms(500))
                && pauses.iter().any(|pause| *pause > ms(500))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn tries_end_with_their_number_and_with_their_time() {
        let mut tries = Policy::default().attempts(3).start().unwrap();
        let mut made = 1;
        while tries.again().await {
            made += 1;
        }
        assert_eq!(made, 3);
        assert!(!Policy::default().attempts(0).start().unwrap().again().await);

        let mut tries = Policy::default().within(ms(500)).longest(ms(50)).start().unwrap();
        while tries.again().await {}
        let taken = tries.clock.now().saturating_since(tries.started);
        // A timer of tokio may be a millisecond late.
        assert!(ms(400) < taken && taken <= ms(501), "{taken:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_not_waited_for_for_ever() {
        let tries = Policy::default().within(ms(500)).start().unwrap();
        let error = tries.answer(std::future::pending::<Result<()>>()).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, crate::Effect::Unknown)
        );
        assert_eq!(tries.clock.now().saturating_since(tries.started).as_millis(), 500);
    }
}
