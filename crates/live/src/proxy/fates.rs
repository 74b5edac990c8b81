//! The request of each reply, and the decision about the reply.

use std::collections::BTreeMap;

use super::act::Message;

/// The fate of a reply, decided when its request passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The reply belongs to a copy of the request: no caller waits for it.
    Swallow,
    /// The connection ends instead of the reply.
    Cut,
    Hold,
}

/// The replies of one connection, in the order of the requests, and one for each request. Pushed
/// messages are no replies.
#[derive(Debug)]
pub(super) struct Fates {
    resp: bool,
    /// Whether the connection speaks RESP3, where only a pushed message confirms a subscription.
    pushes: bool,
    requests: u64,
    replies: u64,
    fates: BTreeMap<u64, Fate>,
}

impl Fates {
    pub(super) fn new(resp: bool) -> Self {
        Self { resp, pushes: false, requests: 0, replies: 0, fates: BTreeMap::new() }
    }

    /// Counts a request that is passed on, and keeps the fate of its reply.
    pub(super) fn request(&mut self, request: &Message<'_>, fate: Option<Fate>) {
        if self.resp {
            let words = request.words();
            let word = |number: usize| {
                words.get(number).map(|word| word.to_ascii_uppercase()).unwrap_or_default()
            };
            self.pushes |= word(0) == "HELLO" && word(1) == "3";
            if self.pushes && word(0).ends_with("SUBSCRIBE") {
                return;
            }
            self.requests += 1;
        } else {
            // The beginning of a reply is unknown, so the next message counts as a reply.
            self.requests = self.replies + 1;
        }
        if let Some(fate) = fate {
            self.fates.insert(self.requests, fate);
        }
    }

    /// Returns the decision about a message from the server.
    pub(super) fn reply(&mut self, reply: &Message<'_>) -> Option<Fate> {
        if self.resp && reply.is_push() {
            return None;
        }
        self.replies += 1;
        self.fates.remove(&self.replies)
    }
}
