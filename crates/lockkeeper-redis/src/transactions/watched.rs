//! The time between `WATCH` and `EXEC`.

use std::sync::{Arc, OnceLock, Weak};

use super::super::fault;
use super::changes;
use super::reply::Reply;
use crate::wire::Link;
use crate::{Error, ErrorKind, RedisStore, Result};

/// Reads data while the keys of the transaction are watched. Clones use the same connection. A
/// handle that outlives its transaction keeps no connection open.
#[derive(Clone, Debug)]
pub struct Watched(pub(super) Weak<Stage>);

/// The connection that watches. Its drop closes the connection, and so ends the watches.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) store: RedisStore,
    pub(super) slot: u16,
    pub(super) link: Link,
    /// Why a read got no answer: no decision on it counts.
    pub(super) trouble: OnceLock<Error>,
}

impl Watched {
    /// The answer of a command that only reads: its name, and its arguments (`["GET", "key"]`,
    /// `["HGET", "key", "field"]`). The command may read other keys too, but these may have changed
    /// when the transaction is done. A command that writes is done at once, and its effect stays
    /// whatever becomes of the transaction. If it changes a watched key, the transaction is a
    /// conflict.
    ///
    /// # Errors
    /// - [`Invalid`](ErrorKind::Invalid): a command that the server refuses, or that is about the
    ///   connection; a key of another slot of a Cluster, if another node has it; the transaction is
    ///   over;
    /// - [`Denied`](ErrorKind::Denied): the user may not;
    /// - [`Unavailable`](ErrorKind::Unavailable): no answer came. The transaction begins again,
    ///   whatever `decide` returns.
    ///
    /// # Cancel safety
    /// The future may be dropped.
    pub async fn read<A: AsRef<[u8]>>(&self, command: &[A]) -> Result<Reply> {
        let request = changes::request(command)?;
        // `over` succeeds only where no read sends: nothing comes between MULTI and EXEC.
        let answer = self.0.upgrade().map(|stage| stage.link.send(request)).ok_or_else(|| {
            Error::invalid("the transaction is over")
                .with_remedy("read() only while it is being decided")
        })?;
        answer.await.map(Reply::from).map_err(|error| {
            let Some(stage) = self.0.upgrade() else { return fault::of(error).without_effect() };
            let error = stage.refused(error);
            if error.kind() == ErrorKind::Unavailable {
                stage.trouble.get_or_init(|| error.clone());
            }
            error
        })
    }
}

impl Stage {
    /// Ends the reads.
    ///
    /// # Errors
    /// `Unavailable` if a read got no answer, or if another task reads right now.
    pub(super) fn over(self: Arc<Self>) -> Result<Self> {
        let mut stage = Arc::into_inner(self).ok_or_else(|| {
            let problem = "another task read from the transaction when its decision ended";
            Error::new(ErrorKind::Unavailable, problem).with_remedy("await each read() before")
        })?;
        stage.trouble.take().map_or(Ok(stage), Err)
    }
}
