//! The rounds of one server, in the runtime of its link. A caller that is polled no more holds up
//! no other caller, and neither does a runtime of a caller that stands still.

use std::sync::{Arc, Mutex};

use lockkeeper_core::sync::lock;
use tokio::sync::oneshot;

use super::super::fault;
use super::super::layout;
use super::{HISTORY, lost};
use crate::checks::Info;
use crate::route::Data;
use crate::wire::{Answer, Link, Request, Value, WireError};
use crate::{Error, ErrorKind, Result};

/// How long the write of a round stays.
const MARK_MS: &[u8] = b"60000";

/// How a server refuses a write for the sake of its key: the slot of the key has moved, or the user
/// has no right to the key.
const ABOUT_THE_MARK: [&str; 5] = ["MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "NOPERM"];

/// The rounds of one server about the same data.
#[derive(Debug, Default)]
pub(super) struct Rounds(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The callers that the next round is for.
    waiting: Vec<Caller>,
    /// Whether a task makes the rounds.
    has_task: bool,
    /// The connection of the last round.
    link: Option<Link>,
}

/// A caller that waits for a round.
#[derive(Debug)]
struct Caller {
    master: Link,
    mark: Vec<u8>,
    asking: bool,
    found: oneshot::Sender<Result<u32>>,
}

impl Caller {
    fn report(self, found: Result<u32>) {
        // The caller may have gone.
        let _ = self.found.send(found);
    }
}

impl Rounds {
    /// Returns how many replicas have all that the master has answered so far. Waits for half of
    /// the time that an answer may take, behind the round that is under way.
    pub(super) async fn found(
        self: &Arc<Self>,
        master: &Link,
        data: &Data,
        (mark, asking): (&[u8], bool),
        needed: u32,
    ) -> Result<u32> {
        let (sender, found) = oneshot::channel();
        let caller = Caller { master: master.clone(), mark: mark.to_vec(), asking, found: sender };
        let has_task = {
            let mut state = lock(&self.0);
            state.waiting.push(caller);
            std::mem::replace(&mut state.has_task, true)
        };
        if !has_task {
            let rounds = Arc::clone(self);
            let task = Task { rounds, data: data.clone(), needed, has_ended: false };
            master.post(task.run());
        }
        found.await.unwrap_or_else(|_| Err(unknown(ended())))
    }

    #[cfg(test)]
    pub(super) fn link(&self) -> Option<Link> {
        lock(&self.0).link.clone()
    }
}

/// The task that makes the rounds, until no caller waits. If its runtime ends first, so do the
/// callers, with an error.
struct Task {
    rounds: Arc<Rounds>,
    data: Data,
    needed: u32,
    has_ended: bool,
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.has_ended {
            let mut state = lock(&self.rounds.0);
            state.has_task = false;
            let callers = std::mem::take(&mut state.waiting);
            drop(state);
            callers.into_iter().for_each(|caller| caller.report(Err(unknown(ended()))));
        }
    }
}

impl Task {
    async fn run(mut self) {
        while let Some(master) = self.next_master() {
            match self.connect(&master).await {
                Ok(link) => self.round(&link).await,
                // The callers that have come meanwhile would have no connection either.
                Err(error) => {
                    self.callers().into_iter().for_each(|caller| caller.report(Err(error.clone())));
                }
            }
        }
    }

    /// The master of the caller that has waited for the longest time; `None` at the end of the
    /// task.
    fn next_master(&mut self) -> Option<Link> {
        let mut state = lock(&self.rounds.0);
        state.waiting.retain(|caller| !caller.found.is_closed());
        let next = state.waiting.first().map(|caller| caller.master.clone());
        if next.is_none() {
            state.has_task = false;
            self.has_ended = true;
        }
        next
    }

    fn callers(&self) -> Vec<Caller> {
        std::mem::take(&mut lock(&self.rounds.0).waiting)
    }

