//! A line whose values have so many bytes that the server would end a connection for them.

use std::sync::Arc;

use lockkeeper::Keeper;
use lockkeeper::store::{Meta, Verdict};
use lockkeeper_live::Redis;

use crate::support::{Claimant, LONG, TIME_LIMIT, hasty_store, name, renewed};

const CANDIDATES: usize = 40;
const VALUE: usize = 64 << 10;

/// A look at this line costs the subscribed connections nothing. They also renew locks.
#[tokio::test]
async fn a_look_at_a_long_line_breaks_no_connection_that_renews() {
    let server = Redis::start().unwrap();
    // A server ends a connection with subscriptions that is behind by more than this; the default
    // is 32 MB.
    server.set("client-output-buffer-limit", "pubsub 1mb 1mb 0").unwrap();
    // No connection is made again because an answer comes late.
    let patient = hasty_store(server.address(), TIME_LIMIT).await;
    let (name, holder) =
        (name(), Keeper::builder(patient.clone()).ttl(LONG).connect().await.unwrap());
    let guard = holder.mutex("another").unwrap().lock().await.unwrap();
    for number in 0..CANDIDATES {
        let mut candidate = Claimant::new(&patient, &name, LONG).await;
        candidate.claim.wait_ttl = LONG;
        candidate.claim.meta =
            Meta { value: Some(Arc::from(vec![b'v'; VALUE])), ..Meta::default() };
        let verdict = candidate.send().await.unwrap();
        assert!((number == 0) == matches!(verdict, Verdict::Granted { .. }), "{verdict:?}");
    }
    let subscribed = || {
        let clients: String = server.query(&["CLIENT", "LIST", "TYPE", "pubsub"]).unwrap();
        let id = |client: &str| client.split(' ').next().unwrap().to_owned();
        clients.lines().map(id).collect::<Vec<_>>()
    };
    let before = subscribed();
    let line = holder.inspect(&*name).await.unwrap();
    assert_eq!((line.holders.len(), line.waiters.len()), (1, CANDIDATES - 1));
    let listed = holder.admin().unwrap().list(&name, 10).await.unwrap();
    assert_eq!(listed.iter().map(|lock| lock.waiters.len()).collect::<Vec<_>>(), [CANDIDATES - 1]);
    let leader = holder.election(&*name).unwrap().leader().await.unwrap().unwrap();
    assert_eq!(leader.value.len(), VALUE);
    assert_eq!(subscribed(), before, "a connection was made again");
    renewed(&guard).await;
}
