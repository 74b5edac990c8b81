//! The channels that a link listens to.

use std::collections::HashSet;

use super::queue::Whose;
use super::request::Request;

/// What has been asked of the server.
#[derive(Debug, Default)]
pub(super) struct Channels(HashSet<(Vec<u8>, bool)>);

impl Channels {
    /// Whether it is new.
    pub(super) fn add(&mut self, name: Vec<u8>, sharded: bool) -> bool {
        self.0.insert((name, sharded))
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, name: &[u8], sharded: bool) -> bool {
        self.0.remove(&(name.to_vec(), sharded))
    }

    pub(super) fn contains(&self, name: &[u8], sharded: bool) -> bool {
        self.0.contains(&(name.to_vec(), sharded))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], bool)> {
        self.0.iter().map(|(name, sharded)| (name.as_slice(), *sharded))
    }

    /// What subscribes to all of them.
    pub(super) fn requests(&self) -> Vec<(Vec<u8>, Whose)> {
        self.iter().map(|(name, sharded)| request(name, sharded, true)).collect()
    }
}

/// What begins or ends a subscription.
pub(super) fn request(name: &[u8], sharded: bool, on: bool) -> (Vec<u8>, Whose) {
    let command: &[u8] = match (sharded, on) {
        (false, true) => b"SUBSCRIBE",
        (false, false) => b"UNSUBSCRIBE",
        (true, true) => b"SSUBSCRIBE",
        (true, false) => b"SUNSUBSCRIBE",
    };
    (Request::command(&[command, name]).bytes, Whose::Channel { name: name.to_vec(), sharded, on })
}
