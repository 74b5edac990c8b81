//! The locks of these layouts have no queue. Who waits for one gets it all the same.

use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper::store::Store as _;
use lockkeeper::{FencingToken, Keeper};
use lockkeeper_live::redis;

use crate::support::{
    Claimant, LONG, TIME_LIMIT, first_message, keeper, name, store, until_listening, within,
};

const ROUNDS: usize = 20;

/// The tokens of one client that takes the lock again and again.
async fn taken(keeper: &Keeper, name: &str) -> Vec<FencingToken> {
    let (mutex, mut tokens) = (keeper.mutex(name).unwrap(), Vec::new());
    for _ in 0..ROUNDS {
        let guard = mutex.lock().await.unwrap();
        tokens.push(guard.token());
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        guard.release().await.unwrap();
    }
    tokens
}

/// Each client claims the lock again as soon as it has released it, and the other one waits. The
/// other one comes first, or at least often.
#[tokio::test]
async fn a_client_that_takes_its_lock_again_leaves_others_their_turn() {
    for layout in [Layout::Plain, Layout::Redisson, Layout::RedissonFenced, Layout::RedissonRw] {
        let (server, name) = (redis().unwrap(), name());
        let (one, two) = (keeper(server, layout).await, keeper(server, layout).await);
        let both = async { tokio::join!(taken(&one, &name), taken(&two, &name)) };
        let (first, second) = within(TIME_LIMIT, both).await;
        let mut order: Vec<_> = first.iter().map(|token| (*token, 1)).collect();
        order.extend(second.iter().map(|token| (*token, 2)));
        order.sort_unstable();
        let turns = order.windows(2).filter(|two| two[0].1 != two[1].1).count();
        // One client after the other would be one turn.
        assert!(turns > ROUNDS, "{layout:?}: {turns} turns in {} grants", order.len());
    }
}

/// The claim has its place in the order before its withdrawal, although it is sent later. So it has
/// before the close of its session.
#[tokio::test]
async fn a_claim_that_leaves_others_their_turn_gets_nothing_after_its_withdrawal() {
    let server = redis().unwrap();
    let layouts =
        [(Layout::Redisson, "redisson_lock__channel"), (Layout::RedissonRw, "redisson_rwlock")];
    for ((layout, prefix), closes) in layouts.into_iter().flat_map(|of| [(of, false), (of, true)]) {
        let (name, store) = (name(), store(server, layout).await);
        let held = Claimant::new(&store, &name, LONG).await;
        let next = Claimant::new(&store, &name, LONG).await;
        held.granted().await;
        let channel = format!("{prefix}:{{{name}}}");
        let (listening, connection) = (channel.clone(), server.connect().unwrap());
        let message = tokio::task::spawn_blocking(move || first_message(connection, &listening));
        until_listening(server, &channel).await;
        held.release().await;
        let ends = async {
            match closes {
                true => store.close(&next.claim.key.session, &[]).await,
                false => store.withdraw(&next.claim.key, None).await.map(drop),
            }
        };
        let (claimed, ended) = tokio::join!(next.send(), ends);
        let line = store.line(&name.parse().unwrap()).await.unwrap();
        assert!(line.entries.is_empty(), "{layout:?}, {closes}: {claimed:?}, {ended:?}");
        within(TIME_LIMIT, message).await.unwrap();
    }
}
