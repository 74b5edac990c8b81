//! The names that this client watches, and the `Notify` of each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::LockName;
use crate::sync::lock;

/// Every name that has a watch now.
#[derive(Debug, Default)]
pub struct WatchedNames(Mutex<HashMap<String, WatchedName>>);

#[derive(Debug, Default)]
struct WatchedName {
    notify: Arc<Notify>,
    /// The number of reported changes.
    changes: Arc<AtomicU64>,
    watchers: usize,
}

/// A watch on a name. It misses no change from its construction on.
#[derive(Debug)]
pub struct Watching<'a> {
    names: &'a WatchedNames,
    name: String,
    notify: Arc<Notify>,
    changes: Arc<AtomicU64>,
    /// The number of changes at the construction of the watch.
    before: u64,
}

impl WatchedNames {
    /// Watches `name` for as long as the result lives.
    pub fn watch(&self, name: &LockName) -> Watching<'_> {
        self.watch_key(name.encoded())
    }

    /// Watches what the server reports under this key, in place of an encoded name.
    pub fn watch_key(&self, name: String) -> Watching<'_> {
        let mut names = self.lock();
        let watched = names.entry(name.clone()).or_default();
        watched.watchers += 1;
        let (notify, changes) = (Arc::clone(&watched.notify), Arc::clone(&watched.changes));
        drop(names);
        let before = changes.load(Ordering::SeqCst);
        Watching { names: self, name, notify, changes, before }
    }

    /// The line of this encoded name has changed.
    pub fn changed(&self, name: &str) {
        if let Some(watched) = self.lock().get(name) {
            watched.changes.fetch_add(1, Ordering::SeqCst);
            watched.notify.notify_waiters();
        }
    }

    /// Changes of this encoded name may have been missed, or of all names.
    pub fn subscribed(&self, name: Option<&str>) {
        let names = self.lock();
        match name {
            None => names.values().for_each(|watched| watched.notify.notify_waiters()),
            Some(name) => {
                names.get(name).into_iter().for_each(|watched| watched.notify.notify_waiters());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, WatchedName>> {
        lock(&self.0)
    }
}

impl Watching<'_> {
    /// Notified when the line may have changed.
    pub fn notify(&self) -> &Notify {
        &self.notify
    }

    /// Whether the server has reported a change since the construction of this watch.
    pub fn has_changed(&self) -> bool {
        self.changes.load(Ordering::SeqCst) != self.before
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let mut names = self.names.lock();
        if let Some(watched) = names.get_mut(&self.name) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                names.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn reports_since_the_beginning_are_known_and_a_subscription_is_no_change() {
        let (names, name) = (WatchedNames::default(), "a".parse().unwrap());
        let watching = names.watch(&name);
        names.subscribed(None);
        names.changed("b");
        assert!(!watching.has_changed());
        names.changed("a");
        assert!(watching.has_changed());
        assert!(!names.watch(&name).has_changed());
    }

    #[test]
    fn a_change_reaches_the_watchers_of_its_name_and_no_other() {
        let names = WatchedNames::default();
        {
            let (a, b) = (names.watch(&"a".parse().unwrap()), names.watch(&"b".parse().unwrap()));
            let (mut woken, mut not_woken) =
                (pin!(a.notify().notified()), pin!(b.notify().notified()));
            woken.as_mut().enable();
            not_woken.as_mut().enable();
            names.changed("a");
            let mut cx = Context::from_waker(Waker::noop());
            assert!(woken.poll(&mut cx).is_ready());
            assert!(not_woken.poll(&mut cx).is_pending());
        }
        assert!(names.lock().is_empty());
    }
}
