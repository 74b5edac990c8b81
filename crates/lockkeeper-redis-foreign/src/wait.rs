//! Waits for a change of a line.

use std::pin::pin;
use std::time::Duration;

use lockkeeper_core::kit::watchful_until;

use super::layout::{self, Holders, Keys, Layout, Message, Place};
use super::{ForeignRedisStore, admin};
use crate::random::jittered;
use crate::store::{ClaimKey, Revision, Wake};
use crate::{LockName, Result};
use lockkeeper_core::time::Instant;

/// No wait without another look is longer.
const LOOK: Duration = Duration::from_secs(5);
/// Messages are published for so long to a client that does not look again.
const WATCH: Duration = Duration::from_secs(10);
/// The pauses between two looks at a lock whose holder publishes nothing. They grow with the wait.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_millis(250);
/// Such a pause is this part of the wait so far.
const PART: u32 = 8;

/// The pause between two looks for a holder whose grant nobody publishes.
const GLANCE: Duration = Duration::from_secs(1);

/// Waits for a claim in the queue. Its channel has a message when the claim was granted or removed,
/// or when a client of Redisson has released the lock.
pub(super) async fn claim(
    store: &ForeignRedisStore,
    key: &ClaimKey,
    within: Duration,
) -> Result<Wake> {
    let (layout, keys) = (store.0.layout, store.keys(&key.name));
    let channel = keys.channel_of(&key.id);
    let waiting = store.0.channels.waiters.watch_key(String::from_utf8_lossy(&channel).into());
    let _listens = store.0.subscriptions.listen(keys.slot(), channel, true);
    let clock = &store.0.clock;
    let until = clock.now() + within + LOOK;
    let look = || async {
        let read = |value: &_| layout::look_answer(layout, &key.id, value);
        let asked = store.ask(&keys, layout::look(layout, key, store.messages()), read);
        match async { asked?.await }.await {
            Ok(Place::Granted(token)) => Some(Ok(Wake::Granted { token })),
            Ok(Place::Again) => Some(Ok(Wake::Changed)),
            Ok(Place::Waits) => None,
            Err(error) => Some(Err(error)),
        }
    };
    // The time of the wait ends a look too.
    let found = clock.timeout(within, watchful_until(clock, until, waiting.notify(), look)).await;
    found.flatten().unwrap_or(Ok(Wake::Elapsed))
}

/// Each time that the line may have changed, the client asks the server.
pub(super) async fn name(
    store: &ForeignRedisStore,
    name: &LockName,
    seen: Revision,
    within: Duration,
) -> Result<Wake> {
    let keys = store.keys(name);
    let until = store.0.clock.now() + within;
    // Redisson publishes each release on this channel, but not that of an `RFairLock`.
    let is_asked = matches!(store.0.layout, Layout::Plain | Layout::RedissonFair);
    let release = is_asked.then_some(Message::Release);
    match one(store, &keys, keys.channel(), release, seen, until).await? {
        Some(wake) => Ok(wake),
        // Only observers wait for a grant.
        None => {
            let grant = Some(Message::Grant);
            let wake = one(store, &keys, keys.grants(), grant, seen, until).await?;
            Ok(wake.unwrap_or(Wake::Elapsed))
        }
    }
}

/// Waits for a message on this channel. `None` if the lock is free, so that only a grant can change
/// its line, and the channel has no grants. The subscription comes first, so no message between the
/// look and the wait is missed.
async fn one(
    store: &ForeignRedisStore,
    keys: &Keys,
    channel: Vec<u8>,
    message: Option<Message>,
    seen: Revision,
    until: Instant,
) -> Result<Option<Wake>> {
    let clock = &store.0.clock;
    let waiting = store.0.channels.waiters.watch_key(String::from_utf8_lossy(&channel).into());
    let _listens = store.0.subscriptions.listen(keys.slot(), channel, true);
    let began = clock.now();
    loop {
        let mut notified = pin!(waiting.notify().notified());
        notified.as_mut().enable();
        if waiting.has_changed() {
            return Ok(Some(Wake::Changed));
        }
        let found = look(store, keys, message).await?;
        if found.revision() != seen {
            return Ok(Some(Wake::Changed));
        }
        let now = clock.now();
        if now >= until {
            return Ok(Some(Wake::Elapsed));
        }
        if found.all.is_empty() && message != Some(Message::Grant) {
            return Ok(None);
        }
        let pause = pause(store.0.layout, &found, now.saturating_since(began));
        clock.timeout(jittered(pause).min(until.saturating_since(now)), notified).await;
    }
}

/// The pause before the next look at this line, after such a wait.
fn pause(layout: Layout, found: &Holders, waited: Duration) -> Duration {
    match layout {
        Layout::Plain | Layout::RedissonFair if found.has_stranger() => {
            (waited / PART).clamp(FIRST_PAUSE, LAST_PAUSE)
        }
        // The grant of another holder changes the line, and nobody may publish it.
        _ if found.all.is_empty() || layout.is_shared() => GLANCE,
        _ => LOOK,
    }
}

/// The line as it is now. From now on the clients of lockkeeper publish this message.
async fn look(store: &ForeignRedisStore, keys: &Keys, message: Option<Message>) -> Result<Holders> {
    let request = layout::line(store.0.layout, keys, message.map(|message| (message, WATCH)));
    let found = store.ask(keys, request, |value| layout::line_answer(keys, value))?.await?;
    // Observers compare with a line that leaves out the readers that have died.
    admin::with_lives(store, keys, found).await
}
