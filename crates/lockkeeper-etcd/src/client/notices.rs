//! The watch of this client's notification keys: an operator's change to a claim of the client is
//! reported there at once.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::EtcdStore;
use crate::client::Shared;
use crate::layout::transaction::{self, only};
use crate::layout::{Notice, NoticeKind, Record};
use crate::random::jittered;
use crate::store::{Asked, ClaimId, Losses};
use crate::time::Clock;
use crate::wire::messages::{Event, KeyValue, RangeRequest, RangeResponse};
use crate::wire::{What, WireError, all};

/// How long to wait before listening again.
const PAUSE: Duration = Duration::from_millis(200);

impl EtcdStore {
    /// Begins to listen, once.
    pub(crate) fn begin_to_listen(&self) {
        if !self.0.listening.swap(true, Ordering::AcqRel) {
            self.0.runtime.serve(listen(Arc::downgrade(&self.0)));
        }
    }
}

/// Listens for as long as the store exists, which this task does not keep alive. When the watch
/// begins again, its stream is of another connection, perhaps to another member: the engine then
/// renews immediately, and the renewal finds what the watch has missed.
async fn listen(shared: Weak<Shared>) {
    let mut has_begun = false;
    loop {
        let mut watch = {
            let Some(shared) = shared.upgrade() else { return };
            let notices = shared.lines.notices(&shared.client);
            let what = What { key: notices.from, end: notices.to, only_deletions: false };
            shared.calls.watch(what)
        };
        let stands = watch.begins().await;
        if stands {
            let Some(shared) = shared.upgrade() else { return };
            shared.on_watch_begun(std::mem::replace(&mut has_begun, true));
            shared.ask_for_requests().await;
        }
        while let Some(events) = watch.next().await {
            let Some(shared) = shared.upgrade() else { return };
            events.iter().for_each(|event| shared.on_notice(event));
        }
        drop(watch);
        if !stands {
            // A request that fails makes the next one go to another member.
            let Some((calls, key)) =
                shared.upgrade().map(|it| (Arc::clone(&it.calls), it.lines.notice(&it.client)))
            else {
                return;
            };
            let nothing = RangeRequest { key, ..RangeRequest::default() };
            let _: Result<RangeResponse, WireError> =
                calls.ask("/etcdserverpb.KV/Range", nothing).await;
        }
        Clock::boot().sleep(jittered(PAUSE)).await;
    }
}

impl Shared {
    fn on_notice(&self, event: &Event) {
        let notice = event.kv.as_ref().and_then(|kv| Notice::read(&kv.value));
        if let Some((id, NoticeKind::Asked(asked))) = &notice {
            return self.losses.notify(|losses| losses.requested(*id, asked));
        }
        if let Some((id, NoticeKind::Elsewhere)) = notice {
            // A waiter for it here claims again.
            self.sessions.of(id).into_iter().for_each(|session| session.claims.is_elsewhere(id));
        }
        self.notices.notify_waiters();
        if let Some((id, NoticeKind::Lost(broken))) = notice {
            self.losses.notify(|losses| losses.lost(id, broken.clone()));
        }
    }

    /// Reports the requests to let go, which stay as long as their claims live: this finds the
    /// requests that were made before the watch stood. If the read fails, the watch ends with its
    /// member, and the next watch repeats the read.
    async fn ask_for_requests(&self) {
        let found: Result<RangeResponse, WireError> = self
            .calls
            .ask("/etcdserverpb.KV/Range", transaction::all(&self.lines.notices(&self.client)))
            .await;
        for kv in found.map(|found| found.kvs).unwrap_or_default() {
            if let Some((id, NoticeKind::Asked(asked))) = Notice::read(&kv.value) {
                self.losses.notify(|losses| losses.requested(id, &asked));
            }
        }
    }

    /// The watch stands, for the first time or `again`. The client has missed all earlier notices:
    /// all waiters look.
    fn on_watch_begun(&self, again: bool) {
        self.notices.notify_waiters();
        if again {
            self.losses.notify(Losses::reconnected);
        }
    }
}

impl EtcdStore {
    /// The requests to let go of these claims, whose notices go to another client. The next renewal
    /// repeats a read that fails.
    pub(crate) async fn requests_for(&self, records: &[Record]) -> Vec<(ClaimId, Asked)> {
        let asking = records.iter().map(|record| {
            let key = self.0.lines.request(&record.client, record.hex());
            self.range(RangeRequest { key, ..RangeRequest::default() })
        });
        let found = all(asking).await.into_iter().filter_map(|found| only(found.ok()));
        let asked = |kv: KeyValue| match Notice::read(&kv.value) {
            Some((id, NoticeKind::Asked(asked))) => Some((id, asked)),
            _ => None,
        };
        found.filter_map(asked).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn store() -> EtcdStore {
        EtcdStore::unasked(&EtcdStore::new(["127.0.0.1:1"])).unwrap()
    }

    #[tokio::test]
    async fn all_waiters_look_whenever_the_watch_of_the_notices_begins_again() {
        let store = store();
        for again in [false, true] {
            let mut looks = pin!(store.0.notices.notified());
            looks.as_mut().enable();
            store.0.on_watch_begun(again);
            assert!(
                looks.poll(&mut Context::from_waker(Waker::noop())).is_ready(),
                "again: {again}"
            );
        }
    }
}
