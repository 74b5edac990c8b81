//! Waiting: the server pushes to a channel of this client, and here it finds who waits for it.

use std::pin::pin;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::layout::{self, Keys, Push, Standing};
use super::places::Known;
use super::wire::Listener;
use super::{Heard, RedisStore};
use crate::store::{ClaimKey, Revision, Wake};
use crate::{LockName, Result};

/// For how long a watcher is told of changes without asking again.
const WATCH: Duration = Duration::from_secs(60);

/// Where the connections tell what the servers push. It must not keep the store.
#[derive(Debug)]
pub(super) struct Ear(Weak<Heard>);

impl Ear {
    pub(super) fn new(heard: &Arc<Heard>) -> Self {
        Self(Arc::downgrade(heard))
    }
}

impl Listener for Ear {
    fn pushed(&self, _channel: &[u8], payload: &[u8]) {
        let (Some(heard), Some(push)) = (self.0.upgrade(), layout::pushed(payload)) else { return };
        match push {
            Push::Granted { id, token } => heard.places.granted(id, token),
            Push::Changed { name } => heard.names.changed(&String::from_utf8_lossy(&name)),
            Push::Lost { id, broken } => {
                heard.places.broken(id);
                let losses = heard.losses.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let deaf: Vec<_> = losses.into_iter().filter(|losses| !losses.tell(id, Some(broken.clone()))).collect();
                heard.losses.lock().unwrap_or_else(PoisonError::into_inner).retain(|losses| !deaf.contains(losses));
            }
        }
    }

    fn subscribed(&self, channel: &[u8]) {
        let Some(heard) = self.0.upgrade() else { return };
        // The channel of the client serves all names, that of a name but one.
        let of = layout::name_of_channel(channel);
        heard.places.subscribed(|name| of.is_none_or(|of| of == name.encoded().as_bytes()));
        heard.names.subscribed(|name| of.is_none_or(|of| of == name.as_bytes()));
    }

    fn unsubscribed(&self, channel: &[u8]) {
        // Whoever waits there looks, and listens where the name is now.
        self.subscribed(channel);
    }

    fn disconnected(&self) {}
}

/// Waits for a claim in line.
pub(super) async fn claim(store: &RedisStore, key: &ClaimKey, within: Duration) -> Result<Wake> {
    let (places, clock) = (&store.0.heard.places, &store.0.clock);
    let until = clock.now() + within;
    loop {
        let known = match places.known(key.id) {
            Some(Known::Waiting(bell)) => {
                let left = until.saturating_since(clock.now());
                match rings(store, &bell, left, || places.known(key.id)).await {
                    Some(known) => known,
                    None => return Ok(Wake::Elapsed),
                }
            }
            known => known,
        };
        match known {
            Some(Known::Granted(token)) => return granted(store, key, token).await,
            Some(Known::Again) => return Ok(Wake::Changed),
            Some(Known::Waiting(_)) => {}
            Some(Known::Look(subscriptions)) => match look(store, key).await? {
                Standing::Granted { token } => return granted(store, key, token).await,
                Standing::Queued => places.looked(key.id, subscriptions),
                Standing::Absent => return Ok(Wake::Changed),
            },
            // Of one that was put in line elsewhere nothing would be heard here.
            None => match look(store, key).await? {
                Standing::Granted { token } => return granted(store, key, token).await,
                _ => return Ok(Wake::Changed),
            },
        }
    }
}

/// A grant that counts only when replicas have it is claimed again while they have not.
async fn granted(store: &RedisStore, key: &ClaimKey, token: u64) -> Result<Wake> {
    Ok(match store.0.servers.replicated(&Keys::of(&key.name)).await {
        Ok(()) => Wake::Granted { token },
        Err(_) => Wake::Changed,
    })
}

/// Waits for the bell unless something is known already; `None` when the time is over.
async fn rings(
    store: &RedisStore,
    bell: &Notify,
    within: Duration,
    known: impl Fn() -> Option<Known>,
) -> Option<Option<Known>> {
    let mut rung = pin!(bell.notified());
    rung.as_mut().enable();
    // Between the first look and the bell's being watched it may have rung.
    match known() {
        Some(Known::Waiting(_)) => {}
        other => return Some(other),
    }
    store.0.clock.timeout(within, rung).await.map(|()| known())
}

/// What the server says of a claim.
async fn look(store: &RedisStore, key: &ClaimKey) -> Result<Standing> {
    layout::look_answer(&store.ask(&Keys::of(&key.name), layout::look(key))?.await?)
}

/// Waits for a change of a line. Each time that it may have changed the server is asked whether it has.
pub(super) async fn name(store: &RedisStore, name: &LockName, seen: Revision, within: Duration) -> Result<Wake> {
    let (keys, shared) = (Keys::of(name), &store.0);
    let watching = shared.heard.names.watch(name);
    let _listens = shared.servers.listen(&keys);
    let channel = shared.servers.channel(&keys);
    let until = shared.clock.now() + within.min(WATCH);
    loop {
        let mut rung = pin!(watching.bell().notified());
        rung.as_mut().enable();
        let left = until.saturating_since(shared.clock.now());
        let asked = store.ask(&keys, layout::observe(name, &channel, left))?;
        if layout::observe_answer(&asked.await?)?.value != seen {
            return Ok(Wake::Changed);
        }
        let left = until.saturating_since(shared.clock.now());
        if shared.clock.timeout(left, rung).await.is_none() {
            return Ok(Wake::Elapsed);
        }
        if watching.has_changed() {
            return Ok(Wake::Changed);
        }
    }
}
