//! The reply to one request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use redis::Value;
use tokio::sync::oneshot;

use super::error::WireError;

/// The sender of the reply to the caller.
pub(super) type Reply = oneshot::Sender<Result<Value, WireError>>;

/// Completes with the reply. Dropping it forgets the reply, never the request.
#[derive(Debug)]
pub struct Answer(Inner);

#[derive(Debug)]
enum Inner {
    Awaited(oneshot::Receiver<Result<Value, WireError>>),
    Given(Option<WireError>),
}

impl Answer {
    pub(super) fn new() -> (Reply, Self) {
        let (reply, answer) = oneshot::channel();
        (reply, Self(Inner::Awaited(answer)))
    }

    pub(super) fn not_sent(why: String) -> Self {
        Self(Inner::Given(Some(WireError::NotSent(why))))
    }
}

impl Future for Answer {
    type Output = Result<Value, WireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Inner::Awaited(answer) => {
                Pin::new(answer).poll(cx).map(|answer| answer.unwrap_or_else(|_| Err(gone())))
            }
            Inner::Given(error) => Poll::Ready(Err(error.take().unwrap_or_else(gone))),
        }
    }
}

fn gone() -> WireError {
    WireError::Broken("the runtime that carried the connection has ended".to_owned())
}
