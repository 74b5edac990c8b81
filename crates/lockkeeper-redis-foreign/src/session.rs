//! The life of a session. The servers know only which detached sessions were closed.

use std::time::Duration;

use super::layout;
use super::{ForeignRedisStore, fault};
use crate::store::{Opened, SessionId, SessionSpec, TOMBSTONE_MIN};
use crate::{Error, Result};
use lockkeeper_redis_client::slot;

pub(super) async fn open(
    store: &ForeignRedisStore,
    id: &SessionId,
    spec: &SessionSpec,
) -> Result<Opened> {
    store.0.capabilities.check(spec)?;
    let now = store.0.clock.now();
    store.0.session_claims.opened(id, spec, now, is_closed(store, id)).await
}

/// Lets the server remember that the session is closed, unless it belongs to this client alone. The
/// request has its place in the order when this returns.
pub(super) fn close(
    store: &ForeignRedisStore,
    id: &SessionId,
) -> Result<impl Future<Output = Result<()>> + Send + use<>> {
    let closed = match store.0.session_claims.is_own(id) {
        true => None,
        false => Some(ask(store, id, TOMBSTONE_MIN)?),
    };
    Ok(async move {
        match closed {
            Some(closed) => closed.await.map(drop),
            None => Ok(()),
        }
    })
}

/// Notes that the session has ended, and has no claims left.
pub(super) fn ended(store: &ForeignRedisStore, id: &SessionId) {
    store.0.session_claims.close(id, store.0.clock.now() + TOMBSTONE_MIN);
}

/// Whether a client has closed a detached session.
async fn is_closed(store: &ForeignRedisStore, id: &SessionId) -> Result<bool> {
    ask(store, id, Duration::ZERO)?.await.map_err(Error::without_effect)
}

fn ask(
    store: &ForeignRedisStore,
    id: &SessionId,
    remembered: Duration,
) -> Result<impl Future<Output = Result<bool>> + Send + use<>> {
    store.check_process()?;
    let key = layout::session_key(id);
    let said = store.0.route.send_by(slot(&key), layout::close_session(&key, remembered));
    Ok(async move {
        let (value, _) = said.await.map_err(fault::of)?;
        layout::is_closed(&value)
    })
}
