//! The life of a link, and the ways in which its requests, its connections and the link itself end.
//!
//! - A request is answered, or fails: [`NotSent`](WireError::NotSent) if it was never written,
//!   [`Broken`](WireError::Broken) if it was written and its connection was lost.
//! - A connection ends in a way of [`ConnectionEnd`]. The link makes another one.
//! - A link ends in a way of [`LinkEnd`]. It sends nothing any more.

use tokio::net::tcp::OwnedWriteHalf;

use super::error::WireError;
use super::handshake::{Purpose, Server};
use super::link::Link;
use super::queue::{Slot, Whose};
use super::state::{Shared, State, wake_driver};
use crate::time::Instant;

/// The status of a link, for the tasks that wait for a connection.
#[derive(Clone, Debug)]
pub(super) enum Status {
    Connecting,
    Up(Server),
    /// The last attempt to connect failed, or the link has ended.
    Failed(WireError),
}

/// The phase of a link.
#[derive(Debug)]
pub(super) enum Phase {
    /// The link has no connection, and makes one.
    Connecting,
    /// The link has a connection.
    Up(Up),
    /// The link has ended; the reason.
    Ended(String),
}

/// The connection of a link.
#[derive(Debug)]
pub(super) struct Up {
    /// The end of the socket to which a sender may write in place.
    pub(super) writer: Option<OwnedWriteHalf>,
    /// The server sends messages on this connection.
    pub(super) resp3: bool,
    /// The link is to drop this connection; the reason.
    pub(super) reset: Option<String>,
    /// The answers of this connection may belong to other requests.
    pub(super) is_distrusted: bool,
}

/// How a connection ends.
pub(super) enum ConnectionEnd {
    /// No handle of the link is left, and every request has its answer. The driver stops.
    Finished,
    /// The socket failed, the server was silent or made no sense, or the link dropped the
    /// connection; the reason.
    Lost(String),
}

