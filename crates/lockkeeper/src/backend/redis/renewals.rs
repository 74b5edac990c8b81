//! Renewals: one request for each place where claims stand, and where a slot is on its way one for each claim.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use super::layout::{self, Answered, Keys};
use super::route::{OPEN, Tells};
use super::{RedisStore, fault};
use crate::Result;
use crate::store::{Live, Renewal};

/// What was answered about some of the claims, with where they stand in the list.
pub(super) type Told = Result<(Vec<usize>, Answered<Vec<Renewal>>)>;

/// Renews those whose keys are in one place in one request. When `patience` is over, what has been answered is what is
/// known: a silent node of a cluster does not keep back what the others have said.
pub(super) async fn each(store: &RedisStore, live: &[Live], patience: Duration) -> Vec<Told> {
    let (servers, clock) = (&store.0.servers, &store.0.clock);
    let mut places: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    let keys: Vec<_> = live.iter().map(|live| Keys::of(&live.key.name)).collect();
    for (at, keys) in keys.iter().enumerate() {
        places.entry(servers.place(keys)).or_default().push(at);
    }
    let mut asked = Vec::new();
    for (_, at) in places {
        let of: Vec<_> = at.iter().map(|at| live[*at].clone()).collect();
        let answer = servers.send_or(&keys[at[0]], layout::renew(&of), Tells);
        asked.push(Box::pin(async move {
            match answer.await {
                Err(error) if error.is(OPEN) => Err(at),
                answer => {
                    Ok(answer.map_err(fault::of).and_then(|answer| Ok((at, layout::renew_answer(&of, &answer)?))))
                }
            }
        }));
    }
    let (mut answers, mut silent, mut open) = (Vec::new(), Vec::new(), Vec::new());
    let until = clock.now() + patience;
    for mut place in asked {
        match clock.timeout(until.saturating_since(clock.now()), &mut place).await {
            Some(Ok(answer)) => answers.push(answer),
            Some(Err(at)) => open.extend(at),
            None => silent.push(place),
        }
    }
    let answered = answers.iter().any(Result::is_ok);
    answers.extend(one_by_one(store, live, open, patience, answered).await);
    if !answers.iter().any(Result::is_ok) {
        for place in silent {
            match place.await {
                Ok(answer) => answers.push(answer),
                Err(open) => {
                    let answered = answers.iter().any(Result::is_ok);
                    answers.extend(one_by_one(store, live, open, patience, answered).await);
                }
            }
        }
    }
    answers
}

/// Renews claims whose keys may be in two places, each by itself: one that has to wait for its keys holds up no other, nor
/// what was `answered` for others elsewhere.
async fn one_by_one(
    store: &RedisStore,
    live: &[Live],
    which: Vec<usize>,
    patience: Duration,
    answered: bool,
) -> Vec<Told> {
    let asked = which.into_iter().map(|at| {
        let one = &live[at];
        let (keys, request) = (Keys::of(&one.key.name), layout::renew(std::slice::from_ref(one)));
        let answer = store.0.servers.send_or(&keys, request, |nth: usize| layout::renew_open(one, nth));
        async move {
            let answer = answer.await.map_err(fault::of)?;
            Ok((vec![at], layout::renew_answer(std::slice::from_ref(one), &answer)?))
        }
    });
    let mut asked: Vec<Pin<Box<_>>> = asked.map(Box::pin).collect();
    let mut answers: Vec<Told> = Vec::new();
    store.0.clock.timeout(patience, all(&mut asked, &mut answers)).await;
    if !answered && !answers.iter().any(Result::is_ok) {
        // Each comes to an end by itself, and says why nothing came of it.
        all(&mut asked, &mut answers).await;
    }
    answers
}

/// Waits for all of them; those that have answered leave the list.
async fn all<F: Future>(asked: &mut Vec<Pin<Box<F>>>, answers: &mut Vec<F::Output>) {
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
