//! Opening a file store.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::boot::Boot;
use super::checks::{self, Check};
use super::closing::{Closing, Running};
use super::files::{self, Identity, Rights};
use super::gate::{self, Gate, Waiting};
use super::layout::{Commit, Memory};
use super::limit::Limits;
use super::liveness::Clients;
use super::notify::{Notifier, NotifyFolder};
use super::reader::Reader;
use super::settling::Settling;
use super::wait::waiters::Waiters;
use super::writer::{self, Job, Writer, WriterState};
use super::{FileStore, Shared, database, fault};
use crate::store::Store;
use crate::time::Clock;
use crate::url::{Scheme, StoreUrl, UrlForm, UrlSyntax};
use crate::{Error, ErrorKind, Open, Result};
use lockkeeper_core::kit::Process;

/// What the URLs of a file look like.
pub(super) static URLS: UrlSyntax =
    UrlSyntax::new(&[Scheme::new("file", UrlForm::Path, "file:PATH")])
        .checks(&["network-fs", "permissions"]);

/// The options for opening a [`FileStore`]. A keeper takes the builder unopened too: see [`Open`].
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before open()"]
pub struct FileStoreBuilder {
    pub(super) path: PathBuf,
    create_parents: bool,
    pub(super) waived: Vec<Check>,
    boot: fn() -> Result<Boot>,
}

impl FileStore {
    /// A builder for the store in the file at `path`.
    #[allow(clippy::new_ret_no_self, reason = "a store is opened by its builder")]
    pub fn new(path: impl Into<PathBuf>) -> FileStoreBuilder {
        FileStoreBuilder::new(path.into())
    }

    /// A builder for the store of a `file:` URL. It creates missing folders of the path.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a URL of another scheme, or an `unsafe=` with a check
    /// that this store does not have.
    pub fn from_url(url: &StoreUrl) -> Result<FileStoreBuilder> {
        if url.scheme != "file" {
            return Err(
                Error::invalid(format!("{url} is not the URL of a file")).with_remedy("file:PATH")
            );
        }
        URLS.check(url)?;
        let checks = url.common.unsafe_checks.iter().filter_map(|name| Check::from_name(name));
        Ok(checks.fold(Self::new(&url.path).create_parents(true), FileStoreBuilder::allow))
    }
}

impl FileStoreBuilder {
    fn new(path: PathBuf) -> Self {
        Self { path, create_parents: false, waived: Vec::new(), boot: Boot::of_this_process }
    }

    /// Creates the folders of the path, for their owner alone, if they are not there.
    pub fn create_parents(mut self, create: bool) -> Self {
        self.create_parents = create;
        self
    }

    /// Waives this check: the store opens even if the check fails.
    pub fn allow(mut self, check: Check) -> Self {
        self.waived.push(check);
        self
    }

    /// As if this were the start of the machine.
    #[cfg(test)]
    pub(super) fn boot(mut self, boot: fn() -> Result<Boot>) -> Self {
        self.boot = boot;
        self
    }

    /// Opens the file, and creates it if it is not there.
    ///
    /// The call waits while another process is stopped in the middle of a write to the file.
    ///
    /// # Errors
    /// - `Unsupported`: a network file system, a hard-linked file, tables of another version, or
    ///   held locks that were acquired under another boot id on the same host.
    /// - `Invalid`: not a database, the database of another program, or no such folder.
    /// - `Forked`: the process that this one was forked from had the file open at the fork.
    /// - `Denied`: this user has too few rights, or other users have too many.
    /// - `Unavailable`: the disk is full or fails.
    ///
    /// # Cancel safety
    /// The future may be dropped. The opening may go on in its thread, and create the file.
    pub async fn open(self) -> Result<FileStore> {
        let (reply, opened) = oneshot::channel();
        writer::spawn_thread("lockkeeper-file", move || {
            match self.set_up(|| !reply.is_closed()) {
                Ok((store, writer, jobs)) => {
                    // If the caller has gone, the store is dropped here: the writer ends at once.
                    drop(reply.send(Ok(store)));
                    writer.run(&jobs);
                }
                Err(e) => drop(reply.send(Err(e))),
            }
        })?;
        opened.await.unwrap_or_else(|_| Err(fault::ended()))
    }

