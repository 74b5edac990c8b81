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
//! A claim that has its turn makes leases, so a call that withdraws claims must not hold the gate
//! of the leases. Therefore no call gets hold of a [`LeaseGate`]: the gate takes the work instead,
//! and a close only shuts it.

use tokio::sync::Mutex as Gate;

use crate::{Result, sessions};

/// The gate of the leases of a session: `true` once the session is closed.
#[derive(Debug, Default)]
pub(crate) struct LeaseGate(Gate<bool>);

impl LeaseGate {
    /// Makes a lease when no other call makes one. `making` waits for no gate above this one.
    ///
    /// # Errors
    /// `SessionLost` once the session is closed.
    pub(crate) async fn pass<T>(&self, making: impl Future<Output = Result<T>>) -> Result<T> {
        let is_closed = self.0.lock().await;
        match *is_closed {
            true => Err(sessions::lost()),
            false => making.await,
        }
    }

    /// Waits for the end of the call that makes a lease. No lease is made after that.
    pub(crate) async fn close(&self) {
        *self.0.lock().await = true;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_close_waits_for_the_lease_that_is_being_made_and_no_other_is_made_after_it() {
        let (gate, mut cx) = (LeaseGate::default(), Context::from_waker(Waker::noop()));
        let (made, is_made) = tokio::sync::oneshot::channel();
        let mut making = pin!(gate.pass(async { Ok(is_made.await) }));
        assert!(making.as_mut().poll(&mut cx).is_pending());
        let mut closing = pin!(gate.close());
        assert!(closing.as_mut().poll(&mut cx).is_pending());
        let mut late = pin!(gate.pass(async { Ok(()) }));
        assert!(late.as_mut().poll(&mut cx).is_pending());
        made.send(7).unwrap();
        assert!(matches!(making.as_mut().poll(&mut cx), Poll::Ready(Ok(Ok(7)))));
        assert!(closing.as_mut().poll(&mut cx).is_ready());
        let Poll::Ready(Err(error)) = late.as_mut().poll(&mut cx) else { panic!("it is made") };
        assert_eq!(error.kind(), ErrorKind::SessionLost);
    }
}
