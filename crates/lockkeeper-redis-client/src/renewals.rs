//! Renewals, and other requests that go out together.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use lockkeeper_core::store::{Renewal, Renewed};

use crate::time::Clock;
use crate::{ErrorKind, Result};

/// How long all nodes of a cluster may take to answer a renewal of claims that this client did not
/// make. For its own claims it is a quarter of their ttl, which leaves time for another renewal.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// The positions of some claims in a list, and the answer about these claims, or why there is
/// none.
pub type Renewals = (Vec<usize>, Result<Renewed>);

/// The answer about a list of so many claims, from the answers to these requests. `ttl` is the
/// shortest of the claims, if it is known. If a node does not answer, the renewals of its claims
/// have failed, and the claims at the other nodes are renewed.
///
/// # Errors
/// The error of the requests, if none has another answer.
pub async fn renewed<F: Future<Output = Renewals>>(
    clock: &Clock,
    claims: usize,
    ttl: Option<Duration>,
    mut asked: Vec<Pin<Box<F>>>,
) -> Result<Renewed> {
    let mut answers = Vec::new();
    // When the time is over, only the answers that have come count: a silent node of a cluster
    // does not hold up the answers of the others.
    let within = ttl.map_or(TIME_LIMIT, |ttl| ttl / 4);
    clock.timeout(within, all(&mut asked, &mut answers)).await;
    if !is_any(&answers) {
        // Each request ends by itself, and says why it failed.
        all(&mut asked, &mut answers).await;
    }
    merged(claims, answers)
}

/// Whether any claim has another result than a failure.
fn is_any(answers: &[Renewals]) -> bool {
    let has_failed = |renewal: &Renewal| matches!(renewal, Renewal::Failed(_));
    answers.iter().any(|(_, answer)| {
        answer.as_ref().is_ok_and(|renewed| !renewed.claims.iter().all(has_failed))
    })
}

fn merged(claims: usize, answers: Vec<Renewals>) -> Result<Renewed> {
    let mut all = Renewed { claims: vec![Renewal::Unknown; claims], ..Renewed::default() };
    let (mut failed, mut answered) = (None, false);
    for (at, renewed) in answers {
        match renewed {
            Ok(renewed) => {
                answered = true;
                all.server_time = renewed.server_time;
                all.requests.extend(renewed.requests);
                for (at, renewal) in at.into_iter().zip(renewed.claims) {
                    all.claims[at] = renewal;
                }
            }
            Err(error) => {
                at.into_iter().for_each(|at| all.claims[at] = Renewal::Failed(error.clone()));
                failed = Some(error);
            }
        }
    }
    match failed {
        // If several claims have failed, each has a cause of its own.
        Some(error) if !answered && (claims == 1 || error.kind() == ErrorKind::Closed) => {
            Err(error)
        }
        _ => Ok(all),
    }
}

/// Waits for all futures. Those that are ready leave the list.
pub async fn all<F: Future>(asked: &mut Vec<Pin<Box<F>>>, answers: &mut Vec<F::Output>) {
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
