//! Requests to the writer to remove ended claims, from the reader, which may only read.

use std::collections::HashMap;
use std::sync::mpsc::Sender;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::layout::Commit;
use super::writer::{self, Job};
use crate::{LockName, Result};

type Answer = oneshot::Receiver<Result<()>>;

/// The queue of the writer, and the lines that the writer was asked to settle.
pub(super) struct Settling {
    jobs: Sender<Job>,
    asked: HashMap<LockName, Answer>,
}

impl Settling {
    pub(super) fn new(jobs: Sender<Job>) -> Self {
        Self { jobs, asked: HashMap::new() }
    }

    /// Asks for a line, unless that was asked already and is not done yet.
    pub(super) fn ask(&mut self, name: &LockName) {
        self.asked.retain(|_, answer| matches!(answer.try_recv(), Err(TryRecvError::Empty)));
        if self.asked.contains_key(name) {
            return;
        }
        let of = name.clone();
        let (job, answer) = writer::job(Commit::InOrder, move |txn| txn.settle(&of).map(drop));
        // If the writer's thread has ended, the store has too.
        let _ = self.jobs.send(job);
        self.asked.insert(name.clone(), answer);
    }
}
