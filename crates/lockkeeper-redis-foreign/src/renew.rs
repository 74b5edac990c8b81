//! Renewals: a request for each claim, all sent together.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use super::ForeignRedisStore;
use super::layout;
use crate::store::{Asked, Live, Renewal, Renewed, SessionId};
use crate::{ErrorKind, Result};

/// How long all nodes of a cluster may take to answer a renewal of claims that this client did not
/// make. For its own claims it is a quarter of their ttl, which leaves time for another renewal.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// Renews the claims. If a node does not answer, the renewals of its claims have failed, and the
/// claims at the other nodes are renewed.
pub(super) async fn renew(
    store: &ForeignRedisStore,
    session: &SessionId,
    live: &[Live],
) -> Result<Renewed> {
    let ids = live.iter().map(|live| &live.key.id);
    let ttl = store.0.session_claims.renew(session, ids, store.0.clock.now());
    let mut claims = vec![Renewal::Unknown; live.len()];
    let (mut requests, mut failed) = (Vec::new(), None);
    let answers = each(store, live, ttl.map_or(TIME_LIMIT, |ttl| ttl / 4)).await;
    for (at, renewed) in answers {
        claims[at] = match renewed {
            Ok((renewal, asked)) => {
                requests.extend(asked.map(|asked| (live[at].key.id, asked)));
                renewal
            }
            Err(error) => {
                failed = Some(error.clone());
                Renewal::Failed(error)
            }
        };
    }
    let is_answered = |renewal: &Renewal| !matches!(renewal, Renewal::Failed(_));
    match failed {
        // If several claims have failed, each has a cause of its own.
        Some(error)
            if !claims.iter().any(is_answered)
                && (live.len() == 1 || error.kind() == ErrorKind::Closed) =>
        {
            Err(error)
        }
        _ => Ok(Renewed { claims, server_time: None, requests }),
    }
}

/// The position of a claim in the list, and its answer.
type Answered = (usize, Result<(Renewal, Option<Asked>)>);

/// When `within` is over, only the answers that have come count: a silent node of a cluster does
/// not hold up the answers of the others.
async fn each(store: &ForeignRedisStore, live: &[Live], within: Duration) -> Vec<Answered> {
    let layout = store.0.layout;
    let mut asked = Vec::new();
    for (at, live) in live.iter().enumerate() {
        let request = layout::renew(layout, &live.key, store.messages());
        let read = move |value: &_| layout::renew_answer(layout, live, value);
        let answer = store.ask(&store.keys(&live.key.name), request, read);
        asked.push(Box::pin(async move {
            match answer {
                Ok(answer) => (at, answer.await),
                Err(error) => (at, Err(error)),
            }
        }));
    }
    let mut answers = Vec::new();
    store.0.clock.timeout(within, all(&mut asked, &mut answers)).await;
    if answers.iter().all(|(_, answer): &Answered| answer.is_err()) {
        // Each request ends by itself, and says why it failed.
        all(&mut asked, &mut answers).await;
    }
    answers
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
