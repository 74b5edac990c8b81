//! Waiting: a watch on whoever is in the way, from now on, and a look once it stands.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::EtcdStore;
use super::layout::transaction::all;
use super::layout::{Contender, Span, is_as_it_was};
use super::predecessors::ends;
use super::sessions::{ClaimState, Session, WatchedBy};
use super::status::{Asked, BlockedBy, ClaimStatus, one};
use super::wire::messages::{Event, RangeRequest};
use super::wire::{Watch, WatchEvent, What};
use crate::random::jittered;
use crate::store::{ClaimKey, MAX, Revision, Wake};
use crate::{Error, ErrorKind, LockName, Result};

/// When to look again if nothing is heard.
const LOOK: Duration = Duration::from_secs(10);

/// Waits for a claim in line.
pub(super) async fn claim(store: &EtcdStore, key: &ClaimKey, within: Duration) -> Result<Wake> {
    let session = store.0.sessions.get(&key.session)?;
    let state = session.claim_state(key.id);
    let is_followed = state.as_ref().is_some_and(|state| state.record.capacity != MAX);
    let asked = asked(store, &session, key, state.as_ref());
    let mut waiting = Waiting { store, asked, session: &session, key, is_followed };
    let known = state.and_then(|state| state.blocked_by);
    let woken = store.0.clock.timeout(within, waiting.run(known)).await.unwrap_or(Ok(Wake::Elapsed));
    if let Ok(Wake::Granted { .. }) = woken {
        session.was_granted(key.id, store.0.clock.now());
    }
    woken
}

/// What is asked about a claim of this client.
pub(super) fn asked(store: &EtcdStore, session: &Session, key: &ClaimKey, state: Option<&ClaimState>) -> Asked {
    Asked {
        line: store.0.lines.of(&key.name),
        key: session.slot_of(&store.0.lines, key).at,
        created: state.map_or(0, |state| state.created),
        exclusive: state.is_some_and(|state| state.record.weight == MAX),
        short_queue: false,
    }
}

struct Waiting<'a> {
    store: &'a EtcdStore,
    session: &'a Arc<Session>,
    key: &'a ClaimKey,
    asked: Asked,
    /// Who stands behind it may be let in together with it, and hears of that from its key.
    is_followed: bool,
}

/// The claim is notified of its grant while this value exists.
struct Watched<'a>(&'a Waiting<'a>);

impl<'a> Watched<'a> {
    fn new<'w>(waiting: &'a Waiting<'a>, by: impl Iterator<Item = &'w Watch>) -> Self {
        let watched_by = WatchedBy { since: waiting.store.0.clock.now(), by: by.map(Watch::reader).collect() };
        waiting.session.is_watched(waiting.key.id, Some(watched_by));
        Self(waiting)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.session.is_watched(self.0.key.id, None);
    }
}

