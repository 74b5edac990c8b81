//! `RPermitExpirableSemaphore`, beside the commands of Redisson.

use std::time::Duration;

use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper::store::{Amend, Amended, Renewal, Store as _, Withdrawal};
use lockkeeper::{ErrorKind, Keeper};
use lockkeeper_live::redis;

use crate::support::{
    Claimant, LONG, TIME_LIMIT, first_message, keeper, name, store, until_listening, within,
};

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

/// Redisson has set more permits than some claims name.
#[tokio::test]
async fn claims_that_name_several_numbers_are_held_to_the_smallest_of_those_that_live() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonSemaphore).await;
    let ten = Claimant::new(&store, &name, LONG).await.of(1, 10);
    let two = Claimant::new(&store, &name, LONG).await.of(1, 2);
    let late = Claimant::new(&store, &name, LONG).await.of(1, 10);
    server.run(&["SET", &name, "10"]).unwrap();
    ten.granted().await;
    two.granted().await;
    late.busy().await;
    two.release().await;
    late.granted().await;
    late.release().await;
    ten.release().await;
    // Redisson adds permits while they are held.
    let three = Claimant::new(&store, &name, LONG).await.of(3, 3);
    server.run(&["DEL", &name, &format!("lkf:{{{name}}}")]).unwrap();
    server.run(&["SET", &name, "3"]).unwrap();
    three.granted().await;
    server.run(&["INCRBY", &name, "7"]).unwrap();
    late.busy().await;
    three.release().await;
    late.granted().await;
}

#[tokio::test]
async fn a_claim_of_fewer_permits_in_the_place_of_another_one_says_how_many_are_free() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonSemaphore).await;
    let old = Claimant::new(&store, &name, LONG).await.of(3, 3);
    let mut next = Claimant::new(&store, &name, LONG).await.of(1, 3);
    next.claim.replaces = Some(old.claim.key.id);
    old.granted().await;
    let channel = format!("redisson_sc:{{{name}}}");
    let (listening, connection) = (channel.clone(), server.connect().unwrap());
    let message = tokio::task::spawn_blocking(move || first_message(connection, &listening));
    until_listening(server, &channel).await;
    next.granted().await;
    assert_eq!(within(TIME_LIMIT, message).await.unwrap(), "2");
}

/// Nobody has given back the permits of a claim that has died, until its client withdraws it.
#[tokio::test]
async fn the_withdrawal_of_permits_whose_time_is_over_is_published() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonSemaphore).await;
    let dead = Claimant::new(&store, &name, Duration::from_millis(100)).await.of(2, 2);
    dead.granted().await;
    let died = async {
        while !store.line(&name.parse().unwrap()).await.unwrap().entries.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT, died).await;
    let channel = format!("redisson_sc:{{{name}}}");
    let (listening, connection) = (channel.clone(), server.connect().unwrap());
    let message = tokio::task::spawn_blocking(move || first_message(connection, &listening));
    until_listening(server, &channel).await;
    let withdrawn = store.withdraw(&dead.claim.key, None).await.unwrap();
    assert_eq!(withdrawn, Withdrawal::Absent);
    assert_eq!(within(TIME_LIMIT, message).await.unwrap(), "2");
}

/// A script does something for each permit, and the server does nothing else meanwhile.
#[tokio::test]
async fn a_claim_of_too_many_permits_is_refused_before_it_is_sent() {
    let (server, name) = (redis().unwrap(), name());
    let keeper: Keeper = keeper(server, Layout::RedissonSemaphore).await;
    let semaphore = keeper.semaphore(&*name, 200_000).unwrap();
    let error = semaphore.acquire_many(100_000).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("1000"), "{error}");
    assert_eq!(server.query::<Option<u32>>(&["GET", &name]).unwrap(), None);
    semaphore.acquire_many(1000).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_number_that_lockkeeper_has_set_follows_the_next_claim_once_all_is_free() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonSemaphore).await;
    let small = Claimant::new(&store, &name, LONG).await.of(1, 3);
    let large = Claimant::new(&store, &name, LONG).await.of(5, 10);
    small.granted().await;
    large.busy().await;
    assert_eq!(server.query::<i64>(&["GET", &name]).unwrap(), 2, "three, of which one is held");
    small.release().await;
    large.granted().await;
    assert_eq!(server.query::<i64>(&["GET", &name]).unwrap(), 5);
    large.release().await;
    // Redisson adds permits: from now on the number is that of Redisson.
    assert_eq!(server.query::<i64>(&["INCRBY", &name, "2"]).unwrap(), 12);
    small.granted().await;
    assert_eq!(server.query::<i64>(&["GET", &name]).unwrap(), 11);
}

