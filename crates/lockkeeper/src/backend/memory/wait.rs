//! Waiting: a claim has a `Notify` of its own, and a line has one for the observers of the name.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::kit::watchful_until;
use tokio::sync::Notify;

use super::MemoryStore;
use super::layout::Look;
use crate::store::{Interest, Revision, Wake};

pub(super) async fn wait(
    store: &MemoryStore,
    interest: Interest<'_>,
    seen: Revision,
    within: Duration,
) -> Wake {
    let notify: Arc<Notify> = match look(store, interest, seen) {
        Look::Wake(wake) => return wake,
        Look::Wait(notify) => notify,
    };
    let (clock, mut is_woken) = (&store.clock, false);
    let news = || {
        ready(match look(store, interest, seen) {
            Look::Wake(wake) => Some(wake),
            // The store notified without a change that this look can see: the engine looks.
            Look::Wait(_) => std::mem::replace(&mut is_woken, true).then_some(Wake::Changed),
        })
    };
    watchful_until(clock, clock.now() + within, &notify, news).await.unwrap_or(Wake::Elapsed)
}

fn look(store: &MemoryStore, interest: Interest<'_>, seen: Revision) -> Look {
    match interest {
        Interest::Claim(key) => store.lines().look_at_claim(key, store.clock.now()),
        Interest::Name(name) => store.lines().look_at_name(name, seen),
    }
}
