//! The time between `WATCH` and `EXEC`.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use lockkeeper_core::sync::lock;

use super::super::servers::Servers;
use super::super::wire::{Answer, Link, Request, WireError};
use super::reply::Reply;
use super::{changes, refusal};
use crate::{Error, ErrorKind, Result};

/// Looks at data while its keys are watched. Clones look by the same connection.
#[derive(Clone)]
pub struct Watched(Arc<Stage>);

/// The connection while it watches, until the transaction goes on or is given up.
pub(super) struct Stage {
    servers: Arc<Servers>,
    slot: u16,
    state: Mutex<State>,
}

struct State {
    link: Option<Link>,
    /// Why nothing can come of what was decided.
    trouble: Option<Error>,
}

impl Watched {
    /// What a command answers, one that only reads: its name, and what follows it
    /// (`["GET", "key"]`, `["HGET", "key", "field"]`). What is not watched may be read too, but may
    /// have changed when the transaction is done. What changes anything is done at once and stands
    /// whatever comes of the transaction, which is a conflict if it concerned a watched key.
    ///
    /// # Errors
    /// - [`Invalid`](ErrorKind::Invalid): a command that the server refuses, or that is about the
    ///   connection; a key of another slot of a Cluster, if another node has it; the transaction is
    ///   over;
    /// - [`Denied`](ErrorKind::Denied): the user may not;
    /// - [`Unavailable`](ErrorKind::Unavailable): no answer came. Whatever is decided now, the
    ///   transaction begins anew.
    ///
    /// # Cancel safety
    /// It may be dropped.
    pub async fn read<A: AsRef<[u8]>>(&self, command: &[A]) -> Result<Reply> {
        let answer = self.0.send(changes::request(command)?)?;
        answer.await.map(Reply::from).map_err(|error| self.0.failed(error))
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl Stage {
    fn send(&self, request: Request) -> Result<Answer> {
        // Under the lock, so that nothing comes between MULTI and EXEC.
        match &self.lock().link {
            Some(link) => Ok(link.send(request)),
            None => Err(Error::invalid("the transaction is over")
                .with_remedy("read() only while it is being decided")),
        }
    }

    fn failed(&self, error: WireError) -> Error {
        let mut state = self.lock();
        let error = refusal::of(&self.servers, self.slot, state.link.as_ref(), error);
        if error.kind() == ErrorKind::Unavailable {
            state.trouble.get_or_insert_with(|| error.clone());
        }
        error
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Lets somebody look, until it is dropped.
pub(super) struct Watching(Arc<Stage>);

impl Watching {
    pub(super) fn new(servers: &Arc<Servers>, slot: u16, link: Link) -> Self {
        let state = Mutex::new(State { link: Some(link), trouble: None });
        Self(Arc::new(Stage { servers: Arc::clone(servers), slot, state }))
    }

    pub(super) fn watched(&self) -> Watched {
        Watched(Arc::clone(&self.0))
    }

    /// From here on nobody looks any more.
    ///
    /// # Errors
    /// Why nothing can come of what was seen.
    pub(super) fn over(self) -> Result<()> {
        let trouble = self.0.lock().trouble.take();
        trouble.map_or(Ok(()), Err)
    }
}

impl Drop for Watching {
    /// A [`Watched`] that somebody has kept does not keep the connection open.
    fn drop(&mut self) {
        let link = self.0.lock().link.take();
        drop(link);
    }
}
