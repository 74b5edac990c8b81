//! Withdrawals: of one claim, and of all claims of a session that ends.

use std::time::Duration;

use lockkeeper_redis_client::renewals::all;

use super::layout::{self, Released};
use super::{ForeignRedisStore, claim, session};
use crate::store::{ClaimKey, Live, SessionId, Withdrawal};
use crate::{Error, Result};

pub(super) async fn withdraw(
    store: &ForeignRedisStore,
    key: &ClaimKey,
    tombstone: Option<Duration>,
) -> Result<Withdrawal> {
    let (turns, clock, name) = (&store.0.turns, &store.0.clock, &key.name);
    turns.releases(name, clock.now());
    let Released { withdrawal, receivers, left } = ask(store, key, tombstone, true)?.await?;
    if withdrawal == Withdrawal::Removed {
        let own = store.0.subscriptions.listeners(&store.keys(name).channel());
        // The subscription of this client is among the receivers.
        let others_wait = receivers > u32::from(own.is_some()) || own > Some(0);
        turns.released(name, others_wait, clock.now());
    }
    store.0.session_claims.left(key);
    // The claim is withdrawn. Readers that have died end with the key at the latest.
    drop(claim::sweep(store, key, &left).await);
    Ok(withdrawal)
}

/// `posted`: a request that follows at once goes out in the same write.
fn ask<'a>(
    store: &'a ForeignRedisStore,
    key: &'a ClaimKey,
    tombstone: Option<Duration>,
    posted: bool,
) -> Result<impl Future<Output = Result<Released>> + Send + 'a> {
    let layout = store.0.layout;
    store.0.turns.ends_pause(&key.id);
    let request = layout::withdraw(layout, key, store.messages(), tombstone);
    let request = if posted { request.posted() } else { request };
    let read = move |value: &_| layout::withdraw_answer(layout, &key.id, value);
    store.ask(&store.keys(&key.name), request, read)
}

/// Closes a session. The server knows no sessions, so the client withdraws each claim. The requests
/// go out together, behind the request that closes the session.
pub(super) async fn close(store: &ForeignRedisStore, id: &SessionId, live: &[Live]) -> Result<()> {
    let claims = store.0.session_claims.closing(id, live);
    let ended = session::close(store, id)?;
    let mut sent = Vec::new();
    for (key, tombstone) in &claims {
        let answer = ask(store, key, *tombstone, false);
        sent.push(Box::pin(async move { Ok::<_, Error>((key, answer?.await?.left)) }));
    }
    // All together: each request may follow redirections until its deadline.
    let mut withdrawn = Vec::new();
    let ((), ended) = tokio::join!(all(&mut sent, &mut withdrawn), ended);
    let withdrawn = withdrawn.into_iter().collect::<Result<Vec<_>>>()?;
    let sweeps = withdrawn.iter().map(|(key, left)| Box::pin(claim::sweep(store, key, left)));
    all(&mut sweeps.collect(), &mut Vec::new()).await;
    // The claims are withdrawn, whatever the server says about the session.
    ended.map_err(Error::with_unknown_effect)?;
    session::ended(store, id);
    Ok(())
}
