//! Waiting: a watch on whoever is in the way, from now on, and a look once it stands.

use std::time::Duration;

use bytes::Bytes;

use super::EtcdStore;
use super::layout::transaction::all;
use super::layout::{Contender, is_as_it_was};
use super::sessions::{Place, Session};
use super::standing::{Asked, Standing, Whom};
use super::wire::messages::event::EventType;
use super::wire::messages::{Event, KeyValue, RangeRequest};
use super::wire::{Told, Watch, What};
use crate::store::{ClaimKey, MAX, Revision, Wake};
use crate::{Error, ErrorKind, LockName, Result};

/// Waits for a claim in line.
pub(super) async fn claim(store: &EtcdStore, key: &ClaimKey, within: Duration) -> Result<Wake> {
    let session = store.0.sessions.get(&key.session)?;
    let place = session.place(key.id);
    let is_followed = place.as_ref().is_some_and(|place| place.record.capacity != MAX);
    let asked = asked(store, &session, key, place.as_ref());
    let waiting = Waiting { store, asked, session: &session, key, is_followed };
    let known = place.and_then(|place| place.whom);
    store.0.clock.timeout(within, waiting.run(known)).await.unwrap_or(Ok(Wake::Elapsed))
}

/// What is asked about a claim of this client.
pub(super) fn asked(store: &EtcdStore, session: &Session, key: &ClaimKey, place: Option<&Place>) -> Asked {
    Asked {
        line: store.0.lines.of(&key.name),
        key: session.seat_of(&store.0.lines, key).at,
        created: place.map_or(0, |place| place.created),
        exclusive: place.is_some_and(|place| place.record.weight == MAX),
    }
}

struct Waiting<'a> {
    store: &'a EtcdStore,
    session: &'a Session,
    key: &'a ClaimKey,
    asked: Asked,
    /// Who stands behind it may be let in together with it, and hears of that from its key.
    is_followed: bool,
}

/// While this is there the claim hears of its grant.
struct Watched<'a>(&'a Waiting<'a>);

impl<'a> Watched<'a> {
    fn new(waiting: &'a Waiting<'a>) -> Self {
        waiting.session.is_watched(waiting.key.id, Some(waiting.store.0.clock.now()));
        Self(waiting)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.session.is_watched(self.0.key.id, None);
    }
}

impl Waiting<'_> {
    async fn run(&self, known: Option<Whom>) -> Result<Wake> {
        let mut whom = match known {
            Some(known) => known,
            None => match self.look().await? {
                Ok(whom) => whom,
                Err(wake) => return Ok(wake),
            },
        };
        let (mut own, mut own_begins) = (self.watch_its_own(), false);
        let mut has_failed = false;
        loop {
            let mut watch = self.store.0.calls.watch(What {
                key: whom.what.from.clone(),
                end: whom.what.to.clone(),
                only_deletions: whom.only_its_end,
            });
            own_begins = own_begins || self.store.begins(&mut own).await;
            let next = match own_begins && self.store.begins(&mut watch).await {
                true => self.beside(&mut whom, &mut own, &mut watch).await?,
                false => Next::Unwatched,
            };
            match next {
                Next::Woken(wake) => return Ok(wake),
                Next::Another => {}
                // Its stream was of a member that is gone.
                Next::Unwatched if !has_failed => {
                    (own, own_begins) = (self.watch_its_own(), false);
                    has_failed = true;
                }
                Next::Unwatched => return Err(unwatched()),
            }
        }
    }

    fn watch_its_own(&self) -> Watch {
        self.store.0.calls.watch(What { key: self.asked.key.clone(), end: Bytes::new(), only_deletions: false })
    }

    /// Waits for as long as it is this one whom we wait for. What happened before the watches stood is seen by looking.
    async fn beside(&self, whom: &mut Whom, own: &mut Watch, watch: &mut Watch) -> Result<Next> {
        loop {
            let now = match self.look().await? {
                Ok(now) => now,
                Err(wake) => return Ok(Next::Woken(wake)),
            };
            let is_another = now.what != whom.what;
            *whom = now;
            if is_another {
                return Ok(Next::Another);
            }
            let _watched = Watched::new(self);
            match self.hear(own, whom, watch).await {
                Heard::WeAreFirst(token) => return Ok(Next::Woken(Wake::Granted { token })),
                Heard::Look => {}
                Heard::Ended => return Ok(Next::Woken(Wake::Changed)),
                Heard::Nothing => return Ok(Next::Unwatched),
            }
        }
    }

    /// Whom it waits for, or how the waiting ends.
    async fn look(&self) -> Result<std::result::Result<Whom, Wake>> {
        Ok(match self.store.look(std::slice::from_ref(&self.asked)).await?.pop() {
            Some(Standing::Behind { whom, .. }) => Ok(whom),
            Some(Standing::First { created, lease }) => match self.is_followed && !self.let_in(created, lease).await? {
                true => Err(Wake::Changed),
                false => Err(Wake::Granted { token: created.unsigned_abs() }),
            },
            _ => Err(Wake::Changed),
        })
    }

    /// `false` if it is not there any more.
    async fn let_in(&self, created: i64, lease: i64) -> Result<bool> {
        match self.store.let_in(self.session, self.key, created, lease).await {
            Err(error) if error.kind() != ErrorKind::SessionLost => {
                // The next renewal tries again.
                tracing::debug!(target: "lockkeeper", lock = %self.key.name, %error, "the next in line hears late");
                Ok(true)
            }
            answer => answer,
        }
    }

    async fn hear(&self, own: &mut Watch, whom: &Whom, watch: &mut Watch) -> Heard {
        tokio::select! {
            biased;
            told = own.next() => match told {
                // It was broken, or its session is over.
                Some(_) => Heard::Ended,
                None => Heard::Nothing,
            },
            told = watch.next() => match told {
                Some(Told::Events(events)) if whom.is_the_last && events.iter().any(|event| self.is_its_end(event)) => {
                    // It has gone before whoever is before us, if it has gone.
                    match self.asked.created {
                        0 => Heard::Look,
                        created => Heard::WeAreFirst(created.unsigned_abs()),
                    }
                }
                Some(_) => Heard::Look,
                None => Heard::Nothing,
            },
        }
    }

    /// Whether somebody who stood before us is gone. A member that lags behind may tell of the end of an earlier one
    /// with the same key.
    fn is_its_end(&self, event: &Event) -> bool {
        let is_later = |kv: &KeyValue| kv.mod_revision > self.asked.created;
        event.r#type() == EventType::Delete && event.kv.as_ref().is_some_and(is_later)
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

enum Heard {
    WeAreFirst(u64),
    Look,
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
    while let Some(told) = watch.next().await {
        let Told::Events(events) = told else { continue };
        let mut keys = events.iter().filter_map(|event| event.kv.as_ref());
        if keys.any(|kv| store.0.lines.contends(&line, &kv.key)) {
            break;
        }
    }
    Ok(Wake::Changed)
}
