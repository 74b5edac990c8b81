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
use crate::store::{ClaimId, ClaimKey, MAX, Revision, Wake};
use crate::{Error, ErrorKind, LockName, Result};

/// Waits for a claim in line.
pub(super) async fn claim(store: &EtcdStore, key: &ClaimKey, within: Duration) -> Result<Wake> {
    let session = store.0.sessions.get(&key.session)?;
    let place = session.place(key.id);
    let waiting = Waiting { store, asked: asked(store, &session, key, place.as_ref()), session: &session, id: key.id };
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
    id: ClaimId,
    asked: Asked,
}

/// While this is there the claim hears of its grant.
struct Watched<'a>(&'a Waiting<'a>);

impl<'a> Watched<'a> {
    fn new(waiting: &'a Waiting<'a>) -> Self {
        waiting.session.is_watched(waiting.id, Some(waiting.store.0.clock.now()));
        Self(waiting)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.session.is_watched(self.0.id, None);
    }
}

impl Waiting<'_> {
    async fn run(&self, known: Option<Whom>) -> Result<Wake> {
        let own = What { key: self.asked.key.clone(), end: Bytes::new(), only_deletions: false };
        let mut own = self.store.0.calls.watch(own);
        let mut own_begins = false;
        let mut whom = match known {
            Some(known) => known,
            None => match self.look().await? {
                Ok(whom) => whom,
                Err(wake) => return Ok(wake),
            },
        };
        loop {
            let mut watch = self.store.0.calls.watch(What {
                key: whom.what.from.clone(),
                end: whom.what.to.clone(),
                only_deletions: whom.only_its_end,
            });
            own_begins = own_begins || self.begins(&mut own).await;
            if !own_begins || !self.begins(&mut watch).await {
                return Err(unwatched());
            }
            whom = match self.beside(whom, &mut own, &mut watch).await? {
                Ok(another) => another,
                Err(wake) => return Ok(wake),
            };
        }
    }

    /// Waits for as long as it is this one whom we wait for. What happened before the watches stood is seen by looking.
    async fn beside(
        &self,
        mut whom: Whom,
        own: &mut Watch,
        watch: &mut Watch,
    ) -> Result<std::result::Result<Whom, Wake>> {
        loop {
            let now = match self.look().await? {
                Ok(now) => now,
                granted_or_gone => return Ok(granted_or_gone),
            };
            if now.what != whom.what {
                return Ok(Ok(now));
            }
            whom = now;
            let _watched = Watched::new(self);
            match self.hear(own, &whom, watch).await {
                Heard::WeAreFirst(token) => return Ok(Err(Wake::Granted { token })),
                Heard::Look => {}
                Heard::Ended => return Ok(Err(Wake::Changed)),
                Heard::Nothing => return Err(unwatched()),
            }
        }
    }

    /// Whom it waits for, or how the waiting ends.
    async fn look(&self) -> Result<std::result::Result<Whom, Wake>> {
        Ok(match self.store.look(std::slice::from_ref(&self.asked)).await?.pop() {
            Some(Standing::Behind { whom, .. }) => Ok(whom),
            Some(Standing::First { created, .. }) => Err(Wake::Granted { token: created.unsigned_abs() }),
            _ => Err(Wake::Changed),
        })
    }

    async fn begins(&self, watch: &mut Watch) -> bool {
        self.store.0.clock.timeout(self.store.0.timeout, watch.begins()).await.unwrap_or(false)
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

enum Heard {
    WeAreFirst(u64),
    Look,
    Ended,
    /// The watch is over: what happens now is not heard.
    Nothing,
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
    if !store.0.clock.timeout(store.0.timeout, watch.begins()).await.unwrap_or(false) {
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
