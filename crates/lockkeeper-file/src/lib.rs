//! The file store: locks for the processes of one machine, in one SQLite file, with nothing to set
//! up.
//!
//! The store writes every token to the disk before it issues the token, so tokens rise for as long
//! as the file is kept. Nothing else about a lock has to survive: when the host restarts, all locks
//! are free. A claim lives as long as its session, and a session as long as its process. When the
//! process ends, in whatever way, its locks are free at once (with a lock-delay, after the delay),
//! and the kernel wakes the waiters.
//!
//! Beside `locks.db` (and SQLite's own `-wal` and `-shm`) are three more places. In `locks.db.gate`
//! processes queue for the gate to write. `locks.db.live/` has a file for each client, which the
//! client keeps locked for its lifetime. `locks.db.notify/` wakes the waiters. Remove them only
//! together, and only when no program uses them.
//!
//! A process that is stopped in the middle of a write (Ctrl-Z, a debugger) stops the writes of all
//! others until it goes on. Reads work, and the deadlines of holders fire as usual.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod admin;
mod boot;
mod builder;
mod checks;
mod claim;
mod closing;
mod database;
mod doctor;
mod driver;
mod fault;
mod files;
mod filesystem;
mod gate;
mod layout;
mod limit;
mod liveness;
mod notify;
mod opened;
mod reader;
mod register;
mod renew;
mod settling;
mod wait;
mod watch;
mod withdraw;
mod writer;

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use tokio::sync::oneshot::Receiver;

pub use self::builder::FileStoreBuilder;
pub use self::checks::Check;
use self::closing::Closing;
pub use self::driver::DRIVER;
use self::fault::Outcome;
use self::gate::Waiting;
use self::layout::times::now;
use self::layout::{Commit, Txn, read};
use self::limit::Limits;
use self::liveness::{ClientId, DeadClientCheck};
use self::reader::Reader;
pub use self::register::FileRegister;
use self::writer::Job;
use lockkeeper_core::kit::{Process, random};
use lockkeeper_core::store::{
    Admin, Amend, Amended, Capabilities, Claim, ClaimKey, Expiry, Interest, Line, Live, Opened,
    Renewed, Revision, SessionId, SessionSpec, Store, StoreId, Verdict, Wake, Withdrawal,
};
use lockkeeper_core::{
    Error, ErrorKind, LockName, Open, Result, duration, registers, store, time, url,
};

/// The capabilities of this store.
const CAPABILITIES: Capabilities =
    Capabilities { expiry: Expiry::Session { proof_lag: 0 }, ..Capabilities::full() };

/// A store in a file of this host. Clones are the same client; each further opening of the file is
/// another client.
///
/// The drop of the last clone waits for the threads that close the file: for about a millisecond.
/// While another process keeps the file from being written, the drops of all its stores together
/// wait for 500 ms. A child that is forked then may open the file.
#[derive(Clone)]
pub struct FileStore(Arc<Shared>);

struct Shared {
    path: PathBuf,
    own: ClientId,
    /// Locked for as long as this client lives. See [`FileStore::liveness`].
    liveness: File,
    jobs: Sender<Job>,
    waiting: Arc<Waiting>,
    reader: Reader,
    limits: Limits,
    process: Process,
    /// Dropped after all by which the threads notice the end.
    _closing: Closing,
}

impl FileStore {
    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// A duplicate of the descriptor that shows other processes that this client lives.
    ///
    /// The client counts as dead, and its locks are freed, only when every duplicate is closed. A
    /// program may leave the end of its hold to a child: a guard process that outlives the program,
    /// and waits for the last process of a group. The program gives the child one of these
    /// descriptors, so that "freed at once" never means that two commands run. The descriptor is
    /// closed on `exec` unless the program prevents it.
    ///
    /// # Errors
    /// The errors of `dup`: too many open files.
    pub fn liveness(&self) -> std::io::Result<File> {
        self.0.liveness.try_clone()
    }

