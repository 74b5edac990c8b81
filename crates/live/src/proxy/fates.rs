//! Which reply belongs to which request, and what was decided about it.

use std::collections::BTreeMap;

use super::act::Message;

/// What becomes of a reply, decided when its request went by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It belongs to a copy of the request: nobody waits for it.
    Swallow,
    /// The connection ends in its place.
    Cut,
    Hold,
}

/// The replies of one connection: as many as there were requests, and in their order. Pushed messages are none.
#[derive(Debug)]
pub(super) struct Fates {
    resp: bool,
    /// Whether the connection speaks RESP3, where only a message tells that a subscription stands.
    pushes: bool,
    requests: u64,
    replies: u64,
    fates: BTreeMap<u64, Fate>,
}

impl Fates {
    pub(super) fn new(resp: bool) -> Self {
        Self { resp, pushes: false, requests: 0, replies: 0, fates: BTreeMap::new() }
    }

    /// A request that is handed on, and what its reply comes to.
    pub(super) fn request(&mut self, request: &Message<'_>, fate: Option<Fate>) {
        if self.resp {
            let words = request.words();
            let word = |number: usize| words.get(number).map(|word| word.to_ascii_uppercase()).unwrap_or_default();
            self.pushes |= word(0) == "HELLO" && word(1) == "3";
            if self.pushes && word(0).ends_with("SUBSCRIBE") {
                return;
            }
            self.requests += 1;
        } else {
            // Nobody knows where a reply begins: what comes next is one.
            self.requests = self.replies + 1;
        }
        if let Some(fate) = fate {
            self.fates.insert(self.requests, fate);
        }
    }

    /// A message from the server: what was decided about it.
    pub(super) fn reply(&mut self, reply: &Message<'_>) -> Option<Fate> {
        if self.resp && reply.is_push() {
            return None;
        }
        self.replies += 1;
        self.fates.remove(&self.replies)
    }
}
