//! The end of a keeper: waiters leave, held locks are lost, sessions are closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::limits::CLOSE_PAUSE;
use super::{Engine, Session};
use crate::time::Instant;
use crate::{Error, ErrorKind, LostReason, Result};

impl Engine {
    /// Ends everything: waiters leave the line, locks that are still held are lost, and releases
    /// are awaited for `within`.
    pub(crate) async fn shutdown(self: &Arc<Self>, within: Duration) -> Result<()> {
        self.lifetime.close();
        let deadline = self.clock.now() + within;
        let mut reached = self.runtime.drain(&self.clock, within).await;
        let failed = Arc::new(AtomicBool::new(false));
        for session in self.sessions.all() {
            for hold in session.claims.live() {
                self.lose(&hold, LostReason::Shutdown);
            }
            // A claim that joins after this is not sent: an attempt looks whether the keeper is
            // closed before it sends.
            session.end();
            self.sessions.forget(&session);
            if session.is_adopted() {
                continue;
            }
            // A lock under which work may go on keeps its delay, and expires.
            let keeps_a_delay =
                !session.spec.lock_delay.is_zero() && !session.claims.in_lock_delay().is_empty();
            session.claims.clear();
            if !keeps_a_delay {
                self.close_by(&session, deadline, &failed);
            }
        }
        reached &=
            self.runtime.drain(&self.clock, deadline.saturating_since(self.clock.now())).await;
        if reached && !failed.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "{} did not acknowledge all releases within {within:?}; the locks end with their leases",
                self.store
            ),
        )
        .with_unknown_effect())
    }

    /// Closes a session; repeats that until the store answers or `deadline` has come.
    fn close_by(
        self: &Arc<Self>,
        session: &Arc<Session>,
        deadline: Instant,
        failed: &Arc<AtomicBool>,
    ) {
        let (engine, session, failed) = (Arc::clone(self), Arc::clone(session), Arc::clone(failed));
        self.runtime.post(async move {
            while let Err(error) = engine.store.close(&session.id, &[]).await {
                if error.kind() == ErrorKind::SessionLost {
                    return;
                }
                if engine.now() + CLOSE_PAUSE >= deadline {
                    return failed.store(true, Ordering::Release);
                }
                engine.clock.sleep(CLOSE_PAUSE).await;
            }
        });
    }
}

impl Drop for Engine {
    /// The last keeper and the last guard are gone, and so are all claims. The sessions are closed
    /// in the background if the runtime still allows that.
    fn drop(&mut self) {
        if !self.lifetime.is_here() {
            return;
        }
        self.deadlines.wake();
        for session in self.sessions.all() {
            if session.end() && session.claims.in_lock_delay().is_empty() && !session.is_adopted() {
                let (store, id) = (Arc::clone(&self.store), session.id.clone());
                self.runtime.post(async move {
                    let _ = store.close(&id, &[]).await;
                });
            }
            session.claims.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Clock;
    use crate::{Keeper, MemoryStore};

    #[tokio::test(start_paused = true)]
    async fn nothing_keeps_a_session_after_the_end_of_its_keeper() {
        for shut_down in [true, false] {
            let clock = Clock::tokio();
            let store = MemoryStore::with_clock(clock.clone());
            let keeper =
                Keeper::builder(store).clock(clock.clone()).lock_delay(Duration::from_secs(5));
            let keeper = keeper.connect().await.unwrap();
            let guard =
                keeper.mutex("n").unwrap().lock().max_hold(Duration::from_secs(1)).await.unwrap();
            let session = Arc::downgrade(&guard.hold().session);
            guard.lost().await;
            drop(guard);
            if shut_down {
                keeper.shutdown(Duration::from_secs(1)).await.unwrap();
            } else {
                drop(keeper);
            }
            clock.sleep(Duration::from_secs(60)).await;
            assert!(session.upgrade().is_none(), "{shut_down}");
        }
    }
}
