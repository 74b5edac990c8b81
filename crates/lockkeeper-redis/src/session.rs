//! The life of a session: servers know of one only that a detached session was closed.

use super::layout::SessionKey;
use super::route::NoFallback;
use super::servers::Said;
use super::wire::Request;
use super::{CAPABILITIES, Error, RedisStore, Result, fault};
use crate::store::{Opened, SessionId, SessionSpec, TOMBSTONE_MIN, refusal};

pub(super) async fn open(store: &RedisStore, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
    CAPABILITIES.check(spec)?;
    let was_closed = store.0.session_claims.was_closed(id, store.0.clock.now());
    // Another client may have closed a detached session.
    if was_closed || (spec.detached && is_closed(store, id).await?) {
        return Err(refusal::session_ended());
    }
    store.0.session_claims.open(id, spec);
    Ok(Opened { ttl: spec.ttl })
}

/// The session is over, and nothing of it is left.
pub(super) async fn ended(store: &RedisStore, id: &SessionId) -> Result<()> {
    if !store.0.session_claims.is_own(id) {
        let key = SessionKey::of(id);
        ask(store, &key, key.close(TOMBSTONE_MIN)).await?;
    }
    store.0.session_claims.close(id, store.0.clock.now() + TOMBSTONE_MIN);
    Ok(())
}

/// Whether a client has closed a detached session.
async fn is_closed(store: &RedisStore, id: &SessionId) -> Result<bool> {
    let key = SessionKey::of(id);
    let said = ask(store, &key, key.look()).await.map_err(Error::without_effect)?;
    said.read(SessionKey::is_closed)
}

async fn ask(store: &RedisStore, key: &SessionKey, request: Request) -> Result<Said> {
    store.check_process()?;
    let said = store.0.servers.send(key.slot, request, NoFallback).await;
    said.map_err(|error| fault::about(error, key.key()))
}