#[tokio::test]
async fn a_claim_of_more_permits_than_redisson_has_set_is_an_error() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonSemaphore).await;
    server.run(&["SET", &name, "3"]).unwrap();
    let one = Claimant::new(&store, &name, LONG).await.of(1, 10);
    let five = Claimant::new(&store, &name, LONG).await.of(5, 10);
    one.granted().await;
    let error = five.send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
    assert!(error.message().contains("has 3 permits"), "{error}");
    let three = Claimant::new(&store, &name, LONG).await.of(3, 10);
    three.busy().await;
    one.release().await;
    three.granted().await;
}

/// Redisson may give the number a ttl, and set it again.
#[tokio::test]
async fn a_permit_of_a_number_that_has_ended_is_given_back_to_no_other_number() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonSemaphore).await;
    let permits = format!("{{{name}}}:timeout");
    let claim = Claimant::new(&store, &name, LONG).await.of(1, 1);
    server.run(&["SET", &name, "1", "PX", "300"]).unwrap();
    claim.granted().await;
    assert!(server.query::<i64>(&["PTTL", &permits]).unwrap() > 0, "as Redisson does");
    let ended = async {
        while server.query::<bool>(&["EXISTS", &name]).unwrap() {
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT, ended).await;
    assert_eq!(claim.renewed().await, Renewal::Lost(None));
    server.run(&["SET", &name, "1"]).unwrap();
    assert_eq!(server.query::<i64>(&["DECR", &name]).unwrap(), 0);
    assert_eq!(store.withdraw(&claim.claim.key, None).await.unwrap(), Withdrawal::Absent);
    assert_eq!(server.query::<i64>(&["GET", &name]).unwrap(), 0);
}

#[tokio::test]
async fn a_number_that_is_gone_takes_its_claims_with_it_and_the_next_one_counts_them() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonSemaphore).await;
    let old = Claimant::new(&store, &name, LONG).await.of(2, 3);
    let gone = Claimant::new(&store, &name, LONG).await.of(1, 3);
    old.granted().await;
    gone.granted().await;
    server.run(&["DEL", &name]).unwrap();
    let line = store.line(&name.parse().unwrap()).await.unwrap();
    assert!(line.entries.is_empty(), "{line:?}");
    assert_eq!(gone.renewed().await, Renewal::Lost(None));
    assert_eq!(store.withdraw(&gone.claim.key, None).await.unwrap(), Withdrawal::Absent);
    assert!(!server.query::<bool>(&["EXISTS", &name]).unwrap(), "a permit makes no number");
    let next = Claimant::new(&store, &name, LONG).await.of(1, 3);
    next.granted().await;
    assert_eq!(server.query::<i64>(&["GET", &name]).unwrap(), 0, "two are in the set still");
    old.release().await;
    assert_eq!(server.query::<i64>(&["GET", &name]).unwrap(), 2);
}

#[tokio::test]
async fn a_claim_that_cannot_take_the_place_of_another_one_leaves_it() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonSemaphore).await;
    let old = Claimant::new(&store, &name, LONG).await.of(1, 3);
    let mut large = Claimant::new(&store, &name, LONG).await.of(5, 10);
    let mut next = Claimant::new(&store, &name, LONG).await.of(2, 3);
    large.claim.replaces = Some(old.claim.key.id);
    next.claim.replaces = Some(old.claim.key.id);
    server.run(&["SET", &name, "3"]).unwrap();
    old.granted().await;
    assert_eq!(large.send().await.unwrap_err().kind(), ErrorKind::Mismatch);
    assert!(matches!(old.renewed().await, Renewal::Held { .. }));
    next.granted().await;
    assert_eq!(old.renewed().await, Renewal::Lost(None));
    assert_eq!(server.query::<u32>(&["GET", &name]).unwrap(), 1);
}

/// Redisson may have set another number than the claims of lockkeeper name, and take permits away.
#[tokio::test]
async fn the_number_of_permits_that_is_shown_is_the_number_in_redis() {
    let (server, name) = (redis().unwrap(), name());
    let keeper: Keeper = keeper(server, Layout::RedissonSemaphore).await;
    let ends = (server.time().unwrap() + Duration::from_secs(60)).as_millis().to_string();
    server.run(&["SET", &name, "4"]).unwrap();
    server.run(&["ZADD", &format!("{{{name}}}:timeout"), &ends, "0123456789abcdef"]).unwrap();
    let shown = async || {
        let info = keeper.inspect(&*name).await.unwrap();
        let listed = keeper.admin().unwrap().list(&name, 10).await.unwrap().remove(0);
        assert_eq!(info.capacity, listed.capacity);
        for holder in &info.holders {
            assert_eq!(holder.capacity, info.capacity);
        }
        (info.holders.len(), info.capacity)
    };
    assert_eq!(shown().await, (1, Some(5)));
    let guard = keeper.semaphore(&*name, 3).unwrap().acquire_many(2).await.unwrap();
    assert_eq!(shown().await, (2, Some(5)));
    server.run(&["DECRBY", &name, "2"]).unwrap();
    assert_eq!(shown().await, (2, Some(3)));
    guard.release().await.unwrap();
    assert_eq!(shown().await, (1, Some(3)));
}

