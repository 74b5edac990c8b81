//! Waits for a grant, and for a change of a line.

use std::time::Duration;

use lockkeeper_core::kit::{Known, watchful_until};

use super::RedisStore;
use super::layout::{self, ClaimStatus, Keys};
use super::servers::Proof;
use crate::random::jittered;
use crate::store::{ClaimKey, Revision, Wake};
use crate::time::Instant;
use crate::{Error, LockName, Result};

/// For how long a watcher is told of changes without asking again.
const WATCH: Duration = Duration::from_secs(60);

/// After its own claim a client leaves the claim to another client for about so long, before it
/// claims again.
const TAKE_BACK: Duration = Duration::from_millis(500);

/// Waits for a claim in line.
pub(super) async fn claim(store: &RedisStore, key: &ClaimKey, within: Duration) -> Result<Wake> {
    let (waiting, clock) = (&store.0.pushed.waiting, &store.0.clock);
    let began = clock.now();
    let until = began + within;
    loop {
        let known = match waiting.known(key.id) {
            Some(Known::Waiting(place)) => match waiting.news(clock, until, key.id, &place).await {
                Some(known) => known,
                None => return Ok(Wake::Elapsed),
            },
            known => known,
        };
        match known {
            Some(Known::Granted(token)) if !store.0.servers.needs_replicas() => {
                return granted(store, key, (ClaimStatus::Granted { token }, Proof::Needless))
                    .await;
            }
            // Nobody knows by which server it was told, so the one that is there is asked.
            Some(Known::Granted(_)) => return granted(store, key, look(store, key).await?).await,
            Some(Known::Again) => return Ok(Wake::Changed),
            // In another place.
            Some(Known::Waiting(_)) => {}
            Some(Known::Look(subscriptions)) => match look(store, key).await? {
                (ClaimStatus::Elsewhere, _) => return taken(store, key, began, until).await,
                (ClaimStatus::Queued, _) => waiting.looked(key.id, subscriptions),
                // The end of what it waits for may be another one than it was told, and the message
                // is lost.
                (ClaimStatus::First, _) => {
                    waiting.looked(key.id, subscriptions);
                    return Ok(Wake::Changed);
                }
                found => return granted(store, key, found).await,
            },
            // Of one that was put in line elsewhere nothing would be heard here.
            None => match look(store, key).await? {
                (ClaimStatus::Elsewhere, _) => return taken(store, key, began, until).await,
                found => return granted(store, key, found).await,
            },
        }
    }
}

/// Another client receives what is published about the claim: only another claim changes that. Two
/// clients that both wait for it would take it from each other with each round trip, so a client
/// lets some time pass after its own claim.
async fn taken(store: &RedisStore, key: &ClaimKey, began: Instant, until: Instant) -> Result<Wake> {
    let clock = &store.0.clock;
    store.0.pushed.waiting.left(key.id);
    let due = (began + jittered(TAKE_BACK)).min(until);
    clock.sleep(due.saturating_since(clock.now())).await;
    Ok(Wake::Changed)
}

/// A grant that counts only when replicas have it is claimed again while they have not.
async fn granted(
    store: &RedisStore,
    key: &ClaimKey,
    (status, proof): (ClaimStatus, Proof),
) -> Result<Wake> {
    let ClaimStatus::Granted { token } = status else { return Ok(Wake::Changed) };
    Ok(match store.0.servers.replicated(&proof, &Keys::of(&key.name)).await {
        Ok(()) => {
            // Nobody waits for it any more, and one that is detached is never withdrawn here.
            store.0.pushed.waiting.left(key.id);
            Wake::Granted { token }
        }
        Err(_) => Wake::Changed,
    })
}

/// What the server says of a claim, and which server.
async fn look(store: &RedisStore, key: &ClaimKey) -> Result<(ClaimStatus, Proof)> {
    let channel = store.0.servers.channel(&Keys::of(&key.name));
    let said = store.ask(&key.name, layout::look(key, &channel))?.await?;
    Ok((said.read(|value| layout::look_answer(key, value))?, said.proof()))
}

/// Waits for a change of a line. Each time that it may have changed the server is asked whether it
/// has.
pub(super) async fn name(
    store: &RedisStore,
    name: &LockName,
    seen: Revision,
    within: Duration,
) -> Result<Wake> {
    let (keys, shared) = (Keys::of(name), &store.0);
    let watching = shared.pushed.names.watch(name);
    let _listens = shared.servers.listen_to_changes(&keys);
    let sharded = shared.servers.shards();
    let (clock, until) = (&shared.clock, shared.clock.now() + within.min(WATCH));
    let look = || async {
        if watching.has_changed() {
            return Ok::<_, Error>(Some(Wake::Changed));
        }
        let left = until.saturating_since(clock.now());
        let said = store.ask(name, layout::observe(name, sharded, left))?.await?;
        Ok((said.read(layout::observe_answer)?.value != seen).then_some(Wake::Changed))
    };
    watchful_until(clock, until, watching.notify(), || async { look().await.transpose() })
        .await
        .unwrap_or(Ok(Wake::Elapsed))
}
