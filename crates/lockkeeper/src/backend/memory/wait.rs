//! Waiting: a claim has a `Notify` of its own, and a line has one for the observers of the name.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::MemoryStore;
use super::layout::Look;
use crate::store::{Interest, Revision, Wake};

pub(super) async fn wait(store: &MemoryStore, interest: Interest<'_>, seen: Revision, within: Duration) -> Wake {
    let notify: Arc<Notify> = match look(store, interest, seen) {
        Look::Wake(wake) => return wake,
        Look::Wait(notify) => notify,
    };
    let notified = notify.notified();
    tokio::pin!(notified);
    notified.as_mut().enable();
    // The line may have changed between the first look and the registration with the `Notify`.
    if let Look::Wake(wake) = look(store, interest, seen) {
        return wake;
    }
    match store.clock.timeout(within, notified).await {
        None => Wake::Elapsed,
        Some(()) => match look(store, interest, seen) {
            Look::Wake(wake) => wake,
            Look::Wait(_) => Wake::Changed,
        },
    }
}

fn look(store: &MemoryStore, interest: Interest<'_>, seen: Revision) -> Look {
    match interest {
        Interest::Claim(key) => store.lines().look_at_claim(key, store.clock.now()),
        Interest::Name(name) => store.lines().look_at_name(name, seen),
    }
}
