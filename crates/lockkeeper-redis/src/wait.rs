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

/// For so long the server publishes changes to a watcher that does not ask again.
const WATCH: Duration = Duration::from_secs(60);

/// After its own claim, a client leaves the claim to another client for about this time before it
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
            // The push does not say which server sent it, so the client asks the current server.
            Some(Known::Granted(_)) => return granted(store, key, look(store, key).await?).await,
            Some(Known::Again) => return Ok(Wake::Changed),
            // The claim waits in another place.
            Some(Known::Waiting(_)) => {}
            Some(Known::Look(subscriptions)) => match look(store, key).await? {
                (ClaimStatus::Elsewhere, _) => return taken(store, key, began, until).await,
                (ClaimStatus::Queued, _) => waiting.looked(key.id, subscriptions),
                // The time at which the holder ends may have changed, and the message about that
                // may be lost.
                (ClaimStatus::First, _) => {
                    waiting.looked(key.id, subscriptions);
                    return Ok(Wake::Changed);
                }
                found => return granted(store, key, found).await,
            },
            // This client receives no push about a claim that another client has put in line.
            None => match look(store, key).await? {
                (ClaimStatus::Elsewhere, _) => return taken(store, key, began, until).await,
                found => return granted(store, key, found).await,
            },
        }
    }
}

/// Another client receives the messages about the claim, until this client sends the claim again.
/// Two clients that both wait for the claim would take it from each other with each round trip, so
/// a client lets some time pass after its own claim.
async fn taken(store: &RedisStore, key: &ClaimKey, began: Instant, until: Instant) -> Result<Wake> {
    let clock = &store.0.clock;
    store.0.pushed.waiting.left(key.id);
    let due = (began + jittered(TAKE_BACK)).min(until);
    clock.sleep(due.saturating_since(clock.now())).await;
    Ok(Wake::Changed)
}

/// The wake-up for a grant. If the grant counts only with replicas, and they do not have it, the
/// caller claims again.
async fn granted(
    store: &RedisStore,
    key: &ClaimKey,
    (status, proof): (ClaimStatus, Proof),
) -> Result<Wake> {
    let ClaimStatus::Granted { token } = status else { return Ok(Wake::Changed) };
    Ok(match store.0.servers.replicated(&proof, &Keys::of(&key.name)).await {
        Ok(()) => {
            // The wait is over. A detached claim is never withdrawn here, so it is forgotten now.
            store.0.pushed.waiting.left(key.id);
            Wake::Granted { token }
        }
        Err(_) => Wake::Changed,
    })
}

/// Asks the server for the status of a claim. Returns also which server has answered.
async fn look(store: &RedisStore, key: &ClaimKey) -> Result<(ClaimStatus, Proof)> {
    let channel = store.0.servers.channel(&Keys::of(&key.name));
    let said = store.ask(&key.name, layout::look(key, &channel))?.await?;
    Ok((said.read(|value| layout::look_answer(key, value))?, said.proof()))
}

/// Waits for a change of a line. Each time that the line may have changed, the client asks the
/// server.
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
        Ok((said.read(layout::observe_answer)? != seen).then_some(Wake::Changed))
    };
    watchful_until(clock, until, watching.notify(), || async { look().await.transpose() })
        .await
        .unwrap_or(Ok(Wake::Elapsed))
}
