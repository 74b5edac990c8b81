//! The order of requests and replies: those that wait, those that are being written, and those that
//! were written.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::answer::Reply;
use super::channels::Change;
use super::nonce::Nonce;
use super::request::Script;
use crate::time::Instant;

/// The size of one write. A request is never split between two writes.
const WRITE: usize = 64 << 10;

/// The receiver of a reply.
#[derive(Debug)]
pub(super) enum Whose {
    /// A caller, with the call if the request calls a script.
    Request(Reply, Option<Call>),
    /// The link, which has asked a question.
    Ours(Nonce),
    /// The link, which loads this script.
    Script(&'static Script),
    /// A subscription that begins or ends.
    Change(Change),
}

/// The call of a script.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) script: &'static Script,
    /// The request, if the connection may repeat it.
    pub(super) again: Option<Bytes>,
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) whose: Whose,
    len: usize,
    pub(super) asked: Instant,
    written: Instant,
}

impl Slot {
    fn new(whose: Whose, len: usize, now: Instant) -> Self {
        Self { whose, len, asked: now, written: now }
    }
}

#[derive(Debug)]
struct Waiting {
    bytes: Bytes,
    slot: Slot,
}

/// The requests of one link, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    /// So many of these were put before the others.
    first: usize,
    /// The bytes of the last of `sent`, of which the first `written` are gone.
    out: Vec<u8>,
    written: usize,
    sent: VecDeque<Slot>,
    /// How many writes there were.
    #[cfg(any(test, feature = "peer"))]
    pub(super) writes: usize,
}

impl Queue {
    pub(super) fn push(&mut self, bytes: impl Into<Bytes>, whose: Whose, now: Instant) {
        self.waiting.push_back(waiting(bytes, whose, now));
    }

    /// Puts requests of the link, and repeated calls, before all that wait, and behind those that
    /// were put there before.
    pub(super) fn push_first<B: Into<Bytes>>(
        &mut self,
        requests: impl Iterator<Item = (B, Whose)>,
        asked: Instant,
    ) {
        for (bytes, whose) in requests {
            self.waiting.insert(self.first, waiting(bytes, whose, asked));
            self.first += 1;
        }
    }

    fn pop(&mut self) -> Option<Waiting> {
        self.first = self.first.saturating_sub(1);
        self.waiting.pop_front()
    }

    /// Whether nothing waits to be written or answered.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty()
    }

    /// Whether every request that was written has its reply.
    pub(super) fn is_answered(&self) -> bool {
        self.sent.is_empty()
    }

    /// Takes as many of the waiting requests as go into one write, and returns the bytes to be
    /// written.
    pub(super) fn gather(&mut self, now: Instant) -> &[u8] {
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
        while self
            .waiting
            .front()
            .is_some_and(|next| self.out.is_empty() || self.out.len() + next.slot.len <= WRITE)
        {
            let Some(next) = self.pop() else { break };
            self.sent.push_back(Slot { written: now, ..next.slot });
            self.out.extend_from_slice(&next.bytes);
        }
        &self.out[self.written..]
    }

    /// Notes that so many bytes were written.
    pub(super) fn wrote(&mut self, count: usize) {
        self.written = (self.written + count).min(self.out.len());
        #[cfg(any(test, feature = "peer"))]
        {
            self.writes += 1;
        }
    }

    /// The receiver of the next reply, which the reply may turn out not to fit.
    pub(super) fn oldest(&mut self) -> Option<&mut Whose> {
        self.sent.front_mut().map(|slot| &mut slot.whose)
    }

    /// Notes that all that was gathered may have been written.
    pub(super) fn may_be_written(&mut self) {
        self.written = self.out.len();
    }

    /// Removes the request that the next reply is for.
    pub(super) fn answer(&mut self) -> Option<Slot> {
        self.sent.pop_front()
    }

    /// The connection is lost. Returns the requests that were written, at least in part, and have
    /// no answer. The other requests of callers wait for the next connection, in the same order.
    /// The requests of the link do not.
    pub(super) fn lose(&mut self) -> Vec<Slot> {
        let mut left = self.out.len() - self.written;
        while self.sent.back().is_some_and(|slot| slot.len <= left) {
            let Some(slot) = self.sent.pop_back() else { break };
            left -= slot.len;
            let bytes = self.out.split_off(self.out.len() - slot.len).into();
            self.waiting.push_front(Waiting { bytes, slot });
        }
        self.out.clear();
        self.written = 0;
        self.first = 0;
        self.waiting.retain(|next| matches!(next.slot.whose, Whose::Request(..)));
        self.sent.drain(..).collect()
    }

    /// Takes out the requests that have waited for longer than `within`.
    pub(super) fn expire(&mut self, now: Instant, within: Duration) -> Vec<Slot> {
        let mut expired = Vec::new();
        while self.waiting.front().is_some_and(|next| next.slot.asked + within <= now) {
            expired.extend(self.pop().map(|next| next.slot));
        }
        expired
    }

    /// Takes out all requests that wait.
    pub(super) fn clear(&mut self) -> Vec<Slot> {
        self.first = 0;
        self.waiting.drain(..).map(|next| next.slot).collect()
    }

    /// Since when the first request waits to be written.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        self.waiting.front().map(|next| next.slot.asked)
    }

    /// Since when the oldest written request has no reply.
    pub(super) fn unanswered_since(&self) -> Option<Instant> {
        self.sent.front().map(|slot| slot.written)
    }
}

fn waiting(bytes: impl Into<Bytes>, whose: Whose, asked: Instant) -> Waiting {
    let bytes = bytes.into();
    let slot = Slot::new(whose, bytes.len(), asked);
    Waiting { bytes, slot }
}