impl Waiting<'_> {
    async fn run(&mut self, known: Option<BlockedBy>) -> Result<Wake> {
        self.asked.short_queue = self.asked.exclusive;
        let mut blocked_by = match known {
            Some(known) => known,
            None => match self.look().await? {
                Ok(blocked_by) => blocked_by,
                Err(wake) => return Ok(wake),
            },
        };
        let (mut own, mut has_failed) = (None, false);
        loop {
            self.asked.short_queue = blocked_by.is_short();
            let mut watch = self.watch(blocked_by.what.clone(), blocked_by.only_its_end);
            // Where one watch tells of them all, it tells of our own key's end too.
            let mut new = (own.is_none() && !self.asked.short_queue).then(|| self.watch(one(&self.asked.key), false));
            let begun = match &mut new {
                Some(new) => self.store.begins(new).await,
                None => true,
            };
            own = own.or(new);
            let next = match begun && self.store.begins(&mut watch).await {
                true => self.beside(&mut blocked_by, &mut own, &mut watch).await?,
                false => Next::Unwatched,
            };
            match next {
                Next::Woken(wake) => return Ok(wake),
                Next::Another => {}
                // Its stream was of a member that is gone.
                Next::Unwatched if !has_failed => (own, has_failed) = (None, true),
                Next::Unwatched => return Err(unwatched()),
            }
        }
    }

    fn watch(&self, what: Span, only_deletions: bool) -> Watch {
        self.store.0.calls.watch(What { key: what.from, end: what.to, only_deletions })
    }

    /// Waits for as long as it is this one whom we wait for. What happened before the watches stood is seen by looking.
    async fn beside(&self, blocked_by: &mut BlockedBy, own: &mut Option<Watch>, watch: &mut Watch) -> Result<Next> {
        loop {
            let mut notified = pin!(self.store.0.notices.notified());
            notified.as_mut().enable();
            let now = match self.look_at(blocked_by).await? {
                Ok(now) => now,
                Err(wake) => return Ok(Next::Woken(wake)),
            };
            let is_another = now.what != blocked_by.what;
            *blocked_by = now;
            if is_another {
                return Ok(Next::Another);
            }
            let _watched = Watched::new(self, own.iter().chain([&*watch]));
            let event = tokio::select! {
                biased;
                event = its_own(own) => match event {
                    // It was broken, or its session is over.
                    Some(_) => WaitEvent::Ended,
                    None => WaitEvent::Nothing,
                },
                event = self.next_event(blocked_by, watch) => event,
                () = self.store.0.clock.sleep(jittered(LOOK)) => WaitEvent::Nobody,
                // It may have been broken.
                () = notified => WaitEvent::Look,
            };
            match event {
                WaitEvent::WeAreFirst(token) => return Ok(Next::Woken(Wake::Granted { token })),
                WaitEvent::Look => {}
                WaitEvent::Nobody => self.ends_overdue(blocked_by).await,
                WaitEvent::Ended => return Ok(Next::Woken(Wake::Changed)),
                WaitEvent::Nothing => return Ok(Next::Unwatched),
            }
        }
    }

    /// Whoever is before it may be nobody any more, and kept for too long.
    async fn ends_overdue(&self, blocked_by: &BlockedBy) {
        let before = match &blocked_by.last {
            Some((last, _)) if self.asked.short_queue => RangeRequest { key: last.clone(), ..RangeRequest::default() },
            // Where many are before it, every look finds that out.
            Some(_) => return,
            None => all(&self.asked.line),
        };
        // What cannot be read is read the next time.
        let found = self.store.range(before).await.unwrap_or_default();
        self.store.ends_overdue(&Contender::all(&self.store.0.lines, &self.asked.line, found.kvs)).await;
    }

    /// The same as [`look`](Self::look), without a look at the whole line where nothing has changed.
    async fn look_at(&self, blocked_by: &BlockedBy) -> Result<std::result::Result<BlockedBy, Wake>> {
        let is_known = !self.asked.short_queue && self.store.still_behind(&self.asked, blocked_by).await?.is_some();
        if is_known { Ok(Ok(blocked_by.clone())) } else { self.look().await }
    }

    /// What blocks the claim, or how the wait ends.
    async fn look(&self) -> Result<std::result::Result<BlockedBy, Wake>> {
        Ok(match self.store.look(std::slice::from_ref(&self.asked)).await?.pop() {
            Some(ClaimStatus::Behind { blocked_by, .. }) => Ok(blocked_by),
            Some(ClaimStatus::First(found)) => {
                match self.is_followed && !self.promote(found.created, found.lease).await? {
                    true => Err(Wake::Changed),
                    false => Err(Wake::Granted { token: found.created.unsigned_abs() }),
                }
            }
            _ => Err(Wake::Changed),
        })
    }

    /// `false` if it is not there any more.
    async fn promote(&self, created: i64, lease: i64) -> Result<bool> {
        match self.store.promote(self.session, self.key, created, lease).await {
            Err(error) if error.kind() != ErrorKind::SessionLost => {
                // The next renewal tries again.
                tracing::debug!(target: "lockkeeper", lock = %self.key.name, %error, "the next in line hears late");
                Ok(true)
            }
            answer => answer,
        }
    }

    async fn next_event(&self, blocked_by: &mut BlockedBy, watch: &mut Watch) -> WaitEvent {
        loop {
            let event = match watch.next().await {
                Some(WatchEvent::Events(events)) => self.event_of(blocked_by, &events),
                Some(WatchEvent::Begun) => Some(WaitEvent::Look),
                None => Some(WaitEvent::Nothing),
            };
            if let Some(event) = event {
                return event;
            }
        }
    }

    /// What these say, if it is of importance.
    fn event_of(&self, blocked_by: &mut BlockedBy, events: &[Event]) -> Option<WaitEvent> {
        if ends(events, &self.asked.key, self.asked.created) {
            return Some(WaitEvent::Ended);
        }
        // An earlier predecessor may have gone.
        let Some(ahead) = &mut blocked_by.ahead else { return Some(WaitEvent::Look) };
        ahead.apply(events);
        match (ahead.is_empty(), self.asked.created) {
            (false, _) => None,
            (true, 0) => Some(WaitEvent::Look),
            (true, created) => Some(WaitEvent::WeAreFirst(created.unsigned_abs())),
        }
    }
}

