//! The keepers that listen to a store.

use std::sync::Mutex;

use crate::store::Losses;
use crate::sync::lock;

/// The keepers that listen to a store.
#[derive(Debug, Default)]
pub struct Listeners(Mutex<Vec<Losses>>);

impl Listeners {
    /// Adds a keeper. This also forgets the keepers that have gone, since a store may outlive any
    /// number of keepers.
    pub fn add(&self, to: Losses) {
        self.notify(Losses::is_listening);
        lock(&self.0).push(to);
    }

    /// Calls all listeners, and removes the closed ones.
    pub fn notify(&self, call: impl Fn(&Losses) -> bool) {
        let all = lock(&self.0).clone();
        let closed: Vec<_> = all.into_iter().filter(|losses| !call(losses)).collect();
        lock(&self.0).retain(|losses| !closed.contains(losses));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepers_that_have_gone_are_forgotten_when_another_comes() {
        let listeners = Listeners::default();
        let stays = Losses::new(|_, _| true, || true, |_, _| true);
        listeners.add(stays.clone());
        for _ in 0..100 {
            listeners.add(Losses::new(|_, _| false, || false, |_, _| false));
        }
        let left = listeners.0.lock().unwrap();
        assert!(left.len() == 2 && left.contains(&stays), "{} are kept", left.len());
    }
}
