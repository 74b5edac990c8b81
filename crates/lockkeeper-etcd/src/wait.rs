//! Waiting: for the grant of a claim, or for a change of a line.
//!
//! A watch begins now, and a look follows once it stands. etcd reports every change after that, and
//! the look finds every change before it, so no change is missed. A watch that would begin at a
//! past revision is served by etcd only every 100 ms.

use std::future::pending;
use std::pin::pin;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use crate::layout::transaction::all;
use crate::layout::{Contender, Record, Span, is_as_it_was};
use crate::look::Question;
use crate::look::{ClaimStatus, Found};
use crate::look::{Neighbours, Next};
use crate::random::jittered;
use crate::sessions::{ClaimState, Session, WatchedBy};
use crate::store::{ClaimKey, MAX, Revision, Wake};
use crate::time::Instant;
use crate::wire::messages::{Event, RangeRequest};
use crate::wire::{Watch, What};
use crate::{Error, ErrorKind, EtcdStore, LockName, Result};

/// A waiter looks again after this time, even if its watches report nothing.
const LOOK: Duration = Duration::from_secs(10);

/// Two clients that await one claim take it from each other no sooner than this after the last
/// time: each take-over wakes the other client.
const TURN: Duration = Duration::from_millis(500);

/// Waits for the grant of a claim, or for its end.
pub(super) async fn claim(store: &EtcdStore, key: &ClaimKey, within: Duration) -> Result<Wake> {
    let session = store.session(&key.session).await?;
    let state = session.claims.state(key.id);
    let mut question = store.question(&session, key, state.as_ref());
    let mut is_followed = state.as_ref().is_some_and(|state| state.record.capacity != MAX);
    let mut seen_as = state.as_ref().map(SeenAs::of);
    if state.is_none() {
        // Another client of the session has made the claim.
        let own = store.read(&question.own.key).await?.map(Contender::read);
        let Some(own) = own.filter(|own| session.may_have_made(own.created)) else {
            return Ok(Wake::Changed);
        };
        (question.own.created, question.exclusive) = (own.created, own.weight() == MAX);
        is_followed = own.capacity() != MAX;
        seen_as = own.record.map(|record| SeenAs { record: Arc::new(record), lease: own.lease });
    }
    let begun = store.0.clock.now();
    let waiter = Waiter { store, session: &session, key, question, is_followed, begun, seen_as };
    let seen = state.and_then(|state| state.blocked_by);
    let woken = store.0.clock.timeout(within, waiter.run(seen)).await.unwrap_or(Ok(Wake::Elapsed));
    if let Ok(Wake::Granted { .. }) = woken {
        session.claims.was_granted(key.id, store.0.clock.now());
    }
    woken
}

/// A claim that waits.
struct Waiter<'a> {
    store: &'a EtcdStore,
    session: &'a Arc<Session>,
    key: &'a ClaimKey,
    question: Question,
    /// A claim for permits: the claim behind it may be admitted together with it, and learns of
    /// that from its key.
    is_followed: bool,
    begun: Instant,
    /// The claim as it was read, if its record was.
    seen_as: Option<SeenAs>,
}

/// What a claim shows, and its lease.
struct SeenAs {
    record: Arc<Record>,
    lease: i64,
}

impl SeenAs {
    fn of(state: &ClaimState) -> Self {
        Self { record: Arc::clone(&state.record), lease: state.lease }
    }

    /// Whether this event shows only that another client has sent the claim.
    fn is_taken_over(&self, event: &Event) -> bool {
        let Some(kv) = event.kv.as_ref().filter(|kv| kv.lease == self.lease) else { return false };
        let Some(mut record) = Record::read(&kv.value) else { return false };
        let is_of_another = record.client != self.record.client;
        record.client = Arc::clone(&self.record.client);
        is_of_another && record == *self.record
    }
}

/// The session counts the claim as watched while this exists, so a renewal need not look for its
/// grant.
struct Watched<'a>(&'a Waiter<'a>);

impl<'a> Watched<'a> {
    fn new<'w>(waiter: &'a Waiter<'a>, by: impl Iterator<Item = &'w Watch>) -> Self {
        let watched_by =
            WatchedBy { since: waiter.store.0.clock.now(), by: by.map(Watch::reader).collect() };
        waiter.session.claims.is_watched(waiter.key.id, Some(watched_by));
        Self(waiter)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.session.claims.is_watched(self.0.key.id, None);
    }
}

