//! The end of a store: its drop waits a moment for the threads that close the connections.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use lockkeeper_core::kit::Process;

/// How long a drop waits. The threads take about a millisecond, unless another process keeps the
/// gate shut.
const LIMIT: Duration = Duration::from_millis(500);

/// Waits for the end of the threads when this is dropped, so that a child that is forked then may
/// open the file.
pub(super) struct Closing {
    /// Closed when the threads have ended.
    threads: Mutex<Receiver<Running>>,
    process: Process,
    /// The writer's thread may drop the store, and cannot wait for itself.
    writer: ThreadId,
}

/// A part of a thread that is dropped after its connection.
pub(super) enum Running {}

impl Closing {
    /// Must be called by the writer's thread.
    pub(super) fn new() -> (Self, Sender<Running>) {
        let (running, threads) = channel();
        let (threads, process) = (Mutex::new(threads), Process::this());
        (Self { threads, process, writer: thread::current().id() }, running)
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let is_writer = thread::current().id() == self.writer;
        // A fork has no such threads.
        if !is_writer && self.process.is_this_in_its_namespace() {
            let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
            // The only result is the end of the threads, or of the time.
            let _ = threads.recv_timeout(LIMIT);
        }
    }
}
