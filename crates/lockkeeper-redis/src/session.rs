//! The life of a session. The servers know only which detached sessions were closed.

use std::sync::Arc;

use super::layout::SessionKey;
use super::servers::Said;
use super::{CAPABILITIES, Error, RedisStore, Result, fault};
use crate::store::{Opened, SessionId, SessionSpec, TOMBSTONE_MIN};
use crate::wire::Request;

pub(super) async fn open(store: &RedisStore, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
    CAPABILITIES.check(spec)?;
    let now = store.0.clock.now();
    store.0.session_claims.opened(id, spec, now, is_closed(store, id)).await
}

/// Lets the server remember that the session is closed, unless it belongs to this client alone. The
/// request has its place in the order when this returns.
pub(super) fn close(
    store: &RedisStore,
    id: &SessionId,
) -> Result<impl Future<Output = Result<()>> + Send + use<>> {
    let key = (!store.0.session_claims.is_own(id)).then(|| SessionKey::of(id));
    let closed = key
        .map(|key| Ok::<_, Error>((ask(store, &key, key.close(TOMBSTONE_MIN))?, key)))
        .transpose()?;
    let servers = Arc::clone(&store.0.servers);
    Ok(async move {
        let Some((closed, key)) = closed else { return Ok(()) };
        let said = closed.await?;
        said.read(|value| key.is_closed(value))?;
        servers.replicated_by(&said.proof(), || key.mark()).await
    })
}

/// Notes that the session has ended, and has no claims left.
pub(super) fn ended(store: &RedisStore, id: &SessionId) {
    store.0.session_claims.close(id, store.0.clock.now() + TOMBSTONE_MIN);
}

/// Whether a client has closed a detached session.
async fn is_closed(store: &RedisStore, id: &SessionId) -> Result<bool> {
    let key = SessionKey::of(id);
    let said = ask(store, &key, key.look())?.await.map_err(Error::without_effect)?;
    said.read(|value| key.is_closed(value)).map_err(Error::without_effect)
}

fn ask(
    store: &RedisStore,
    key: &SessionKey,
    request: Request,
) -> Result<impl Future<Output = Result<Said>> + Send + use<>> {
    store.check_process()?;
    let said = store.0.servers.send(key.slot, request);
    let key = key.key().to_owned();
    Ok(async move { said.await.map_err(|error| fault::of_session(error, &key)) })
}
