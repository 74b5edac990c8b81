//! Time that goes on only while a server has no request to do, for a real server whose clock can be
//! moved.
//!
//! The runtime of the case is paused, so its time does not go on by itself, and neither does the
//! time of the server. Both times go on in steps, and each step waits until the server has no
//! request to do. So a case that waits for the end of a lease takes milliseconds, and a busy
//! machine makes no request late.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;

/// The first step after a request. Each further step is twice as long.
const FIRST_STEP: Duration = Duration::from_millis(1);

/// The longest step. A timer may go off late by this much.
const LAST_STEP: Duration = Duration::from_millis(20);

/// After this number of looks in a row without a request of others, no client has anything to do. A
/// timer that goes off sends its request before the second look, and the server has done that
/// request before the third look.
const QUIET_LOOKS: u32 = 4;

/// The clock of a server. The time of the server goes on only by [`advance`](Self::advance).
#[async_trait]
pub trait ServerClock: Send + Sync + 'static {
    /// Moves the clock of the server on by `step`. The server uses the later time when this method
    /// returns.
    async fn advance(&self, step: Duration);

    /// Asks the server, and returns how many requests of others it has done.
    async fn requests(&self) -> u64;
}

/// Moves the time of the current runtime and of a server, until this value is dropped. The runtime
/// must be paused, and have one thread.
#[derive(Debug)]
pub(super) struct Moving {
    task: JoinHandle<()>,
    /// Tokio moves a paused time by itself when the runtime only waits for a socket, but not while
    /// a blocking task runs. This sender keeps a blocking task running.
    _held: mpsc::Sender<()>,
}

impl Moving {
    pub(super) fn start(server: Arc<dyn ServerClock>) -> Self {
        let (held, dropped) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || {
            // The sender sends nothing: `recv` ends when the sender is dropped.
            let _ = dropped.recv();
        });
        Self { task: tokio::spawn(go_on(server)), _held: held }
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn go_on(server: Arc<dyn ServerClock>) {
    let (mut seen, mut quiet, mut step) = (server.requests().await, 0, FIRST_STEP);
    loop {
        let requests = server.requests().await;
        if requests != seen {
            (seen, quiet, step) = (requests, 0, FIRST_STEP);
            continue;
        }
        quiet += 1;
        if quiet >= QUIET_LOOKS {
            server.advance(step).await;
            tokio::time::advance(step).await;
            (quiet, step) = (0, LAST_STEP.min(2 * step));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::time::Instant;

    use super::*;

    /// A server with a clock that gets one request of others at each of the first `busy` looks.
    #[derive(Default)]
    struct Server {
        requests: AtomicU64,
        busy: AtomicU64,
        millis: AtomicU64,
    }

    #[async_trait]
    impl ServerClock for Server {
        async fn advance(&self, step: Duration) {
            self.millis.fetch_add(u64::try_from(step.as_millis()).unwrap(), Ordering::Relaxed);
        }

        async fn requests(&self) -> u64 {
            tokio::task::yield_now().await;
            if self.busy.load(Ordering::Relaxed) > 0 {
                self.busy.fetch_sub(1, Ordering::Relaxed);
                self.requests.fetch_add(1, Ordering::Relaxed);
            }
            self.requests.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_goes_on_for_the_server_and_for_us_alike() {
        let (server, start) = (Arc::new(Server::default()), Instant::now());
        let _moving = Moving::start(server.clone());
        tokio::time::sleep(Duration::from_secs(10)).await;
        let passed = start.elapsed();
        assert!(passed < Duration::from_secs(10) + 2 * LAST_STEP, "{passed:?}");
        let ours = u64::try_from(passed.as_millis()).unwrap();
        assert!(server.millis.load(Ordering::Relaxed).abs_diff(ours) <= 20);
    }

    #[tokio::test(start_paused = true)]
    async fn time_stands_still_while_the_server_has_something_to_do() {
        let server = Arc::new(Server::default());
        server.busy.store(1000, Ordering::Relaxed);
        let (start, _moving) = (Instant::now(), Moving::start(server.clone()));
        while server.busy.load(Ordering::Relaxed) > 0 {
            assert_eq!(start.elapsed(), Duration::ZERO);
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(server.millis.load(Ordering::Relaxed) >= 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_waits_for_a_socket_only_moves_no_time() {
        let (listener, start) =
            (tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap(), Instant::now());
        let server = Arc::new(Server::default());
        server.busy.store(u64::MAX, Ordering::Relaxed);
        let _moving = Moving::start(server);
        let address = listener.local_addr().unwrap();
        let timer = tokio::spawn(tokio::time::sleep(Duration::from_secs(1)));
        let client = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            std::net::TcpStream::connect(address).unwrap()
        });
        listener.accept().await.unwrap();
        client.join().unwrap();
        assert!(!timer.is_finished() && start.elapsed() == Duration::ZERO);
    }
}