    /// Ends early, with any error, when the result is not wanted any more.
    fn set_up(self, is_wanted: impl Fn() -> bool) -> Result<(FileStore, Writer, Receiver<Job>)> {
        let path = self.locate()?;
        let beside = Beside::of(&path);
        beside.check(&path, &self.waived)?;
        Self::recognise(&path)?;
        beside.make()?;
        let gate = beside.gate()?;
        let entered = gate.enter_while(is_wanted);
        let inside = entered.map_err(|e| fault::io(&path, "lock its gate", e))?;
        let inside = inside.ok_or_else(|| gate::shut(&path))?;
        // The boot is read inside the gate: with an older reading, the times in the file would be
        // times of another boot.
        let boot = (self.boot)()?;
        files::create(&path).map_err(|e| fault::io(&path, "create it", e))?;
        let file = Identity::of(&path).map_err(|e| fault::io(&path, "look at it", e))?;
        let mut db = database::connect(&path)?;
        let clients = Clients::new(beside.live.clone());
        database::prepare(&mut db, &path, &boot, &clients)?;
        let for_reading = database::connect(&path)?;
        // Checked again, now that all files are there: another process may have been faster, and
        // none can be any more.
        beside.check(&path, &self.waived)?;
        let file = file.and_of_its_log().map_err(|e| fault::io(&path, "look at its log", e))?;
        file.check()?;
        let rights = Rights::of(&path).map_err(|e| fault::io(&path, "look at it", e))?;
        let (own, liveness) =
            clients.enroll(rights).map_err(|e| fault::io(&path, "make a file beside it", e))?;
        drop(inside);

        let (jobs, receiver) = channel();
        let notify_folder = NotifyFolder { path: beside.notify, rights };
        let settling = Settling::new(jobs.clone());
        let waiters = Waiters::new(
            for_reading,
            file.clone(),
            notify_folder.clone(),
            clients.clone(),
            own.clone(),
            settling,
        );
        let (closing, running) = Closing::new(gate.drops());
        let reader = start_reader(waiters, running.clone())?;
        let memory = Memory::default();
        let notifier = Notifier::new(notify_folder);
        let commit = Commit::OnDisk;
        let state = WriterState {
            db,
            clients,
            own: own.clone(),
            file,
            notifier,
            clock: Clock::boot(),
            memory,
            commit,
            owes_disk: false,
        };
        let waiting = Arc::new(Waiting::default());
        let mut writer = Writer { gate, waiting: Arc::clone(&waiting), state, _running: running };
        clear_away(&mut writer)?;
        let (limits, process) = (Limits::start()?, Process::this());
        let store = FileStore::from(Shared {
            path,
            own,
            liveness,
            jobs,
            waiting,
            reader,
            limits,
            process,
            _closing: closing,
        });
        Ok((store, writer, receiver))
    }

    /// Looks at the existing files before any file is put beside them.
    fn recognise(path: &Path) -> Result<()> {
        if !path.exists() {
            return Ok(());
        }
        checks::database(path)?;
        let db = database::connect(path)?;
        database::recognise(&db, path).map(drop)
    }

    /// The one path of the file, whatever path was given: all clients must use the same files
    /// beside it.
    fn locate(&self) -> Result<PathBuf> {
        let absolute =
            std::path::absolute(&self.path).map_err(|e| fault::io(&self.path, "find it", e))?;
        let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return Err(Error::invalid(format!("{:?} is not the path of a file", self.path))
                .with_remedy("a path such as /var/lib/app/locks.db"));
        };
        if self.create_parents {
            private_folder(parent)?;
        }
        let folder = parent.canonicalize().map_err(|e| fault::io(parent, "find the folder", e))?;
        // A symbolic link leads to the real file, if it leads to a file.
        let path = folder.join(name);
        let path = path.canonicalize().unwrap_or(path);
        checks::folder(path.parent().unwrap_or(&folder), &self.waived)?;
        Ok(path)
    }
}

#[async_trait]
impl Open<dyn Store> for FileStoreBuilder {
    async fn opened(self: Box<Self>) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.open().await?))
    }
}

/// The files beside the database.
pub(super) struct Beside {
    pub(super) gate: PathBuf,
    pub(super) live: PathBuf,
    notify: PathBuf,
}

impl Beside {
    pub(super) fn of(path: &Path) -> Self {
        let [gate, live, notify] =
            [".gate", ".live", ".notify"].map(|suffix| files::suffixed(path, suffix));
        Self { gate, live, notify }
    }

    /// Refuses existing files of another user, SQLite's own files included.
    pub(super) fn check(&self, path: &Path, waived: &[Check]) -> Result<()> {
        let [log, index] = ["-wal", "-shm"].map(|suffix| files::suffixed(path, suffix));
        checks::owners(&[path, &log, &index, &self.gate, &self.live, &self.notify], waived)
    }

    fn make(&self) -> Result<()> {
        private_folder(&self.live)?;
        private_folder(&self.notify)
    }

    fn gate(&self) -> Result<Gate> {
        Gate::new(self.gate.clone()).map_err(|e| fault::io(&self.gate, "create it", e))
    }
}

fn private_folder(path: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|e| fault::io(path, "create the folder", e))
}

fn start_reader(waiters: Waiters, running: Sender<Running>) -> Result<Reader> {
    let started = Reader::new(waiters).map_err(|e| {
        Error::new(ErrorKind::Unavailable, format!("no event descriptor could be made: {e}"))
            .with_remedy("a higher limit of open files (ulimit -n)")
            .with_source(e)
    });
    let (reader, state) = started?;
    writer::spawn_thread("lockkeeper-read", move || {
        state.run();
        drop(running);
    })?;
    Ok(reader)
}

/// The first transaction of a writer.
fn clear_away(writer: &mut Writer) -> Result<()> {
    let (job, mut cleared) = writer::job(Commit::InOrder, |txn| txn.clear_away());
    writer.transact(vec![job]);
    cleared.try_recv().unwrap_or_else(|_| Err(fault::ended()))
}