impl Waiter<'_> {
    /// Waits behind one set of neighbours after the other. `seen` are those that the claim had when
    /// it joined the line.
    async fn run(&self, seen: Option<Neighbours>) -> Result<Wake> {
        let (mut own, mut has_failed) = (None, false);
        let mut next = seen.map_or(Next::Look, Next::Blocked);
        loop {
            next = match next {
                Next::Over(wake) => return Ok(wake),
                Next::Look => self.look(self.question.exclusive).await?,
                Next::Blocked(neighbours) => self.follow(neighbours, &mut own).await?,
                // The stream of the watches was of a member that is gone: the next one is of
                // another member.
                Next::Unwatched(neighbours) if !has_failed => {
                    (own, has_failed) = (None, true);
                    Next::Blocked(neighbours)
                }
                Next::Unwatched(_) => return Err(unwatched()),
            };
        }
    }

    /// Watches these neighbours until others block the claim, or the wait is over, or a watch ends.
    async fn follow(&self, mut neighbours: Neighbours, own: &mut Option<Watch>) -> Result<Next> {
        let Some(mut watch) = self.watch(&neighbours, own).await else {
            return Ok(Next::Unwatched(neighbours));
        };
        loop {
            // Enabled before the look, so that a notice which comes during the look is not missed.
            let mut noticed = pin!(self.store.0.notices.notified());
            noticed.as_mut().enable();
            let turn = self.turn();
            if turn.is_some_and(|left| left.is_zero()) {
                return Ok(Next::Over(Wake::Changed));
            }
            neighbours = match self.look_behind(&neighbours).await? {
                Next::Blocked(now) if now.span() == neighbours.span() => now,
                next => return Ok(next),
            };
            let _watched = Watched::new(self, own.iter().chain([&watch]));
            let next = tokio::select! {
                biased;
                event = next_of(own) => match event {
                    Some(events) if self.is_taken_over(&events) => Next::Look,
                    // The claim was broken or withdrawn, its lease has ended, or a renewal has
                    // promoted it.
                    Some(_) => Next::Over(Wake::Changed),
                    None => return Ok(Next::Unwatched(neighbours)),
                },
                next = self.next_event(&mut neighbours, &mut watch) => match next {
                    Some(next) => next,
                    None => return Ok(Next::Unwatched(neighbours)),
                },
                () = self.store.0.clock.sleep(turn.unwrap_or_else(|| jittered(LOOK))) => {
                    self.end_overdue(&neighbours).await;
                    Next::Look
                }
                // An operator has changed a claim of this client, perhaps this one.
                () = noticed => Next::Look,
            };
            match next {
                Next::Look => {}
                next => return Ok(next),
            }
        }
    }

    /// If another client has sent the claim: how long it is until the engine sends the claim again,
    /// and so gets the notices back.
    fn turn(&self) -> Option<Duration> {
        let state = self.session.claims.state(self.key.id);
        let now = self.store.0.clock.now();
        state.filter(|state| state.is_elsewhere).map(|_| (self.begun + TURN).saturating_since(now))
    }

    /// Whether these events show only that another client has sent the claim.
    fn is_taken_over(&self, events: &[Event]) -> bool {
        let state = self.session.claims.state(self.key.id).map(|state| SeenAs::of(&state));
        let seen_as = state.as_ref().or(self.seen_as.as_ref());
        seen_as.is_some_and(|seen_as| events.iter().all(|event| seen_as.is_taken_over(event)))
    }

    /// Watches these neighbours, and the key of the claim itself unless the same watch reports its
    /// end. `None` if one of the watches does not stand.
    async fn watch(&self, neighbours: &Neighbours, own: &mut Option<Watch>) -> Option<Watch> {
        let calls = &self.store.0.calls;
        let mut watch = calls.watch(neighbours.to_watch());
        if own.is_none() && !neighbours.are_all_ahead() {
            let Span { from, to } = Span::one(&self.question.own.key);
            let own = own.insert(calls.watch(What { key: from, end: to, only_deletions: false }));
            if !self.store.stands(own).await {
                return None;
            }
        }
        self.store.stands(&mut watch).await.then_some(watch)
    }

    /// What the next event of importance means for the claim; `None` if the watch has ended.
    async fn next_event(&self, neighbours: &mut Neighbours, watch: &mut Watch) -> Option<Next> {
        loop {
            let events = watch.next().await?;
            if let Some(next) = neighbours.on_events(&self.question.own, &events) {
                return Some(next);
            }
        }
    }

    /// Looks like [`look`](Self::look), but does not read the line if the claim is right behind the
    /// same predecessor.
    async fn look_behind(&self, neighbours: &Neighbours) -> Result<Next> {
        let is_short_queue = neighbours.are_all_ahead();
        if !is_short_queue && self.store.is_still_behind(&self.question, neighbours).await? {
            return Ok(Next::Blocked(neighbours.clone()));
        }
        self.look(is_short_queue).await
    }

    /// What blocks the claim now, or how the wait ends.
    async fn look(&self, short_queue: bool) -> Result<Next> {
        let question = Question { short_queue, ..self.question.clone() };
        Ok(match self.store.look(slice::from_ref(&question)).await?.pop() {
            Some(ClaimStatus::Blocked { neighbours, .. }) => Next::Blocked(neighbours),
            Some(ClaimStatus::Admitted(found)) => {
                match self.is_followed && !self.promote(&found).await? {
                    true => Next::Over(Wake::Changed),
                    false => Next::Over(Wake::Granted { token: found.created.unsigned_abs() }),
                }
            }
            Some(ClaimStatus::Absent | ClaimStatus::Broken(_)) | None => Next::Over(Wake::Changed),
        })
    }

    /// Changes the key of an admitted claim, which wakes the claim behind it; `false` if the claim
    /// is not there any more.
    async fn promote(&self, found: &Found) -> Result<bool> {
        match self.store.promote(self.session, self.key, found.created, found.lease).await {
            Err(error) if error.kind() != ErrorKind::SessionLost => {
                // The next renewal tries again.
                tracing::debug!(target: "lockkeeper", lock = %self.key.name, %error, "the next waiter is woken late");
                Ok(true)
            }
            answer => answer,
        }
    }

    /// Ends minimum holds ahead of the claim that a new leader of etcd has lengthened.
    async fn end_overdue(&self, neighbours: &Neighbours) {
        let ahead = match neighbours.last() {
            Some(last) if neighbours.are_all_ahead() => {
                RangeRequest { key: last.key.clone(), ..RangeRequest::default() }
            }
            // In a long queue each look does that.
            Some(_) => return,
            None => all(&self.question.line),
        };
        // If this read fails, the next one reads the same.
        let found = self.store.range(ahead).await.unwrap_or_default();
        self.store
            .ends_overdue(&Contender::all(&self.store.0.lines, &self.question.line, found.kvs))
            .await;
    }
}

