//! The programs of docs/web.md, and the helpers of their handlers.

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use lockkeeper::fence::{FenceGate, FenceLayer, Stale};
use lockkeeper::{ErrorKind, Keeper, Sequencer};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinError;

#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) keeper: Keeper,
    pub(crate) gate: Arc<FenceGate>,
    pub(crate) stock: Arc<Mutex<u32>>,
    pub(crate) work: Arc<Work>,
    gone: mpsc::UnboundedSender<()>,
}

/// Work that takes as long as the test requires.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) begun: Notify,
    pub(crate) go_on: Notify,
    done: AtomicU32,
}

impl Work {
    pub(crate) fn done(&self) -> u32 {
        self.done.load(Ordering::SeqCst)
    }
}

impl Shop {
    /// A shop, and a message for every request whose handler is gone.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<()>) {
        let (gone, is_gone) = mpsc::unbounded_channel();
        let gate = Arc::new(FenceGate::new("stock".parse().unwrap()));
        let (stock, work) = (Arc::new(Mutex::new(20)), Arc::default());
        (Self { keeper: Keeper::memory(), gate, stock, work, gone }, is_gone)
    }

    async fn work(&self) -> Result<u32, Failure> {
        self.work.begun.notify_one();
        self.work.go_on.notified().await;
        Ok(self.work.done.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

pub(crate) fn locking(shop: &Shop) -> Router {
    Router::new()
        .route("/report", get(report))
        .route("/order", get(order))
        .layer(from_fn_with_state(shop.clone(), announce_the_end))
        .with_state(shop.clone())
}

async fn announce_the_end(State(shop): State<Shop>, request: Request, next: Next) -> Response {
    struct Announcement(mpsc::UnboundedSender<()>);
    impl Drop for Announcement {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let _announcement = Announcement(shop.gone);
    next.run(request).await
}

const TIME_LIMIT: Duration = Duration::from_secs(10); // less than the time limit of the clients

async fn report(State(shop): State<Shop>) -> Result<String, Failure> {
    let guard = shop.keeper.mutex("report")?.lock().wait(TIME_LIMIT).await?;
    let report = guard.scope(shop.work()).await?; // a client that hangs up ends it here
    guard.release().await?;
    Ok(format!("report {report}\n"))
}

async fn order(State(shop): State<Shop>) -> Result<String, Failure> {
    let guard = shop.keeper.mutex("order")?.lock().wait(TIME_LIMIT).await?;
    let work = tokio::spawn(async move {
        let order = guard.scope(shop.work()).await?; // goes on when the client hangs up
        guard.release().await?;
        Ok(order)
    });
    let order: Result<_, Failure> = work.await?;
    Ok(format!("order {}\n", order?))
}

pub(crate) async fn serve_until(
    stopped: impl Future<Output = ()> + Send + 'static,
    listener: TcpListener,
    shop: Shop,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    axum::serve(listener, locking(&shop)).with_graceful_shutdown(stopped).await?; // open requests come to their end
    shop.keeper.shutdown(Duration::from_secs(5)).await?; // releases are sent before the process ends
    Ok(())
}

pub(crate) fn fenced(shop: &Shop) -> Router {
    Router::new()
        .route("/stock", get(read).put(write))
        .layer(FenceLayer::new(shop.gate.clone()))
        .with_state(shop.clone())
}

async fn read(
    State(shop): State<Shop>,
    Extension(sequencer): Extension<Sequencer>,
) -> Result<String, Failure> {
    let stock = shop.stock.lock().unwrap_or_else(PoisonError::into_inner);
    shop.gate.admit(&sequencer)?;
    Ok(stock.to_string())
}

async fn write(
    State(shop): State<Shop>,
    Extension(sequencer): Extension<Sequencer>,
    body: String,
) -> Result<StatusCode, Failure> {
    let number = body.parse()?;
    let mut stock = shop.stock.lock().unwrap_or_else(PoisonError::into_inner);
    shop.gate.admit(&sequencer)?; // again: what came in between has passed the layer too
    *stock = number;
    Ok(StatusCode::NO_CONTENT)
}

/// The answer to a request that failed.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) StatusCode, String);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

impl From<lockkeeper::Error> for Failure {
    fn from(error: lockkeeper::Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Timeout | ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::QueueFull => StatusCode::TOO_MANY_REQUESTS,
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            kind if error.is_retryable() || kind == ErrorKind::Closed => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(status, error.to_string())
    }
}

impl From<Stale> for Failure {
    fn from(stale: Stale) -> Self {
        Self(StatusCode::PRECONDITION_FAILED, stale.to_string())
    }
}

impl From<std::num::ParseIntError> for Failure {
    fn from(error: std::num::ParseIntError) -> Self {
        Self(StatusCode::BAD_REQUEST, error.to_string())
    }
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Self {
        Self(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}
