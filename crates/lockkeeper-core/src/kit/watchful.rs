//! To wait for a state that another task changes, and to miss no change.
//!
//! A look that finds nothing, and a wait after it, would miss a change between the two. So the
//! waiter registers with the [`Notify`] first, then looks, and only then waits.

use std::future::Future;
use std::pin::pin;

use tokio::sync::Notify;

use crate::time::{Clock, Instant};

/// The result of `look`, now or after a notification. `notify_waiters` wakes all tasks, and each
/// looks again.
///
/// # Cancel safety
/// The future may be dropped at any time.
pub async fn watchful<T>(notify: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        let mut notified = pin!(notify.notified());
        notified.as_mut().enable();
        if let Some(found) = look() {
            return found;
        }
        notified.await;
    }
}

/// The result of a look that asks a server; `None` if `until` comes during a wait. A look is always
/// polled to its end, and the first look takes place even if `until` has passed.
///
/// # Cancel safety
/// The future may be dropped at any time at which the futures of `look` may be dropped.
pub async fn watchful_until<T, F: Future<Output = Option<T>>>(
    clock: &Clock,
    until: Instant,
    notify: &Notify,
    mut look: impl FnMut() -> F,
) -> Option<T> {
    loop {
        let mut notified = pin!(notify.notified());
        notified.as_mut().enable();
        if let Some(found) = look().await {
            return Some(found);
        }
        clock.timeout(until.saturating_since(clock.now()), notified).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::ready;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn what_changes_during_the_look_is_not_missed() {
        let (notify, looks) = (Notify::new(), Cell::new(0));
        let look = || {
            looks.set(looks.get() + 1);
            // The notification of another task comes before the wait.
            notify.notify_waiters();
            (looks.get() == 2).then_some(7)
        };
        assert_eq!(watchful(&notify, look).await, 7);
        looks.set(0);
        let (clock, look) = (Clock::tokio(), || ready(look()));
        assert_eq!(watchful_until(&clock, clock.now() + LONG, &notify, look).await, Some(7));
    }

    #[test]
    fn a_state_that_is_there_needs_no_notification() {
        let mut cx = Context::from_waker(Waker::noop());
        let notify = Notify::new();
        assert_eq!(pin!(watchful(&notify, || Some(1))).poll(&mut cx), Poll::Ready(1));
        assert_eq!(pin!(watchful(&notify, || None::<u8>)).poll(&mut cx), Poll::Pending);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_ends_a_wait_and_not_a_look() {
        let (clock, notify) = (Clock::tokio(), Notify::new());
        let asks = || async {
            Clock::tokio().sleep(LONG).await;
            Some(1)
        };
        assert_eq!(watchful_until(&clock, clock.now(), &notify, asks).await, Some(1));
        let began = clock.now();
        assert_eq!(watchful_until(&clock, began + LONG, &notify, || ready(None::<u8>)).await, None);
        assert!(clock.now().saturating_since(began) >= LONG);
    }
}
