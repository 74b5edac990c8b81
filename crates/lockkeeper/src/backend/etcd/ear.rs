//! Hearing at once of what was done to claims of this client: it is put under a key of the client's own.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;

use super::layout::Bell;
use super::wire::messages::{Event, RangeRequest, RangeResponse};
use super::wire::{Told, What, WireError};
use super::{EtcdStore, Shared};
use crate::random::jittered;
use crate::store::{ClaimId, Losses};
use crate::time::Clock;

/// How long to wait before listening again.
const PAUSE: Duration = Duration::from_millis(200);

impl EtcdStore {
    /// Begins to listen, once.
    pub(super) fn hear(&self) {
        if !self.0.hears.swap(true, Ordering::AcqRel) {
            self.0.runtime.serve(listen(Arc::downgrade(&self.0)));
        }
    }
}

/// It must not keep the store. Whatever is missed the next renewal says, which is asked for at once when the watch begins
/// again: its stream was another connection's, perhaps to another member.
async fn listen(shared: Weak<Shared>) {
    let mut has_begun = false;
    loop {
        let mut watch = {
            let Some(shared) = shared.upgrade() else { return };
            let what = What { key: shared.lines.bell(&shared.client), end: Bytes::new(), only_deletions: false };
            shared.calls.watch(what)
        };
        let mut stood = false;
        while let Some(told) = watch.next().await {
            let Some(shared) = shared.upgrade() else { return };
            stood = true;
            match told {
                Told::Begun => shared.hears(std::mem::replace(&mut has_begun, true)),
                Told::Events(events) => events.iter().for_each(|event| shared.rung(event)),
            }
        }
        drop(watch);
        if !stood {
            // A request that fails leaves a member for the next one.
            let Some((calls, key)) = shared.upgrade().map(|it| (Arc::clone(&it.calls), it.lines.bell(&it.client)))
            else {
                return;
            };
            let nothing = RangeRequest { key, ..RangeRequest::default() };
            let _: Result<RangeResponse, WireError> = calls.ask("/etcdserverpb.KV/Range", nothing).await;
        }
        Clock::boot().sleep(jittered(PAUSE)).await;
    }
}

impl Shared {
    fn rung(&self, event: &Event) {
        self.rung.notify_waiters();
        let Some((bell, broken)) = event.kv.as_ref().and_then(|kv| Bell::read(&kv.value)) else { return };
        let Some(id) = HEXLOWER.decode(bell.id.as_bytes()).ok().and_then(|id| id.try_into().ok()) else { return };
        let id = ClaimId::from_bytes(id);
        self.tell(|losses| losses.tell(id, broken.clone()));
    }

    /// The watch stands, for the first time or `again`. What was rung before nobody has heard: all who wait look.
    fn hears(&self, again: bool) {
        self.rung.notify_waiters();
        if again {
            self.tell(Losses::reconnected);
        }
    }

    /// One more keeper listens. Those that have gone are forgotten: a store may outlive any number of them.
    pub(super) fn listens(&self, to: Losses) {
        self.tell(Losses::is_heard);
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).push(to);
    }

    /// Tells all who listen, and forgets those who do not any more.
    fn tell(&self, word: impl Fn(&Losses) -> bool) {
        let losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let deaf: Vec<_> = losses.into_iter().filter(|losses| !word(losses)).collect();
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).retain(|losses| !deaf.contains(losses));
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::AtomicBool;
    use std::task::{Context, Waker};

    use super::*;
    use crate::store::Store as _;

    fn store() -> EtcdStore {
        EtcdStore::unasked(&EtcdStore::new(["127.0.0.1:1"])).unwrap()
    }

    #[tokio::test]
    async fn all_who_wait_look_whenever_the_ear_hears_again() {
        let store = store();
        for again in [false, true] {
            let mut looks = pin!(store.0.rung.notified());
            looks.as_mut().enable();
            store.0.hears(again);
            assert!(looks.poll(&mut Context::from_waker(Waker::noop())).is_ready(), "again: {again}");
        }
    }

    #[tokio::test]
    async fn keepers_that_have_gone_are_forgotten() {
        let store = store();
        for _ in 0..100 {
            let listens = Arc::new(AtomicBool::new(true));
            let heard = Arc::clone(&listens);
            store.tell_losses(Losses::new(move |_, _| heard.load(Ordering::Relaxed), || true));
            listens.store(false, Ordering::Relaxed);
        }
        assert_eq!(store.0.losses.lock().unwrap().len(), 1);
    }
}
