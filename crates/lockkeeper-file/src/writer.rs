//! The writer: one thread that enters the gate, and does all waiting requests in one transaction.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use tokio::sync::oneshot;

use super::closing::Running;
use super::database::Database;
use super::fault::{self, Outcome};
use super::files::Identity;
use super::gate::{Gate, Waiting};
use super::layout::times::micros;
use super::layout::{Commit, Kind, Memory, Txn};
use super::liveness::{ClientId, Clients, DeadClientCheck};
use super::notify::{Notifications, Notifier};
use crate::time::Clock;
use crate::{Error, ErrorKind, Result};

/// As many requests share a transaction, and so one wait for the disk.
const BATCH_MAX: usize = 256;

/// A request under way to the writer.
pub(super) struct Job {
    commit: Commit,
    work: Work,
}

/// The work gets the transaction, or the reason why there is none.
type Work = Box<dyn FnOnce(Result<&mut Txn<'_>>) -> Answer + Send>;

/// The answer, to be sent when the outcome of the commit is known.
pub(super) type Answer = Box<dyn FnOnce(Result<()>) + Send>;

/// Starts a thread; this store has no other kind of thread. The thread ends by itself and is never
/// joined: a process that closes must not hang at a gate that another process keeps shut. See
/// [`Closing`](super::closing::Closing).
pub(super) fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop).map_err(|e| {
        Error::new(ErrorKind::Unavailable, format!("no thread could be started: {e}"))
            .with_remedy("a higher limit of threads (ulimit -u)")
            .with_source(e)
    })
}

/// A request in the writer's form, and the receiver of its answer.
pub(super) fn job<T: Send + 'static>(
    commit: Commit,
    operation: impl FnOnce(&mut Txn<'_>) -> Outcome<T> + Send + 'static,
) -> (Job, oneshot::Receiver<Result<T>>) {
    let (reply, answer) = oneshot::channel();
    let work: Work = Box::new(move |txn| {
        let result = txn.and_then(|txn| txn.attempt(operation));
        // The receiver is gone if the future was dropped. The change stays done.
        Box::new(move |committed| drop(reply.send(committed.and(result))))
    });
    (Job { commit, work }, answer)
}

/// The same for a request that is not done if its future is dropped before its turn.
pub(super) fn job_if_awaited<T: Send + 'static>(
    operation: impl FnOnce(&mut Txn<'_>) -> Outcome<T> + Send + 'static,
) -> (Job, oneshot::Receiver<Result<T>>) {
    let (reply, answer) = oneshot::channel::<Result<T>>();
    let work: Work = Box::new(move |txn| {
        if reply.is_closed() {
            return Box::new(|_| ());
        }
        let result = txn.and_then(|txn| txn.attempt(operation));
        Box::new(move |committed| drop(reply.send(committed.and(result))))
    });
    (Job { commit: Commit::InOrder, work }, answer)
}

/// The state of the writer's thread.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) gate: Gate,
    pub(super) waiting: Arc<Waiting>,
    pub(super) state: WriterState,
    /// After the state: its connection is closed then.
    pub(super) _running: Sender<Running>,
}

/// The writer's tools inside the gate.
pub(super) struct WriterState {
    pub(super) db: Database,
    pub(super) clients: Clients,
    pub(super) own: ClientId,
    pub(super) file: Identity,
    pub(super) notifier: Notifier,
    pub(super) clock: Clock,
    pub(super) memory: Memory,
    /// The present setting of SQLite.
    pub(super) commit: Commit,
    /// Whether something is committed that has to be on the disk before the next answer.
    pub(super) owes_disk: bool,
}

/// The work of a transaction that remains to be done outside the gate.
struct Done {
    answers: Vec<Answer>,
    committed: Result<()>,
    /// Whether other clients see the changes, though the answer may be an error.
    is_committed: bool,
    notifications: Notifications,
    dead: Vec<ClientId>,
}

impl fmt::Debug for WriterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterState").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Writer {
    /// Works until every sender is gone and all requests are done.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let batch = std::iter::once(first).chain(jobs.try_iter().take(BATCH_MAX - 1)).collect();
            self.transact(batch);
        }
        // Nobody waits for the answer.
        let own = Arc::clone(&self.state.own);
        let (leaving, _) = job(Commit::InOrder, move |txn| txn.leave(&own));
        self.transact(vec![leaving]);
    }

    /// One transaction. The waiters are notified and the answers are given after the commit, and
    /// when the next one may come in.
    pub(super) fn transact(&mut self, jobs: Vec<Job>) {
        self.waiting.begin(micros(self.state.clock.now()));
        let entered = self.gate.enter();
        self.waiting.end();
        let done = match entered {
            Ok(_inside) => self.state.transact(jobs),
            Err(e) => refuse(jobs, fault::io(self.state.file.path(), "lock its gate", e)),
        };
        if done.is_committed {
            done.dead.iter().for_each(|client| self.state.clients.remove_dead_client(client));
            self.state.notifier.notify(&done.notifications);
        }
        done.answers.into_iter().for_each(|answer| answer(done.committed.clone()));
    }
}

