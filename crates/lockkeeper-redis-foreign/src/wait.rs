//! Waits for a change of a line.

use std::pin::pin;
use std::time::Duration;

use super::layout::{self, Holders, Keys, Layout};
use super::{ForeignRedisStore, admin};
use crate::random::jittered;
use crate::store::{Revision, Wake};
use crate::{LockName, Result};

/// No wait without another look is longer.
const LOOK: Duration = Duration::from_secs(5);
/// Releases of lockkeeper are published for so long to a waiter that does not look again.
const WATCH: Duration = Duration::from_secs(10);
/// The pauses between two looks at a lock whose holder publishes nothing. They grow with the wait.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_millis(250);
/// Such a pause is this part of the wait so far.
const PART: u32 = 8;

/// Each time that the line may have changed, the client asks the server. The subscription comes
/// first, so no message between the look and the wait is missed.
pub(super) async fn name(
    store: &ForeignRedisStore,
    name: &LockName,
    seen: Revision,
    within: Duration,
) -> Result<Wake> {
    let keys = store.keys(name);
    let (channel, clock) = (keys.channel(), &store.0.clock);
    let key = String::from_utf8_lossy(&channel).into_owned();
    let waiting = store.0.channels.waiters.watch_key(key);
    let _listens = store.0.subscriptions.listen(keys.slot(), channel, true);
    let began = clock.now();
    let until = began + within;
    loop {
        let mut notified = pin!(waiting.notify().notified());
        notified.as_mut().enable();
        if waiting.has_changed() {
            return Ok(Wake::Changed);
        }
        let found = look(store, &keys).await?;
        if found.revision() != seen {
            return Ok(Wake::Changed);
        }
        let now = clock.now();
        if now >= until {
            return Ok(Wake::Elapsed);
        }
        let is_silent = store.0.layout == Layout::Plain && found.has_stranger();
        let pause = match is_silent {
            true => (now.saturating_since(began) / PART).clamp(FIRST_PAUSE, LAST_PAUSE),
            false => LOOK,
        };
        clock.timeout(jittered(pause).min(until.saturating_since(now)), notified).await;
    }
}

/// The line as it is now. From now on the releases of lockkeeper are published.
async fn look(store: &ForeignRedisStore, keys: &Keys) -> Result<Holders> {
    // Redisson publishes each release.
    let waits = if store.0.layout == Layout::Plain { WATCH } else { Duration::ZERO };
    let request = layout::line(store.0.layout, keys, waits);
    let found = store.ask(keys, request, |value| layout::line_answer(keys, value))?.await?;
    // Observers compare with a line that leaves out the readers that have died.
    admin::with_lives(store, keys, found).await
}
