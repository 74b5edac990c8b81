//! Waiting on a store that reports nothing by itself: looks, at first often and then more rarely.

use std::future::Future;
use std::time::Duration;

use crate::Result;
use crate::random::jittered;
use crate::time::Clock;

/// A waiter may look later than the change by this part of its wait so far: 1/8.
const PART: u32 = 8;

/// How often a waiter looks. The pause grows with the time that it has waited, so a short wait ends
/// soon and a long one costs the store little.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    shortest: Duration,
    longest: Duration,
}

impl Pace {
    /// No pause is shorter than `shortest` or longer than `longest`, but for a random part of up to
    /// a fifth, which shortens each pause, so that many waiters do not look in step.
    pub const fn new(shortest: Duration, longest: Duration) -> Self {
        Self { shortest, longest }
    }

    fn pause(&self, waited: Duration) -> Duration {
        jittered((waited / PART).max(self.shortest).min(self.longest))
    }
}

/// Looks until `look` finds something, and returns it; `None` if `look` finds nothing within this
/// time. The last look takes place at the end of the time.
///
/// # Errors
/// The error of the first look that fails.
///
/// # Cancel safety
/// The future may be dropped where the futures of `look` may be dropped.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use lockkeeper::store::{Pace, poll};
/// use lockkeeper::time::Clock;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> lockkeeper::Result<()> {
/// let pace = Pace::new(Duration::from_millis(1), Duration::from_secs(1));
/// let (clock, mut looks) = (Clock::boot(), 0);
/// let found = poll(&clock, pace, Duration::from_secs(5), || {
///     looks += 1;
///     std::future::ready(Ok((looks == 3).then_some("free")))
/// });
/// assert_eq!(found.await?, Some("free"));
/// # Ok(())
/// # }
/// ```
pub async fn poll<T, F: Future<Output = Result<Option<T>>>>(
    clock: &Clock,
    pace: Pace,
    within: Duration,
    mut look: impl FnMut() -> F,
) -> Result<Option<T>> {
    let began = clock.now();
    loop {
        if let Some(found) = look().await? {
            return Ok(Some(found));
        }
        let waited = clock.now().saturating_since(began);
        let left = within.saturating_sub(waited);
        if left.is_zero() {
            return Ok(None);
        }
        clock.sleep(pace.pause(waited).min(left)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::ready;

    use super::*;
    use crate::{Error, ErrorKind};

    const PACE: Pace = Pace::new(Duration::from_millis(20), Duration::from_secs(2));

    /// The times of the looks, in milliseconds since the beginning.
    async fn looks(within: Duration) -> Vec<u128> {
        let (clock, looks) = (Clock::tokio(), RefCell::new(Vec::new()));
        let began = clock.now();
        let look = || {
            looks.borrow_mut().push(clock.now().saturating_since(began).as_millis());
            ready(Ok(None::<u8>))
        };
        assert_eq!(poll(&clock, PACE, within, look).await, Ok(None));
        looks.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_wait_looks_often_and_a_long_one_rarely() {
        assert!(looks(Duration::from_millis(200)).await.len() >= 10);
        let long = looks(Duration::from_secs(600)).await;
        assert!((300..600).contains(&long.len()), "{} looks in ten minutes", long.len());
        let late = long.windows(2).find(|pair| pair[1] - pair[0] > pair[0] / 8 + 21);
        assert_eq!(late, None, "later than an eighth of the wait");
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_look_is_at_the_end_and_there_is_one_even_without_time() {
        assert_eq!(looks(Duration::ZERO).await, [0]);
        let last = looks(Duration::from_secs(7)).await.pop();
        assert!(last.is_some_and(|at| (7000..7005).contains(&at)), "{last:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_found_and_what_fails_ends_the_wait() {
        let clock = Clock::tokio();
        let within = Duration::from_secs(1);
        assert_eq!(poll(&clock, PACE, within, || ready(Ok(Some(1)))).await, Ok(Some(1)));
        let fails = || ready(Err::<Option<u8>, _>(Error::new(ErrorKind::Denied, "no")));
        assert_eq!(poll(&clock, PACE, within, fails).await.unwrap_err().kind(), ErrorKind::Denied);
    }
}
