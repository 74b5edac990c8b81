//! A request to release a lock, and the future that completes with it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::LockName;
use crate::engine::Hold;
use crate::store::Asked;

/// The request of an operator to the holder of a lock to release it, from
/// [`Admin::request_release`](crate::Admin::request_release). A holder that goes on keeps the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ReleaseRequest {
    /// The lock, with the keeper's prefix.
    pub name: LockName,
    /// The operator: the owner of the keeper that made the request.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// A future that completes when an operator asks for a lock, or for the first of several locks;
/// from [`Guard::release_requested`](crate::Guard::release_requested) and similar methods.
///
/// An earlier request, from before the first poll or from before this future existed, completes it
/// too. The future borrows nothing: a program may clone it, send it to another task, and keep it
/// longer than the guard. After the end of the guard it stays pending, unless a request came before
/// that.
///
/// # Cancel safety
/// The future only reads, and may be dropped.
#[must_use = "futures do nothing unless polled"]
pub struct ReleaseRequested {
    holds: Vec<Arc<Hold>>,
    waiting: Option<Pin<Box<dyn Future<Output = ReleaseRequest> + Send + Sync>>>,
}

impl ReleaseRequest {
    pub(crate) fn new(name: LockName, asked: &Asked) -> Self {
        Self { name, by: asked.by.to_string(), reason: asked.reason.to_string() }
    }
}

impl ReleaseRequested {
    pub(crate) fn of(holds: Vec<Arc<Hold>>) -> Self {
        Self { holds, waiting: None }
    }
}

async fn first_request(holds: Vec<Arc<Hold>>) -> ReleaseRequest {
    let mut requests: Vec<_> = holds.iter().map(|hold| Box::pin(hold.asked())).collect();
    let (at, asked) = poll_fn(|cx| {
        let polled = requests.iter_mut().map(|request| request.as_mut().poll(cx)).enumerate();
        let mut ready = polled.filter_map(|(at, asked)| match asked {
            Poll::Ready(asked) => Some((at, asked)),
            Poll::Pending => None,
        });
        ready.next().map_or(Poll::Pending, Poll::Ready)
    })
    .await;
    ReleaseRequest::new(holds[at].key.name.clone(), &asked)
}

impl Future for ReleaseRequested {
    type Output = ReleaseRequest;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ReleaseRequest> {
        let this = &mut *self;
        this.waiting
            .get_or_insert_with(|| Box::pin(first_request(this.holds.clone())))
            .as_mut()
            .poll(cx)
    }
}

impl Clone for ReleaseRequested {
    fn clone(&self) -> Self {
        Self::of(self.holds.clone())
    }
}

impl fmt::Debug for ReleaseRequested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.holds.iter().map(|hold| &hold.key.name);
        f.debug_struct("ReleaseRequested")
            .field("names", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for ReleaseRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} asks for the lock {:?} ({})", self.by, self.name.as_str(), self.reason)
    }
}