    /// Runs a request on the writer's thread. The request takes its place there at the first poll,
    /// and is done even if the future is dropped then.
    async fn write<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Txn<'_>) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        self.commit(Commit::InOrder, operation).await
    }

    async fn commit<T: Send + 'static>(
        &self,
        commit: Commit,
        operation: impl FnOnce(&mut Txn<'_>) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        self.answer_of(writer::job(commit, operation)).await
    }

    async fn answer_of<T>(&self, (job, answer): (Job, Receiver<Result<T>>)) -> Result<T> {
        self.check_process()?;
        self.0.waiting.check(&self.0.path, now())?;
        // If the thread has ended, the job is dropped with its reply, and the caller gets an error.
        let _ = self.0.jobs.send(job);
        match self.0.limits.within(answer).await {
            Some(answer) => answer.unwrap_or_else(|_| Err(fault::ended().with_unknown_effect())),
            None => Err(gate::shut(&self.0.path).with_unknown_effect()),
        }
    }

    /// Looks at the file in the reader's thread.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection, &mut DeadClientCheck<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        self.check_process()?;
        let looked = self.0.limits.within(self.0.reader.look(look)).await;
        looked.unwrap_or_else(|| Err(fault::unread(&self.0.path)))
    }

    /// Threads are not inherited, and SQLite's locks neither.
    fn check_process(&self) -> Result<()> {
        self.0.process.check(self, "store").map_err(|e| e.with_remedy(opened::AFTER_A_FORK))
    }
}

impl From<Shared> for FileStore {
    fn from(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }
}

impl fmt::Display for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file:{}", self.0.path.display())
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileStore").field(&self.0.path).finish()
    }
}

#[async_trait]
impl Store for FileStore {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }

    async fn open(&self, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        check_range(&self.capabilities(), spec)?;
        let (id, spec, client) = (id.clone(), spec.clone(), Arc::clone(&self.0.own));
        // If this future is dropped, the store may be next, and the session would have no client.
        self.answer_of(writer::job_if_awaited(move |txn| txn.open(&id, &spec, &client))).await
    }

    async fn renew(&self, session: &SessionId, live: &[Live]) -> Result<Renewed> {
        let (session, live) = (session.clone(), live.to_vec());
        self.write(move |txn| txn.renew(&session, &live)).await
    }

    async fn close(&self, session: &SessionId, _live: &[Live]) -> Result<()> {
        let session = session.clone();
        self.write(move |txn| txn.close(&session)).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        let claim = claim.clone();
        // A repeated claim joins no line: its token, if it has one, is on the disk.
        let commit = if claim.resend { Commit::InOrder } else { Commit::OnDisk };
        self.commit(commit, move |txn| txn.claim(&claim)).await
    }

    async fn amend(&self, key: &ClaimKey, number: u64, change: &Amend) -> Result<Amended> {
        let (key, change) = (key.clone(), change.clone());
        self.write(move |txn| txn.amend(&key, number, &change)).await
    }

    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
        let key = key.clone();
        self.write(move |txn| txn.withdraw(&key, tombstone)).await
    }

    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        self.check_process()?;
        wait::wait(&self.0.reader, interest, seen, within).await
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        let name = name.clone();
        self.look(move |db, dead_clients| read::line(db, &name, now(), dead_clients)).await
    }

    async fn id(&self) -> Result<StoreId> {
        let id = self.look(|db, _| read::id(db)).await?;
        id.try_into().map(StoreId::from_bytes).map_err(|id: Vec<u8>| {
            let problem =
                format!("{self}: the id in its table lk_meta has {} bytes instead of 16", id.len());
            Error::new(ErrorKind::Unsupported, problem)
                .with_remedy("the file as lockkeeper has made it")
        })
    }
}

fn check_range(can: &Capabilities, session: &SessionSpec) -> Result<()> {
    let refuse = |what: &str, asked: Duration, least: Duration, most: Duration| {
        let problem = format!("a {what} of {asked:?}: a file store takes {least:?} to {most:?}");
        Err(Error::new(ErrorKind::Unsupported, problem)
            .with_remedy(format!("a {what} in that range")))
    };
    if session.ttl < can.ttl_min || session.ttl > can.ttl_max {
        return refuse("ttl", session.ttl, can.ttl_min, can.ttl_max);
    }
    if session.lock_delay > can.lock_delay_max {
        return refuse("lock-delay", session.lock_delay, Duration::ZERO, can.lock_delay_max);
    }
    Ok(())
}
