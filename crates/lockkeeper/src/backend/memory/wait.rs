//! Waiting: a claim has a bell of its own, a line has one for those who watch the name.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::MemoryStore;
use super::layout::Look;
use crate::store::{Interest, Revision, Wake};

pub(super) async fn wait(store: &MemoryStore, interest: Interest<'_>, seen: Revision, within: Duration) -> Wake {
    let bell: Arc<Notify> = match look(store, interest, seen) {
        Look::Wake(wake) => return wake,
        Look::Wait(bell) => bell,
    };
    let rung = bell.notified();
    tokio::pin!(rung);
    rung.as_mut().enable();
    // Between the first look and the bell's being watched the line may have changed.
    if let Look::Wake(wake) = look(store, interest, seen) {
        return wake;
    }
    match store.clock.timeout(within, rung).await {
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