/// A waiter of Redisson that finds no number, or fewer permits than it wants, sleeps until a
/// message comes.
#[tokio::test]
async fn a_number_that_lockkeeper_sets_is_published() {
    let server = redis().unwrap();
    let store = store(server, Layout::RedissonSemaphore).await;
    for (before, capacity) in [(None, 3), (Some(3), 5)] {
        let name = name();
        if let Some(before) = before {
            let claim = Claimant::new(&store, &name, LONG).await.of(1, before);
            claim.granted().await;
            claim.release().await;
        }
        let channel = format!("redisson_sc:{{{name}}}");
        let (listening, connection) = (channel.clone(), server.connect().unwrap());
        let message = tokio::task::spawn_blocking(move || first_message(connection, &listening));
        until_listening(server, &channel).await;
        Claimant::new(&store, &name, LONG).await.of(1, capacity).granted().await;
        assert_eq!(within(TIME_LIMIT, message).await.unwrap(), capacity.to_string());
    }
}

/// `setPermits` of Redisson may leave fewer permits than are held. Redisson fails at a message of
/// fewer than none.
#[tokio::test]
async fn a_release_while_too_many_hold_permits_says_that_none_is_free() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonSemaphore).await;
    let channel = format!("redisson_sc:{{{name}}}");
    let two = Claimant::new(&store, &name, LONG).await.of(2, 3);
    let one = Claimant::new(&store, &name, LONG).await.of(1, 3);
    two.granted().await;
    one.granted().await;
    assert_eq!(server.query::<i64>(&["DECRBY", &name, "2"]).unwrap(), -2, "setPermits(1)");
    let (listening, connection) = (channel.clone(), server.connect().unwrap());
    let first = tokio::task::spawn_blocking(move || first_message(connection, &listening));
    until_listening(server, &channel).await;
    one.release().await;
    assert_eq!(within(TIME_LIMIT, first).await.unwrap(), "0");
    assert_eq!(server.query::<i64>(&["GET", &name]).unwrap(), -1);
}

/// `tryAcquire` of Redisson, which gives back the permits that have ended by its own clock.
const ACQUIRE: &str = "local expiredIds = redis.call('zrangebyscore', KEYS[2], 0, ARGV[3], 'limit', 0, ARGV[1]); \
    if #expiredIds > 0 then redis.call('zrem', KEYS[2], unpack(expiredIds)); \
    local value = redis.call('incrby', KEYS[1], #expiredIds); \
    if tonumber(value) > 0 then redis.call('publish', KEYS[3], value); end; end; \
    local value = redis.call('get', KEYS[1]); \
    if (value ~= false and tonumber(value) >= tonumber(ARGV[1])) then redis.call('decrby', KEYS[1], ARGV[1]); \
    redis.call('zadd', KEYS[2], ARGV[2], ARGV[4]); return 'OK'; end; return nil;";

/// Nothing keeps such a program out. The holder learns of its loss, and gives back only what it
/// has.
#[tokio::test]
async fn a_program_of_redisson_whose_clock_is_ahead_ends_permits_before_their_time() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonSemaphore).await;
    let held = Claimant::new(&store, &name, LONG).await.of(2, 2);
    held.granted().await;
    let (permits, channel) = (format!("{{{name}}}:timeout"), format!("redisson_sc:{{{name}}}"));
    let now = server.time().unwrap().as_millis();
    let (ahead, ends) = ((now + 60_000).to_string(), (now + 90_000).to_string());
    let keys = ["EVAL", ACQUIRE, "3", &name, &permits, &channel];
    let theirs = [&keys[..], &["1", &ends, &ahead, "0123456789abcdef"]].concat();
    assert_eq!(server.query::<Option<String>>(&theirs).unwrap().as_deref(), Some("OK"));
    assert_eq!(held.renewed().await, Renewal::Lost(None));
    assert_eq!(store.withdraw(&held.claim.key, None).await.unwrap(), Withdrawal::Absent);
    assert_eq!(server.query::<i64>(&["GET", &name]).unwrap(), 1);
    assert_eq!(server.query::<u32>(&["ZCARD", &permits]).unwrap(), 1, "theirs");
}