    /// The connection of the last round, or a new one.
    async fn connect(&self, master: &Link) -> Result<Link> {
        let last = lock(&self.rounds.0).link.take();
        let link = match last.filter(Link::is_connected) {
            Some(link) => link,
            None => master.alone().await.map_err(unknown)?,
        };
        // At the same address another server may be there by now, or the same one after a restart.
        if link.run().and_then(|there| there.id).as_ref() != Some(&self.data.run) {
            return Err(lost(master, &self.data));
        }
        lock(&self.rounds.0).link = Some(link.clone());
        Ok(link)
    }

    /// One round for all callers that wait now.
    async fn round(&self, link: &Link) {
        let mut callers = self.callers();
        if callers.is_empty() {
            return;
        }
        let first = &callers[0];
        let error = match self.write(link, &first.mark, first.asking).await {
            Ok(asked) => {
                let found = self.read(&first.master, asked).await;
                return callers.into_iter().for_each(|caller| caller.report(found.clone()));
            }
            Err(error) => error,
        };
        if !ABOUT_THE_MARK.iter().any(|code| error.is(code)) {
            let error = unknown(error);
            return callers.into_iter().for_each(|caller| caller.report(Err(error.clone())));
        }
        // The keys of the other callers may have other slots.
        callers.remove(0).report(Err(unknown(error)));
        lock(&self.rounds.0).waiting.splice(0..0, callers);
    }

    /// Writes the mark, and asks for the replicas that have the mark.
    ///
    /// # Errors
    /// Why the server has not written the mark.
    async fn write(
        &self,
        link: &Link,
        mark: &[u8],
        asking: bool,
    ) -> std::result::Result<[Answer; 2], WireError> {
        let set = Request::command(&[b"SET", mark, b"", b"PX", MARK_MS]);
        let [wait, info] = self.questions(link);
        let [written, found, info] = if asking {
            let asking = Request::command(&[b"ASKING"]);
            let [_, written, found, info] = link.send_all([asking, set, wait, info]);
            [written, found, info]
        } else {
            link.send_all([set, wait, info])
        };
        match written.await {
            Ok(_) => Ok([found, info]),
            Err(error) if error.is("OOM") => self.write_even_if_full(link, mark, asking).await,
            // A server that is no master any more says so here.
            Err(error) => Err(error),
        }
    }

    /// The same on a full server: held locks live on there. The questions wait for the answer,
    /// since the link calls the script again if the server lacks it.
    async fn write_even_if_full(
        &self,
        link: &Link,
        mark: &[u8],
        asking: bool,
    ) -> std::result::Result<[Answer; 2], WireError> {
        let write = layout::mark_even_if_full(mark, MARK_MS);
        let written = if asking {
            let [_, written] = link.send_all([Request::command(&[b"ASKING"]), write]);
            written
        } else {
            link.send(write)
        };
        written.await?;
        Ok(link.send_all(self.questions(link)))
    }

    fn questions(&self, link: &Link) -> [Request; 2] {
        let (needed, within) =
            (self.needed.to_string(), (link.timeout() / 2).as_millis().to_string());
        [
            Request::command(&[b"WAIT", needed.as_bytes(), within.as_bytes()]),
            Request::command(&[b"INFO", b"replication"]),
        ]
    }

    /// Returns how many replicas have the mark.
    async fn read(&self, master: &Link, [found, info]: [Answer; 2]) -> Result<u32> {
        let found = found.await.map_err(unknown)?;
        let info = Info::of(&info.await.map_err(unknown)?).map_err(Error::with_unknown_effect)?;
        if info.get(HISTORY) != Some(self.data.history.as_str()) {
            return Err(lost(master, &self.data));
        }
        match found {
            Value::Int(found) => Ok(u32::try_from(found).unwrap_or_default()),
            _ => Err(Error::new(ErrorKind::Internal, "the server's answer to WAIT is no number")
                .with_unknown_effect()),
        }
    }
}

/// The grant stands, whatever becomes of the round.
fn unknown(error: WireError) -> Error {
    fault::of(error).with_unknown_effect()
}

fn ended() -> WireError {
    WireError::Broken("the runtime of the store has ended".to_owned())
}