/// How a link ends.
pub(super) enum LinkEnd<'a> {
    /// The link has no driver any more, or never had one; the reason. Requests that the socket
    /// takes at once are still written.
    WithoutDriver(&'a str),
    /// The caller has abandoned the link; the reason.
    Abandoned(&'a str),
    /// The link connects only [once](super::Settings::once), and its connection was lost or could
    /// not be made.
    OnlyConnection,
}

impl Shared {
    /// The driver has made a connection.
    pub(super) fn up(&self, server: Server, writer: Option<OwnedWriteHalf>) {
        let now = self.clock.now();
        let mut state = self.lock();
        if state.has_ended() {
            return;
        }
        state.phase =
            Phase::Up(Up { writer, resp3: server.resp3, reset: None, is_distrusted: false });
        let is_again = state.connections > 0 && self.purpose == Purpose::Requests;
        state.connections += 1;
        state.loading.clear();
        state.alarm = now;
        let (mut side, mut other) = (None, None);
        if self.brings_messages(&state) {
            side = state.side.take();
            let State { channels, nonces, .. } = &mut *state;
            let again = channels.requests(nonces);
            state.queue.push_first(again.into_iter(), now);
        } else if let Some(side) = &state.side {
            // A new connection to the same address may reach another server. The messages have to
            // come from that server too.
            other = Some(side.clone());
        } else if !state.closing && !self.settings.once {
            let link = Link::for_messages(self);
            for (name, sharded) in state.channels.iter() {
                link.subscribe(name.to_vec(), sharded);
            }
            state.side = Some(link);
        }
        drop(state);
        drop(side);
        if let Some(side) = other {
            side.reset("the connection for requests was made again");
        }
        self.status.send_replace(Status::Up(server));
        if is_again {
            self.listener.reconnected();
        }
    }

    /// An attempt to connect has failed. If the server does not let this client in, the requests
    /// that wait fail at once, with the reason.
    pub(super) fn attempt_failed(&self, error: WireError) {
        let mut state = self.lock();
        if state.has_ended() {
            return;
        }
        state.failure = error.to_string();
        let unsent = if error.turns_away() { state.queue.clear() } else { Vec::new() };
        drop(state);
        let why = format!("{} does not let this client in: {error}", self.endpoint);
        self.status.send_replace(Status::Failed(error));
        fail(unsent, &WireError::NotSent(why));
    }

    /// The requests that have waited for too long fail.
    pub(super) fn expire(&self, now: Instant) {
        let mut state = self.lock();
        let expired = state.queue.expire(now, self.settings.timeout);
        if expired.is_empty() {
            return;
        }
        let why = format!(
            "no connection to {} within {:?}: {}",
            self.endpoint, self.settings.timeout, state.failure
        );
        drop(state);
        fail(expired, &WireError::NotSent(why));
    }

    /// Asks the driver to drop the connection, if there is one, and to make another one. With a
    /// number, only the connection of this number is dropped, and its answers are good. Otherwise
    /// no further answer of the connection counts.
    pub(super) fn reset(&self, number: Option<u64>, why: &str) {
        let mut state = self.lock();
        if number.is_some_and(|number| number != state.connections) {
            return;
        }
        let Phase::Up(up) = &mut state.phase else { return };
        if !self.is_forked() {
            up.reset = Some(why.to_owned());
            up.is_distrusted |= number.is_none();
            wake_driver(state);
        }
    }

    /// The connection was lost. The requests that were written fail, and the others wait for the
    /// next connection.
    pub(super) fn lost(&self, why: &str) {
        let mut state = self.lock();
        if state.has_ended() {
            return;
        }
        let had_messages = self.brings_messages(&state);
        state.phase = Phase::Connecting;
        state.failure = why.to_owned();
        let lost = state.queue.lose();
        drop(state);
        self.status.send_replace(Status::Connecting);
        if had_messages {
            self.listener.disconnected();
        }
        fail(
            lost,
            &WireError::Broken(format!("the connection to {} was lost: {why}", self.endpoint)),
        );
    }

    /// No handle of the link is left. The driver finishes the requests, and stops.
    pub(super) fn close(&self) {
        if self.is_forked() {
            return;
        }
        let mut state = self.lock();
        state.closing = true;
        let side = state.side.take();
        wake_driver(state);
        drop(side);
    }

    /// Ends the link. All its requests fail.
    pub(super) fn end(&self, end: LinkEnd<'_>) {
        let is_forked = self.is_forked();
        if is_forked && matches!(end, LinkEnd::Abandoned(_)) {
            return;
        }
        let mut state = self.lock();
        if state.has_ended() {
            return;
        }
        let why = match end {
            LinkEnd::WithoutDriver(why) => {
                if !is_forked {
                    state.write_in_place(self.clock.now());
                }
                why.to_owned()
            }
            LinkEnd::Abandoned(why) => why.to_owned(),
            LinkEnd::OnlyConnection => state.failure.clone(),
        };
        let why = format!("the connection to {} was closed: {why}", self.endpoint);
        let had_messages = self.brings_messages(&state);
        state.phase = Phase::Ended(why.clone());
        let side = state.side.take();
        let lost = state.queue.lose();
        let unsent = state.queue.clear();
        wake_driver(state);
        drop(side);
        self.status.send_if_modified(|status| {
            // The reason why the only attempt failed says more than the end of the link.
            let is_news = !(self.settings.once && matches!(status, Status::Failed(_)));
            if is_news {
                *status = Status::Failed(WireError::NotSent(why.clone()));
            }
            is_news
        });
        if had_messages {
            self.listener.disconnected();
        }
        fail(lost, &WireError::Broken(why.clone()));
        fail(unsent, &WireError::NotSent(why));
    }
}

/// Gives these requests an error in place of an answer.
fn fail(slots: Vec<Slot>, error: &WireError) {
    for slot in slots {
        if let Whose::Request(reply, _) = slot.whose {
            // The caller may have dropped the answer.
            drop(reply.send(Err(error.clone())));
        }
    }
}
