//! Reads lines, long ones on a connection of their own.

use super::layout::{self, Keys};
use super::{RedisStore, fault};
use crate::wire::Value;
use crate::{LockName, Result};

/// At most so many bytes of a line come on the connection of all other requests. Renewals would
/// wait behind more, and a server closes a connection with subscriptions if it has too much to
/// write there (`client-output-buffer-limit pubsub`).
pub(super) const SHORT: u32 = 1 << 20;

/// Asks the server for a line. A long line comes on a connection of its own.
pub(super) async fn line<T>(
    store: &RedisStore,
    name: &LockName,
    read: impl Fn(&Value) -> Result<T>,
) -> Result<T> {
    let said = store.ask(name, layout::line(name, Some(SHORT)))?.await?;
    let short =
        said.read(|value| if layout::is_longer(value) { Ok(None) } else { read(value).map(Some) })?;
    if let Some(short) = short {
        return Ok(short);
    }
    let keys = Keys::of(name);
    let link = store.0.servers.link(keys.slot()).alone().await.map_err(fault::of)?;
    let answer = link.send(layout::line(name, None)).await;
    if let Err(error) = &answer {
        // The next look asks the right server.
        store.0.servers.note_redirect(keys.slot(), &link, error);
    }
    read(&answer.map_err(|error| fault::about(error, &keys.shown()))?)
}
