//! `RPermitExpirableSemaphore`, beside the commands of Redisson.

use std::time::Duration;

use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper::store::{Amend, Amended, Renewal, Store as _};
use lockkeeper::{ErrorKind, Keeper};
use lockkeeper_live::redis;

use crate::support::{Claimant, LONG, TIME_LIMIT, keeper, name, store, within};

#[tokio::test]
async fn permits_are_shared_and_no_more_than_there_are() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonSemaphore).await;
    let permits = format!("{{{name}}}:timeout");
    // Redisson has set three permits, and holds one for a minute.
    let ends = (server.time().unwrap() + Duration::from_secs(60)).as_millis().to_string();
    server.run(&["SET", &name, "2"]).unwrap();
    server.run(&["ZADD", &permits, &ends, "0123456789abcdef"]).unwrap();
    let two = Claimant::new(&store, &name, LONG).await.of(2, 3);
    let one = Claimant::new(&store, &name, LONG).await.of(1, 3);
    two.granted().await;
    assert_eq!(server.query::<u32>(&["ZCARD", &permits]).unwrap(), 3);
    assert_eq!(server.query::<u32>(&["GET", &name]).unwrap(), 0);
    one.busy().await;
    assert!(matches!(two.renewed().await, Renewal::Held { .. }));
    let line = store.line(&name.parse().unwrap()).await.unwrap();
    let mut weights: Vec<_> = line.entries.iter().map(|entry| entry.weight).collect();
    weights.sort_unstable();
    assert_eq!(weights, [1, 2]);
    let lowered = store.amend(&two.claim.key, 1, &Amend::Lower(1)).await.unwrap();
    assert_eq!(lowered, Amended::Done);
    one.granted().await;
    two.release().await;
    one.release().await;
    assert_eq!(server.query::<u32>(&["GET", &name]).unwrap(), 2);
    assert_eq!(server.query::<u32>(&["ZCARD", &permits]).unwrap(), 1, "theirs stays");
}

/// The first client sets the number, as `trySetPermits` does.
#[tokio::test]
async fn a_semaphore_without_permits_gets_as_many_as_the_first_claim_names() {
    let (server, name) = (redis().unwrap(), name());
    let keeper: Keeper = keeper(server, Layout::RedissonSemaphore).await;
    let semaphore = keeper.semaphore(&*name, 3).unwrap();
    let guard = semaphore.acquire_many(2).await.unwrap();
    assert_eq!(server.query::<u32>(&["GET", &name]).unwrap(), 1);
    let error = keeper.mutex(&*name).unwrap().try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("semaphores only, no mutexes"), "{error}");
    guard.release().await.unwrap();
    assert_eq!(server.query::<u32>(&["GET", &name]).unwrap(), 3);
}

#[tokio::test]
async fn permits_of_a_dead_holder_are_free_again() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonSemaphore).await;
    let dead = Claimant::new(&store, &name, Duration::from_millis(300)).await.of(2, 2);
    let next = Claimant::new(&store, &name, LONG).await.of(1, 2);
    dead.granted().await;
    next.busy().await;
    let free = async {
        while !matches!(next.send().await, Ok(lockkeeper::store::Verdict::Granted { .. })) {
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT, free).await;
    assert_eq!(server.query::<u32>(&["GET", &name]).unwrap(), 1);
    assert_eq!(dead.renewed().await, Renewal::Lost(None));
    next.release().await;
    assert_eq!(server.query::<u32>(&["GET", &name]).unwrap(), 2);
}

/// The smaller number counts for the claims of lockkeeper.
#[tokio::test]
async fn a_claim_that_names_fewer_permits_finds_its_number_kept() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonSemaphore).await;
    let wide = Claimant::new(&store, &name, LONG).await.of(2, 5);
    let narrow = Claimant::new(&store, &name, LONG).await.of(1, 2);
    wide.granted().await;
    narrow.busy().await;
    wide.release().await;
    narrow.granted().await;
    wide.busy().await;
    let another = Claimant::new(&store, &name, LONG).await.of(1, 5);
    another.granted().await;
}