/// The next events of this watch, if there is one.
async fn next_of(watch: &mut Option<Watch>) -> Option<Vec<Event>> {
    match watch {
        Some(watch) => watch.next().await,
        None => pending().await,
    }
}

impl EtcdStore {
    /// Waits until the watch stands. A stream that reports nothing is of no use to other watches
    /// either, so it is ended.
    async fn stands(&self, watch: &mut Watch) -> bool {
        let begun = self.0.clock.timeout(self.0.timeout, watch.begins()).await;
        if begun.is_none() {
            watch.end_if_silent();
        }
        begun.unwrap_or(false)
    }
}

/// No watch stands. The engine waits a little, and claims again.
fn unwatched() -> Error {
    Error::new(ErrorKind::Unavailable, "etcd reports no changes at present")
        .with_remedy("lockkeeper doctor, or a look whether a majority of the members runs")
}

/// Waits for a change of a line.
pub(super) async fn name(
    store: &EtcdStore,
    name: &LockName,
    seen: Revision,
    within: Duration,
) -> Result<Wake> {
    store.0.clock.timeout(within, changed(store, name, seen)).await.unwrap_or(Ok(Wake::Elapsed))
}

async fn changed(store: &EtcdStore, name: &LockName, seen: Revision) -> Result<Wake> {
    let line = store.0.lines.of(name);
    let what = What { key: line.from.clone(), end: line.to.clone(), only_deletions: false };
    let mut watch = store.0.calls.watch(what);
    if !store.stands(&mut watch).await {
        return Err(unwatched());
    }
    let found = store.range(RangeRequest { keys_only: true, ..all(&line) }).await?;
    if !is_as_it_was(&Contender::all(&store.0.lines, &line, found.kvs), seen) {
        return Ok(Wake::Changed);
    }
    while let Some(events) = watch.next().await {
        let mut keys = events.iter().filter_map(|event| event.kv.as_ref());
        if keys.any(|kv| store.0.lines.contends(&line, &kv.key)) {
            break;
        }
    }
    Ok(Wake::Changed)
}
