//! The end of a store: its drop waits a moment for the threads that close the connections.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use lockkeeper_core::kit::Process;

use super::gate::Waiting;
use super::layout::times::{Micros, now, until};

/// How long drops wait, in µs. The threads take about a millisecond, unless another process keeps
/// the gate shut. All drops at a shut gate together wait for so long.
const LIMIT: Micros = 500_000;

/// Waits for the end of the threads when this is dropped, so that a child that is forked then may
/// open the file.
pub(super) struct Closing {
    /// Closed when the threads have ended.
    threads: Mutex<Receiver<Running>>,
    process: Process,
    /// The writer's thread may drop the store, and cannot wait for itself.
    writer: ThreadId,
    drops: &'static Waiting,
}

/// A part of a thread that is dropped after its connection.
pub(super) enum Running {}

impl Closing {
    /// Must be called by the writer's thread.
    pub(super) fn new(drops: &'static Waiting) -> (Self, Sender<Running>) {
        let (running, threads) = channel();
        let (threads, process) = (Mutex::new(threads), Process::this());
        (Self { threads, process, writer: thread::current().id(), drops }, running)
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let is_writer = thread::current().id() == self.writer;
        // A fork has no such threads.
        if !is_writer && self.process.is_this_in_its_namespace() {
            let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
            let now = now();
            let left = until(self.drops.begin(now) + LIMIT, now);
            if !matches!(threads.recv_timeout(left), Err(RecvTimeoutError::Timeout)) {
                self.drops.end();
            }
        }
    }
}
