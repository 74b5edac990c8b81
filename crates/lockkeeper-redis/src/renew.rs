//! Renewals: one request for each place where claims stand.

use std::collections::BTreeMap;

use lockkeeper_redis_client::renewals::renewed;

use super::layout::{self, Keys};
use super::servers::Said;
use super::{RedisStore, fault};
use crate::Result;
use crate::store::{Live, Renewal, Renewed, SessionId};

/// Renews the claims of each place in one request.
pub(super) async fn renew(
    store: &RedisStore,
    session: &SessionId,
    live: &[Live],
) -> Result<Renewed> {
    let (servers, clock) = (&store.0.servers, &store.0.clock);
    let ids = live.iter().map(|live| &live.key.id);
    let ttl = store.0.session_claims.renew(session, ids, clock.now());
    let mut groups: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    let keys: Vec<_> = live.iter().map(|live| Keys::of(&live.key.name)).collect();
    for (at, keys) in keys.iter().enumerate() {
        groups.entry(servers.group(keys)).or_default().push(at);
    }
    let mut asked = Vec::new();
    for (_, at) in groups {
        let of: Vec<_> = at.iter().map(|at| live[*at].clone()).collect();
        let keys = &keys[at[0]];
        let answer = servers.send(keys.slot(), layout::renew(&of));
        // All together, so that a place can ask its replicas while other places are silent.
        asked.push(Box::pin(async move {
            let renewed = match answer.await {
                Err(error) => Err(fault::about(error, &keys.shown())),
                Ok(said) => counted(store, keys, &of, said).await,
            };
            (at, renewed)
        }));
    }
    let mut renewed = renewed(clock, live.len(), ttl, asked).await?;
    renewed.server_time = renewed.server_time.filter(|_| store.0.one_clock);
    let held = live.iter().zip(&renewed.claims);
    let held = held.filter(|(_, renewal)| matches!(renewal, Renewal::Held { .. }));
    store.0.pushed.waiting.settled(held.map(|(live, _)| &live.key));
    Ok(renewed)
}

/// Reads an answer. If locks count only with replicas, so does each renewal: a master that no
/// replica follows any more goes on renewing, while another master has taken over and granted the
/// locks again.
async fn counted(store: &RedisStore, keys: &Keys, of: &[Live], said: Said) -> Result<Renewed> {
    let mut answered = said.read(|value| layout::renew_answer(of, value))?;
    if let [Renewal::Failed(error)] = &answered.claims[..] {
        return Err(error.clone());
    }
    let is_held = |renewal: &Renewal| matches!(renewal, Renewal::Held { .. });
    if !answered.claims.iter().any(is_held) {
        return Ok(answered);
    }
    if let Err(error) = store.0.servers.replicated(&said.proof(), keys).await {
        if answered.claims.iter().all(is_held) {
            return Err(error);
        }
        answered
            .claims
            .iter_mut()
            .filter(|renewal| is_held(renewal))
            .for_each(|held| *held = Renewal::Failed(error.clone()));
    }
    Ok(answered)
}
