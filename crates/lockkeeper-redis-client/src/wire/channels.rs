//! The channels that a link listens to.

use std::collections::HashSet;
use std::time::Duration;

use super::nonce::{Nonce, Nonces};
use super::queue::Whose;
use super::request::Request;
use crate::random::jittered;
use crate::time::Instant;

/// The pauses before the link asks again for refused channels. Each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(30);

type Name = (Vec<u8>, bool);

/// The channels that the link wants from the server.
#[derive(Debug, Default)]
pub(super) struct Channels {
    wanted: HashSet<Name>,
    /// The channels that the server has refused. The link asks for them again.
    refused: HashSet<Name>,
    pause: Duration,
    again_at: Option<Instant>,
}

/// The beginning or the end of a subscription on its way. A push confirms the command, or an error
/// refuses it, and a node of a Cluster that gives a slot away says `sunsubscribe` unasked. So the
/// link asks for a word behind the command: the word shows where the answer of the command ends.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) name: Vec<u8>,
    pub(super) sharded: bool,
    pub(super) on: bool,
    pub(super) said: Said,
    pub(super) nonce: Nonce,
}

/// The server's answer to the command so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Nothing,
    /// A push of its kind came.
    Confirmed,
    /// An error came.
    Refused,
}

impl Channels {
    /// Adds a channel. Returns whether it is new.
    pub(super) fn add(&mut self, name: Vec<u8>, sharded: bool) -> bool {
        self.wanted.insert((name, sharded))
    }

    /// Removes a channel. Returns whether it was there.
    pub(super) fn remove(&mut self, name: &[u8], sharded: bool) -> bool {
        let name = (name.to_vec(), sharded);
        self.refused.remove(&name);
        self.wanted.remove(&name)
    }

    pub(super) fn contains(&self, name: &[u8], sharded: bool) -> bool {
        self.wanted.contains(&(name.to_vec(), sharded))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], bool)> {
        self.wanted.iter().map(|(name, sharded)| (name.as_slice(), *sharded))
    }

    /// The server has refused the channel. Returns whether that is news.
    pub(super) fn refuse(&mut self, name: &[u8], sharded: bool, now: Instant) -> bool {
        if !self.contains(name, sharded) {
            return false;
        }
        if self.again_at.is_none() {
            self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LAST_PAUSE);
            self.again_at = Some(now + jittered(self.pause));
        }
        self.refused.insert((name.to_vec(), sharded))
    }

    /// The server has confirmed the channel. Returns whether the link still wants it.
    pub(super) fn confirm(&mut self, name: &[u8], sharded: bool) -> bool {
        if self.refused.remove(&(name.to_vec(), sharded)) {
            self.pause = Duration::ZERO;
        }
        self.contains(name, sharded)
    }

    /// When the link asks again for the refused channels.
    pub(super) fn again_at(&self) -> Option<Instant> {
        self.again_at.filter(|_| !self.refused.is_empty())
    }

    /// The requests that ask again for the refused channels.
    pub(super) fn again(&mut self, nonces: &mut Nonces) -> Vec<(Vec<u8>, Whose)> {
        self.again_at = None;
        self.refused
            .iter()
            .map(|(name, sharded)| request(name, *sharded, true, nonces.next()))
            .collect()
    }

    /// The requests that subscribe to all channels on a new connection.
    pub(super) fn requests(&mut self, nonces: &mut Nonces) -> Vec<(Vec<u8>, Whose)> {
        self.refused.clear();
        self.again_at = None;
        self.pause = Duration::ZERO;
        self.iter().map(|(name, sharded)| request(name, sharded, true, nonces.next())).collect()
    }
}

/// The request that begins or ends a subscription.
pub(super) fn request(name: &[u8], sharded: bool, on: bool, nonce: Nonce) -> (Vec<u8>, Whose) {
    let command: &[u8] = match (sharded, on) {
        (false, true) => b"SUBSCRIBE",
        (false, false) => b"UNSUBSCRIBE",
        (true, true) => b"SSUBSCRIBE",
        (true, false) => b"SUNSUBSCRIBE",
    };
    let mut bytes = Vec::from(Request::command(&[command, name]).bytes);
    bytes.extend(nonce.question());
    (bytes, Whose::Change(Change { name: name.to_vec(), sharded, on, said: Said::Nothing, nonce }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Clock;

    #[test]
    fn a_refused_channel_is_asked_for_again_after_longer_and_longer_pauses() {
        let (mut channels, mut nonces, now) =
            (Channels::default(), Nonces::new(), Clock::boot().now());
        channels.add(b"x".to_vec(), false);
        for doubled in 0..9 {
            channels.refuse(b"x", false, now);
            assert_eq!(channels.pause, (FIRST_PAUSE * (1 << doubled)).min(LAST_PAUSE));
            assert_eq!(channels.again(&mut nonces).len(), 1);
        }
    }
}
