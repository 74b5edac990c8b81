//! The locks of these layouts have no queue. Who waits for one gets it all the same.

use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper::{FencingToken, Keeper};
use lockkeeper_live::redis;

use crate::support::{TIME_LIMIT, keeper, name, within};

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
