//! The lives of the readers of an `RReadWriteLock`, and the messages to its waiters.

use std::time::Duration;

use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper::store::{Amend, Amended, MAX, Renewal, Store as _, Withdrawal};
use lockkeeper_live::{Redis, redis};
use tokio::task::JoinHandle;

use crate::support::{
    Claimant, JAVA, LONG, TIME_LIMIT, messages, name, store, until_listening, within,
};

const SHORT: Duration = Duration::from_secs(2);

fn life(server: &Redis, name: &str) -> i64 {
    server.query(&["PTTL", name]).unwrap()
}

/// The next messages to the waiters of both.
async fn next(server: &Redis, name: &str, count: usize) -> JoinHandle<Vec<String>> {
    let channel = format!("redisson_rwlock:{{{name}}}");
    let (listening, connection) = (channel.clone(), server.connect().unwrap());
    let next = tokio::task::spawn_blocking(move || messages(connection, &listening, count));
    until_listening(server, &channel).await;
    next
}

/// The lock would end before the first reader, and a writer would get it.
#[tokio::test]
async fn a_reader_of_a_short_ttl_leaves_the_lock_the_life_of_a_longer_one() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonRw).await;
    let long = Claimant::new(&store, &name, LONG).await.of(1, MAX);
    let short = Claimant::new(&store, &name, SHORT).await.of(1, MAX);
    long.granted().await;
    for _ in 0..2 {
        short.granted().await;
        short.renewed().await;
        assert!(life(server, &name) > 15_000, "{}", life(server, &name));
    }
    short.release().await;
    assert!(life(server, &name) > 15_000, "{}", life(server, &name));
}

/// A reader of Redisson has a string for each entry, and the client of lockkeeper asks only for
/// that of the first one.
#[tokio::test]
async fn a_reader_that_leaves_leaves_the_life_of_a_reader_that_entered_several_times() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonRw).await;
    let strings = [1, 2].map(|entry| format!("{{{name}}}:{JAVA}:rwlock_timeout:{entry}"));
    server.run(&["HSET", &name, "mode", "read", JAVA, "2"]).unwrap();
    server.run(&["PEXPIRE", &name, "60000"]).unwrap();
    for (string, life) in strings.iter().zip(["1000", "60000"]) {
        server.run(&["SET", string, "1", "PX", life]).unwrap();
    }
    let [stays, leaves] = [SHORT, LONG].map(|ttl| Claimant::new(&store, &name, ttl));
    let (stays, leaves) = (stays.await.of(1, MAX), leaves.await.of(1, MAX));
    stays.granted().await;
    leaves.granted().await;
    leaves.release().await;
    assert!(life(server, &name) > 30_000, "{}", life(server, &name));
    let writer = Claimant::new(&store, &name, LONG).await;
    writer.busy().await;
    assert!(life(server, &name) > 30_000, "{}", life(server, &name));
}

/// The watchdog of a program that was stopped for longer than its lease keeps the lock, and not the
/// life of its reader.
#[tokio::test]
async fn a_writer_finds_a_lock_free_whose_readers_have_all_died_and_says_so() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonRw).await;
    server.run(&["HSET", &name, "mode", "read", JAVA, "1"]).unwrap();
    server.run(&["PEXPIRE", &name, "60000"]).unwrap();
    let message = next(server, &name, 1).await;
    Claimant::new(&store, &name, LONG).await.granted().await;
    assert_eq!(within(TIME_LIMIT, message).await.unwrap(), ["0"]);
}

/// `forceUnlock` of Redisson deletes the lock, and not the strings of its readers.
#[tokio::test]
async fn a_reader_whose_lock_was_deleted_has_lost_it_although_its_string_lives() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonRw).await;
    let reader = Claimant::new(&store, &name, LONG).await.of(1, MAX);
    let writer = Claimant::new(&store, &name, LONG).await;
    reader.granted().await;
    server.run(&["DEL", &name]).unwrap();
    writer.granted().await;
    assert_eq!(reader.renewed().await, Renewal::Lost(None));
    let withdrawn = store.withdraw(&reader.claim.key, None).await.unwrap();
    assert_eq!(withdrawn, Withdrawal::Absent);
    assert!(matches!(writer.renewed().await, Renewal::Held { .. }));
}

/// Redisson wakes all of its waiters at 1, since all readers may enter, and one at 0.
#[tokio::test]
async fn a_writer_that_leaves_or_reads_on_wakes_all_waiters_of_redisson() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonRw).await;
    let writer = Claimant::new(&store, &name, LONG).await;
    let next_writer = Claimant::new(&store, &name, LONG).await;
    let message = next(server, &name, 1).await;
    writer.granted().await;
    writer.release().await;
    assert_eq!(within(TIME_LIMIT, message).await.unwrap(), ["1"]);
    next_writer.granted().await;
    let both = next(server, &name, 2).await;
    let lowered = store.amend(&next_writer.claim.key, 1, &Amend::Lower(1)).await.unwrap();
    assert_eq!(lowered, Amended::Done);
    next_writer.release().await;
    assert_eq!(within(TIME_LIMIT, both).await.unwrap(), ["1", "0"]);
    let again = Claimant::new(&store, &name, LONG).await;
    let mut reader = Claimant::new(&store, &name, LONG).await.of(1, MAX);
    reader.claim.replaces = Some(again.claim.key.id);
    again.granted().await;
    let message = next(server, &name, 1).await;
    reader.granted().await;
    assert_eq!(within(TIME_LIMIT, message).await.unwrap(), ["1"], "a reader in its place");
    reader.release().await;
    let strings: Vec<String> = server.query(&["KEYS", &format!("{{{name}}}:*")]).unwrap();
    assert!(strings.is_empty(), "{strings:?}");
}

/// A writer of Redisson reads the life of the lock when a message wakes it. The first message comes
/// before the life is that of the readers that stay.
#[tokio::test]
async fn a_lock_that_is_to_end_sooner_wakes_its_waiters_again() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonRw).await;
    let stays = Claimant::new(&store, &name, SHORT * 3).await.of(1, MAX);
    let leaves = Claimant::new(&store, &name, LONG).await.of(1, MAX);
    stays.granted().await;
    leaves.granted().await;
    let both = next(server, &name, 2).await;
    let withdrawn = store.withdraw(&leaves.claim.key, None).await.unwrap();
    assert_eq!(withdrawn, Withdrawal::Removed);
    assert_eq!(within(TIME_LIMIT, both).await.unwrap(), ["0", "0"]);
    assert!(life(server, &name) <= 6000, "{}", life(server, &name));
}