impl WriterState {
    fn transact(&mut self, jobs: Vec<Job>) -> Done {
        let commit = jobs.iter().map(|job| job.commit).max().unwrap_or(Commit::OnDisk);
        if let Err(e) = self.begin(commit) {
            return refuse(jobs, e);
        }
        let dead_clients = DeadClientCheck::new(&self.clients, &self.own);
        // The clock is read behind the gate: a request that was sent before the gate opened cannot
        // be later than this.
        let now = micros(self.clock.now());
        let kind = Kind { alone: jobs.len() == 1, commit };
        let mut txn =
            Txn::new(&self.db, self.file.path(), now, dead_clients, &mut self.memory, kind);
        let answers = jobs
            .into_iter()
            .map(|job| match txn.failure() {
                None => (job.work)(Ok(&mut txn)),
                Some(failure) => (job.work)(Err(failure)),
            })
            .collect();
        let needs_disk = txn.needs_disk() && commit != Commit::OnDisk;
        let (failure, notifications, dead) = txn.finish();
        let committed = failure.map_or_else(|| self.commit(), Err);
        let is_committed = committed.is_ok();
        self.owes_disk |= needs_disk && is_committed;
        let committed =
            committed.and_then(|()| if self.owes_disk { self.reach_disk() } else { Ok(()) });
        let committed = committed.and_then(|()| self.still_counts());
        Done { answers, committed, is_committed, notifications, dead }
    }

    fn begin(&mut self, commit: Commit) -> Result<()> {
        self.file.check()?;
        self.wait_for_disk(commit)
            .and_then(|()| self.run("BEGIN IMMEDIATE"))
            .map_err(|e| fault::undone(self.file.path(), e))
    }

    /// Must not run within a transaction: SQLite refuses it there.
    fn wait_for_disk(&mut self, commit: Commit) -> rusqlite::Result<()> {
        if self.commit != commit {
            self.db.execute_batch(match commit {
                Commit::InOrder => "PRAGMA synchronous = NORMAL",
                Commit::OnDisk => "PRAGMA synchronous = FULL",
            })?;
            self.commit = commit;
        }
        Ok(())
    }

    /// Waits until all that was committed is on the disk: for that, one more transaction that waits
    /// is enough. SQLite waits for nothing if the transaction changes no byte.
    ///
    /// What was committed before stays committed if this fails. So the effect of the requests is
    /// unknown, and the next batch waits for the disk.
    fn reach_disk(&mut self) -> Result<()> {
        #[cfg(test)]
        {
            self.memory.reached += 1;
        }
        let begun = self.wait_for_disk(Commit::OnDisk).and_then(|()| {
            self.run("BEGIN IMMEDIATE")?;
            self.run("UPDATE lk_meta SET synced = synced + 1")
        });
        let reached = match begun {
            Ok(()) => self.commit(),
            Err(e) => {
                // There may be none.
                let _ = self.db.execute_batch("ROLLBACK");
                Err(fault::uncommitted(self.file.path(), e))
            }
        };
        self.owes_disk = reached.is_err();
        reached.map_err(Error::with_unknown_effect)
    }

    /// The file may have been removed within the transaction: the next writer at the gate makes
    /// another one.
    fn still_counts(&self) -> Result<()> {
        self.file.check().map_err(Error::with_unknown_effect)
    }

    fn commit(&self) -> Result<()> {
        let Err(e) = self.run("COMMIT") else { return Ok(()) };
        if !self.db.is_autocommit() {
            // If not even this works, the next BEGIN says so.
            let _ = self.db.execute_batch("ROLLBACK");
        }
        Err(fault::uncommitted(self.file.path(), e))
    }

    fn run(&self, sql: &str) -> rusqlite::Result<()> {
        self.db.prepare_cached(sql)?.execute([]).map(drop)
    }
}

fn refuse(jobs: Vec<Job>, why: Error) -> Done {
    let answers = jobs.into_iter().map(|job| (job.work)(Err(why.clone()))).collect();
    Done {
        answers,
        committed: Err(why),
        is_committed: false,
        notifications: Notifications::default(),
        dead: Vec::new(),
    }
}
