//! Renewals: a request for each claim, all sent together.

use lockkeeper_redis_client::renewals::renewed;

use super::ForeignRedisStore;
use super::layout;
use crate::Result;
use crate::store::{Asked, Live, Renewal, Renewed, SessionId};

pub(super) async fn renew(
    store: &ForeignRedisStore,
    session: &SessionId,
    live: &[Live],
) -> Result<Renewed> {
    let (layout, clock) = (store.0.layout, &store.0.clock);
    let ids = live.iter().map(|live| &live.key.id);
    let ttl = store.0.session_claims.renew(session, ids, clock.now());
    let mut asked = Vec::new();
    for (at, live) in live.iter().enumerate() {
        let request = layout::renew(layout, &live.key, store.messages());
        let read = move |value: &_| layout::renew_answer(layout, live, value);
        let answer = store.ask(&store.keys(&live.key.name), request, read);
        asked.push(Box::pin(async move {
            let answer = async { answer?.await }.await;
            (vec![at], answer.map(|answer| of_one(live, answer)))
        }));
    }
    renewed(clock, live.len(), ttl, asked).await
}

fn of_one(live: &Live, (renewal, asked): (Renewal, Option<Asked>)) -> Renewed {
    let requests = asked.map(|asked| (live.key.id, asked)).into_iter().collect();
    Renewed { claims: vec![renewal], server_time: None, requests }
}
