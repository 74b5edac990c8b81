//! Renewals: one request for each place where claims stand.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use super::layout::{self, Keys};
use super::servers::Said;
use super::{RedisStore, fault};
use crate::store::{Live, Renewal, Renewed, SessionId};
use crate::{ErrorKind, Result};

/// How long all nodes of a cluster may take to answer a renewal of claims that this client did not
/// make. For its own claims it is a quarter of their ttl, which leaves time for another renewal.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// Renews the claims. If a node does not answer, the renewals of its claims have failed, and the
/// claims at the other nodes are renewed.
pub(super) async fn renew(
    store: &RedisStore,
    session: &SessionId,
    live: &[Live],
) -> Result<Renewed> {
    let ttl = store.0.session_claims.renew(
        session,
        live.iter().map(|live| &live.key.id),
        store.0.clock.now(),
    );
    let mut claims = vec![Renewal::Unknown; live.len()];
    let (mut server_time, mut requests) = (None, Vec::new());
    let (mut failed, mut answered) = (None, false);
    for (at, renewed) in each(store, live, ttl.map_or(TIME_LIMIT, |ttl| ttl / 4)).await {
        match renewed {
            Ok(renewed) => {
                answered = true;
                server_time = renewed.server_time;
                requests.extend(renewed.requests);
                for (at, renewal) in at.into_iter().zip(renewed.claims) {
                    claims[at] = renewal;
                }
            }
            Err(error) => {
                at.into_iter().for_each(|at| claims[at] = Renewal::Failed(error.clone()));
                failed = Some(error);
            }
        }
    }
    let held =
        live.iter().zip(&claims).filter(|(_, renewal)| matches!(renewal, Renewal::Held { .. }));
    store.0.pushed.waiting.settled(held.map(|(live, _)| &live.key));
    match failed {
        // If several claims have failed, each has a cause of its own.
        Some(error) if !answered && (live.len() == 1 || error.kind() == ErrorKind::Closed) => {
            Err(error)
        }
        _ => {
            Ok(Renewed { claims, server_time: server_time.filter(|_| store.0.one_clock), requests })
        }
    }
}

/// The positions of some claims in the list, and the answer about these claims, or why there is
/// none.
type Renewals = (Vec<usize>, Result<Renewed>);

/// Renews the claims of each place in one request. When `within` is over, only the answers that
/// have come count: a silent node of a cluster does not hold up the answers of the others.
async fn each(store: &RedisStore, live: &[Live], within: Duration) -> Vec<Renewals> {
    let (servers, clock) = (&store.0.servers, &store.0.clock);
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
        asked.push(Box::pin(async move {
            let renewed = match answer.await {
                Err(error) => Err(fault::about(error, &keys.shown())),
                Ok(said) => counted(store, keys, &of, said).await,
            };
            (at, renewed)
        }));
    }
    let mut answers = Vec::new();
    // All together, so that a place can ask its replicas while other places are silent.
    clock.timeout(within, all(&mut asked, &mut answers)).await;
    if !is_any(&answers) {
        // Each request ends by itself, and says why it failed.
        all(&mut asked, &mut answers).await;
    }
    answers
}

/// Whether any claim has another result than a failure.
fn is_any(answers: &[Renewals]) -> bool {
    let has_failed = |renewal: &Renewal| matches!(renewal, Renewal::Failed(_));
    answers.iter().any(|(_, answer)| {
        answer.as_ref().is_ok_and(|renewed| !renewed.claims.iter().all(has_failed))
    })
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

/// Waits for all futures. Those that are ready leave the list.
pub(super) async fn all<F: Future>(asked: &mut Vec<Pin<Box<F>>>, answers: &mut Vec<F::Output>) {
    poll_fn(|cx| {
        asked.retain_mut(|one| match one.as_mut().poll(cx) {
            Poll::Ready(answer) => {
                answers.push(answer);
                false
            }
            Poll::Pending => true,
        });
        if asked.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
