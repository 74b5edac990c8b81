//! Since when something was seen each time that a session was looked at.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::time::Instant;

/// Since when something was seen each time.
#[derive(Debug)]
pub(super) struct Sightings<K>(HashMap<K, Instant>);

impl<K> Default for Sightings<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Clone + Eq + Hash> Sightings<K> {
    /// Notes what is seen now, and forgets what is not.
    pub(super) fn note(&mut self, seen: impl IntoIterator<Item = K>, now: Instant) {
        let since = |key: K| {
            let since = self.0.get(&key).copied().unwrap_or(now);
            (key, since)
        };
        self.0 = seen.into_iter().map(since).collect();
    }

    /// What was seen each time for so long.
    pub(super) fn older(&self, than: Duration, now: Instant) -> impl Iterator<Item = &K> {
        self.0.keys().filter(move |key| self.is_older(key, than, now))
    }

    /// Whether this was seen each time for so long.
    pub(super) fn is_older(&self, key: &K, than: Duration, now: Instant) -> bool {
        self.0.get(key).is_some_and(|since| now.saturating_since(*since) >= than)
    }

    /// Forgets what was seen each time for so long, and returns it.
    pub(super) fn take_older(&mut self, than: Duration, now: Instant) -> Vec<K> {
        let older: Vec<K> = self.older(than, now).cloned().collect();
        for key in &older {
            self.0.remove(key);
        }
        older
    }
}
