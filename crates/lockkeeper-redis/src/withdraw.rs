//! Withdrawals: of one claim, and of all claims of a session that ends.

use std::time::Duration;

use lockkeeper_redis_client::renewals::all;

use super::{RedisStore, layout, session};
use crate::store::{ClaimKey, Live, SessionId, Withdrawal};
use crate::{Error, Result};

pub(super) async fn withdraw(
    store: &RedisStore,
    key: &ClaimKey,
    tombstone: Option<Duration>,
) -> Result<Withdrawal> {
    // The caller waits for the claim no more, whatever the server answers.
    store.0.pushed.waiting.left(key.id);
    let request = layout::withdraw(key, tombstone).posted();
    let withdrawal = store.ask(&key.name, request)?.await?.read(layout::withdraw_answer)?;
    store.0.session_claims.left(key);
    Ok(withdrawal)
}

/// Closes a session. The server knows no sessions, so the client withdraws each claim. The requests
/// go out together, behind the request that closes the session. No later request of this client
/// finds the session open.
pub(super) async fn close(store: &RedisStore, id: &SessionId, live: &[Live]) -> Result<()> {
    let claims = store.0.session_claims.closing(id, live);
    let ended = session::close(store, id)?;
    let mut sent = Vec::new();
    for (key, tombstone) in &claims {
        store.0.pushed.waiting.left(key.id);
        let answer = store.ask(&key.name, layout::withdraw(key, *tombstone));
        sent.push(Box::pin(async move { answer?.await?.read(layout::withdraw_answer) }));
    }
    // All together: each request may follow redirections until its deadline.
    let mut withdrawn = Vec::new();
    let ((), ended) = tokio::join!(all(&mut sent, &mut withdrawn), ended);
    withdrawn.into_iter().collect::<Result<Vec<_>>>()?;
    // The claims are withdrawn, whatever the server says about the session.
    ended.map_err(Error::with_unknown_effect)?;
    session::ended(store, id);
    Ok(())
}
