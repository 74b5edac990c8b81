//! Waiting: a watch on whoever is in the way, from now on, and a look once it stands.

use std::time::Duration;

use bytes::Bytes;

use super::EtcdStore;
use super::layout::transaction::all;
use super::layout::{Contender, is_as_it_was};
use super::sessions::Place;
use super::standing::{Asked, Standing, Whom};
use super::wire::messages::event::EventType;
use super::wire::messages::{Event, RangeRequest};
use super::wire::{Told, Watch, What};
use crate::store::{ClaimKey, MAX, Revision, Wake};
use crate::{LockName, Result};

/// Waits for a claim in line.
pub(super) async fn claim(store: &EtcdStore, key: &ClaimKey, within: Duration) -> Result<Wake> {
    let place = store.0.sessions.get(&key.session)?.place(key.id);
    let waiting = Waiting { store, asked: asked(store, key, place.as_ref()) };
    let known = place.and_then(|place| place.whom);
    store.0.clock.timeout(within, waiting.run(known)).await.unwrap_or(Ok(Wake::Elapsed))
}

/// What is asked about a claim of this client.
pub(super) fn asked(store: &EtcdStore, key: &ClaimKey, place: Option<&Place>) -> Asked {
    Asked {
        line: store.0.lines.of(&key.name),
        key: store.0.lines.claim(key),
        created: place.map_or(0, |place| place.created),
        exclusive: place.is_some_and(|place| place.record.weight == MAX),
    }
}

struct Waiting<'a> {
    store: &'a EtcdStore,
    asked: Asked,
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
                return Ok(Wake::Changed);
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
            match self.hear(own, &whom, watch).await {
                Heard::WeAreFirst(token) => return Ok(Err(Wake::Granted { token })),
                Heard::Look => {}
                Heard::Ended => return Ok(Err(Wake::Changed)),
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
            // It was broken, or its session is over.
            _ = own.next() => Heard::Ended,
            told = watch.next() => match told {
                Some(Told::Events(events)) if whom.is_the_last && events.iter().any(is_deletion) => {
                    // It has gone before whoever is before us, if it has gone.
                    match self.asked.created {
                        0 => Heard::Look,
                        created => Heard::WeAreFirst(created.unsigned_abs()),
                    }
                }
                Some(_) => Heard::Look,
                None => Heard::Ended,
            },
        }
    }
}

enum Heard {
    WeAreFirst(u64),
    Look,
    Ended,
}

fn is_deletion(event: &Event) -> bool {
    event.r#type() == EventType::Delete
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
        return Ok(Wake::Changed);
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