/// What is told of its own key, if that is watched by itself.
async fn its_own(watch: &mut Option<Watch>) -> Option<WatchEvent> {
    match watch {
        Some(watch) => watch.next().await,
        None => pending().await,
    }
}

/// How it goes on.
enum Next {
    Woken(Wake),
    /// There is another one to wait for.
    Another,
    /// The watches are over, with their member: others look once they stand.
    Unwatched,
}

enum WaitEvent {
    WeAreFirst(u64),
    Look,
    /// Nothing has happened for long.
    Nobody,
    Ended,
    /// The watch is over: what happens now is not heard.
    Nothing,
}

impl EtcdStore {
    /// Waits until it stands. A stream that tells nothing is of no use to others either.
    async fn begins(&self, watch: &mut Watch) -> bool {
        let begun = self.0.clock.timeout(self.0.timeout, watch.begins()).await;
        if begun.is_none() {
            watch.end_if_silent();
        }
        begun.unwrap_or(false)
    }
}

/// No watch stands. Whoever waits looks, a little later.
fn unwatched() -> Error {
    Error::new(ErrorKind::Unavailable, "etcd does not tell of changes at present")
        .with_remedy("lockkeeper doctor, or a look whether a majority of the members runs")
}

/// Waits for a change of a line.
pub(super) async fn name(store: &EtcdStore, name: &LockName, seen: Revision, within: Duration) -> Result<Wake> {
    store.0.clock.timeout(within, changed(store, name, seen)).await.unwrap_or(Ok(Wake::Elapsed))
}

async fn changed(store: &EtcdStore, name: &LockName, seen: Revision) -> Result<Wake> {
    let line = store.0.lines.of(name);
    let what = What { key: line.from.clone(), end: line.to.clone(), only_deletions: false };
    let mut watch = store.0.calls.watch(what);
    if !store.begins(&mut watch).await {
        return Err(unwatched());
    }
    let found = store.range(RangeRequest { keys_only: true, ..all(&line) }).await?;
    if !is_as_it_was(&Contender::all(&store.0.lines, &line, found.kvs), seen) {
        return Ok(Wake::Changed);
    }
    while let Some(event) = watch.next().await {
        let WatchEvent::Events(events) = event else { continue };
        let mut keys = events.iter().filter_map(|event| event.kv.as_ref());
        if keys.any(|kv| store.0.lines.contends(&line, &kv.key)) {
            break;
        }
    }
    Ok(Wake::Changed)
}
