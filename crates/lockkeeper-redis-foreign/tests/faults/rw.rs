//! `RReadWriteLock`, beside the scripts of Redisson.

use std::time::Duration;

use lockkeeper::backend::redis_foreign::{ForeignRedisStore, Layout};
use lockkeeper::store::{
    Admin as _, Amend, Amended, Evict, Evicted, Interest, MAX, Meta, Renewal, SessionId,
    SessionSpec, Store as _, Target, Verdict, Wake, Withdrawal,
};
use lockkeeper::{ErrorKind, LockName};
use lockkeeper_live::{Redis, redis};

use crate::support::{
    Claimant, JAVA, LONG, TIME_LIMIT, first_message, name, store, until_listening, within,
};

/// `lock` of a read lock. Answers nothing, or how long the lock is still held in ms.
const READ: &str = "local mode = redis.call('hget', KEYS[1], 'mode'); \
    if (mode == false) then redis.call('hset', KEYS[1], 'mode', 'read'); redis.call('hset', KEYS[1], ARGV[2], 1); \
    redis.call('set', KEYS[2] .. ':1', 1); redis.call('pexpire', KEYS[2] .. ':1', ARGV[1]); \
    redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; \
    if (mode == 'read') or (mode == 'write' and redis.call('hexists', KEYS[1], ARGV[3]) == 1) then \
    local ind = redis.call('hincrby', KEYS[1], ARGV[2], 1); local key = KEYS[2] .. ':' .. ind; \
    redis.call('set', key, 1); redis.call('pexpire', key, ARGV[1]); local remainTime = redis.call('pttl', KEYS[1]); \
    redis.call('pexpire', KEYS[1], math.max(remainTime, ARGV[1])); return nil; end; \
    return redis.call('pttl', KEYS[1]);";
/// `unlock` of a read lock, without its latch.
const UNREAD: &str = "local lockExists = redis.call('hexists', KEYS[1], ARGV[2]); if (lockExists == 0) then return nil; end; \
    local counter = redis.call('hincrby', KEYS[1], ARGV[2], -1); \
    if (counter == 0) then redis.call('hdel', KEYS[1], ARGV[2]); end; redis.call('del', KEYS[3] .. ':' .. (counter+1)); \
    if (redis.call('hlen', KEYS[1]) > 1) then local maxRemainTime = -3; local keys = redis.call('hkeys', KEYS[1]); \
    for n, key in ipairs(keys) do counter = tonumber(redis.call('hget', KEYS[1], key)); \
    if type(counter) == 'number' then for i=counter, 1, -1 do \
    local remainTime = redis.call('pttl', KEYS[4] .. ':' .. key .. ':rwlock_timeout:' .. i); \
    maxRemainTime = math.max(remainTime, maxRemainTime); end; end; end; \
    if maxRemainTime > 0 then redis.call('pexpire', KEYS[1], maxRemainTime); return 0; end; \
    if redis.call('hget', KEYS[1], 'mode') == 'write' then return 0; end; end; \
    redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); return 1;";

fn redisson_reads(server: &Redis, name: &str) -> Option<i64> {
    let timeout = format!("{{{name}}}:{JAVA}:rwlock_timeout");
    let writer = format!("{JAVA}:write");
    server.query(&["EVAL", READ, "2", name, &timeout, "30000", JAVA, &writer]).unwrap()
}

fn redisson_unreads(server: &Redis, name: &str) -> Option<i64> {
    let channel = format!("redisson_rwlock:{{{name}}}");
    let (timeout, prefix) = (format!("{{{name}}}:{JAVA}:rwlock_timeout"), format!("{{{name}}}"));
    server.query(&["EVAL", UNREAD, "4", name, &channel, &timeout, &prefix, "0", JAVA]).unwrap()
}

/// Without the keys of its life, the release of a reader of Redisson deletes the lock below ours.
#[tokio::test]
async fn readers_of_both_share_and_a_release_of_one_leaves_the_other() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonRw).await;
    let reader = Claimant::new(&store, &name, LONG).await.of(1, MAX);
    let writer = Claimant::new(&store, &name, LONG).await;
    reader.granted().await;
    assert_eq!(redisson_reads(server, &name), None, "readers share");
    let line = store.line(&name.parse().unwrap()).await.unwrap();
    assert_eq!(line.entries.len(), 2, "{line:?}");
    assert_eq!(redisson_unreads(server, &name), Some(0));
    assert!(matches!(reader.renewed().await, Renewal::Held { .. }), "ours is still there");
    writer.busy().await;
    assert_eq!(redisson_reads(server, &name), None);
    reader.release().await;
    writer.busy().await;
    assert_eq!(redisson_unreads(server, &name), Some(1));
    writer.granted().await;
    assert!(redisson_reads(server, &name).is_some(), "a writer is alone");
    writer.release().await;
    assert_eq!(redisson_reads(server, &name), None);
    redisson_unreads(server, &name);
}

#[tokio::test]
async fn a_reader_that_has_died_keeps_no_writer_out_while_others_come_and_go() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonRw).await;
    let short = Duration::from_millis(300);
    let dead = Claimant::new(&store, &name, short).await.of(1, MAX);
    let live = Claimant::new(&store, &name, LONG).await.of(1, MAX);
    let writer = Claimant::new(&store, &name, LONG).await;
    dead.granted().await;
    live.granted().await;
    let died = async {
        while store.line(&name.parse().unwrap()).await.unwrap().entries.len() == 2 {
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT, died).await;
    writer.busy().await;
    live.release().await;
    writer.granted().await;
    assert_eq!(dead.renewed().await, Renewal::Lost(None));
}

/// Redisson takes such a hash for a free lock.
#[tokio::test]
async fn a_hash_of_another_lock_is_refused_by_name_and_stays() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonRw).await;
    server.run(&["HSET", &name, JAVA, "1"]).unwrap();
    for weight in [1, MAX] {
        let claim = Claimant::new(&store, &name, LONG).await.of(weight, MAX);
        let error = claim.send().await.unwrap_err();
        assert!(error.to_string().contains("without a mode, such as an RLock"), "{error}");
    }
    let error = store.line(&name.parse().unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("without a mode, such as an RLock"), "{error}");
    assert!(server.query::<bool>(&["HEXISTS", &name, JAVA]).unwrap());
}

/// The watchdog of Redisson sets the life of the whole lock, and would end ours before its time.
#[tokio::test]
async fn a_reader_lives_no_longer_than_the_watchdog_of_redisson_lets_it() {
    let (server, name) = (redis().unwrap(), name());
    let minute = Duration::from_secs(60);
    let watchful = store(server, Layout::RedissonRw).await;
    let watchdog = "; or watchdog=, if each Redisson has a longer lockWatchdogTimeout";
    for (ttl, lock_delay, remedy) in [
        (minute, Duration::ZERO, "100ms to 30s"),
        (LONG, Duration::from_secs(1), "a shorter ttl or lock-delay, at most 30s together"),
    ] {
        let spec = SessionSpec::new(ttl, lock_delay);
        let error = watchful.open(&SessionId::random(), &spec).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(error.remedy(), Some(&*format!("{remedy}{watchdog}")));
    }
    // The setting of a Redisson with a longer watchdog.
    let address = server.address().to_string();
    let longer = ForeignRedisStore::standalone(address, Layout::RedissonRw).watchdog(minute);
    let longer = longer.connect().await.unwrap();
    let reader = Claimant::new(&longer, &name, minute).await.of(1, MAX);
    let writer = Claimant::new(&watchful, &name, LONG).await;
    reader.granted().await;
    // Why: this is what a watchdog of 300 ms does.
    server.run(&["PEXPIRE", &name, "300"]).unwrap();
    let granted = async {
        while !matches!(writer.send().await, Ok(Verdict::Granted { .. })) {
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT, granted).await;
}

/// Only the withdrawal of a reader that has died removes the lock: its waiters learn it.
#[tokio::test]
async fn the_withdrawal_of_the_last_reader_that_has_died_is_published() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonRw).await;
    let reader = Claimant::new(&store, &name, LONG).await.of(1, MAX);
    reader.granted().await;
    let strings: Vec<String> = server.query(&["KEYS", &format!("{{{name}}}:*")]).unwrap();
    server.run(&["DEL", &strings[0]]).unwrap();
    let channel = format!("redisson_rwlock:{{{name}}}");
    let (listening, connection) = (channel.clone(), server.connect().unwrap());
    let message = tokio::task::spawn_blocking(move || first_message(connection, &listening));
    until_listening(server, &channel).await;
    let withdrawn = store.withdraw(&reader.claim.key, None).await.unwrap();
    assert_eq!(withdrawn, Withdrawal::Absent);
    assert!(!server.query::<bool>(&["EXISTS", &name]).unwrap());
    assert_eq!(within(TIME_LIMIT, message).await.unwrap(), "0");
}

/// A reader of Redisson that has entered twice, and whose first entry has ended, is still there.
#[tokio::test]
async fn a_reader_of_redisson_whose_first_entry_has_ended_can_be_removed() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonRw).await;
    let writer = Claimant::new(&store, &name, LONG).await;
    let second = format!("{{{name}}}:{JAVA}:rwlock_timeout:2");
    server.run(&["HSET", &name, "mode", "read", JAVA, "2"]).unwrap();
    server.run(&["PEXPIRE", &name, "60000"]).unwrap();
    server.run(&["SET", &second, "1", "PX", "60000"]).unwrap();
    writer.busy().await;
    let of: LockName = name.parse().unwrap();
    let line = store.line(&of).await.unwrap();
    let target = Target::Id(line.entries[0].id);
    let mark = store.evict(&of, &target, Evict::Mark, "ops", "stuck").await.unwrap_err();
    assert!(mark.message().contains("without lockkeeper"), "{mark}");
    let evicted = store.evict(&of, &target, Evict::Now, "ops", "stuck").await.unwrap();
    assert_eq!(evicted, Evicted::Done);
    writer.granted().await;
}

/// A writer of Redisson sleeps for as long as the lock says that it lives.
#[tokio::test]
async fn a_reader_that_leaves_leaves_the_lock_the_life_of_the_readers_that_stay() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonRw).await;
    let short = Duration::from_secs(10);
    for by_close in [false, true] {
        let stays = Claimant::new(&store, &name, short).await.of(1, MAX);
        let leaves = Claimant::new(&store, &name, LONG).await.of(1, MAX);
        stays.granted().await;
        leaves.granted().await;
        let left = || server.query::<u64>(&["PTTL", &name]).unwrap();
        assert!(left() > 15_000, "{}", left());
        match by_close {
            true => store.close(&leaves.claim.key.session, &[]).await.unwrap(),
            false => leaves.release().await,
        }
        assert!((1..=10_000).contains(&left()), "{}", left());
        assert!(matches!(stays.renewed().await, Renewal::Held { .. }));
        stays.release().await;
    }
}

/// A writer of Redisson that reads too, and whose read has ended before its write. Its waiters
/// would ask all the time: the line without the dead reader is another one.
#[tokio::test]
async fn a_reader_that_has_died_below_a_writer_wakes_no_waiter_again_and_again() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonRw).await;
    let writer = format!("{JAVA}:write");
    server.run(&["HSET", &name, "mode", "write", &writer, "1", JAVA, "1"]).unwrap();
    server.run(&["PEXPIRE", &name, "60000"]).unwrap();
    let of: LockName = name.parse().unwrap();
    for weight in [1, MAX] {
        let claim = Claimant::new(&store, &name, LONG).await.of(weight, MAX);
        let seen = match claim.send().await.unwrap() {
            Verdict::Busy { seen, .. } => seen,
            other => panic!("{other:?}"),
        };
        let wait = store.wait(Interest::Name(&of), seen, Duration::from_millis(300));
        assert_eq!(within(TIME_LIMIT, wait).await.unwrap(), Wake::Elapsed, "{weight}");
    }
    assert!(server.query::<bool>(&["HEXISTS", &name, &writer]).unwrap());
}

/// The epoch of a holder is that of its claim, or that of a change from a client of a later epoch.
#[tokio::test]
async fn a_claim_of_an_epoch_below_that_of_a_holder_is_refused_as_long_as_it_holds() {
    let server = redis().unwrap();
    let store = store(server, Layout::RedissonRw).await;
    for changed in [false, true] {
        let name = name();
        let reader = async |epoch| {
            let mut reader = Claimant::new(&store, &name, LONG).await.of(1, MAX);
            reader.claim.meta.epoch = epoch;
            reader
        };
        let holder = reader(if changed { 0 } else { 5 }).await;
        holder.granted().await;
        if changed {
            let change = Amend::Meta(Meta { epoch: 5, ..Meta::default() });
            let amended = store.amend(&holder.claim.key, 1, &change).await.unwrap();
            assert_eq!(amended, Amended::Done);
        }
        let late = reader(1).await;
        let error = late.send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
        reader(5).await.granted().await;
        holder.release().await;
        assert_eq!(late.send().await.unwrap_err().kind(), ErrorKind::Mismatch, "another one has 5");
        server.run(&["DEL", &name]).unwrap();
        late.granted().await;
    }
}

/// The lock had been held for longer than its ttl. Other clients clean up behind dead claims
/// meanwhile.
#[tokio::test]
async fn a_holder_learns_who_has_removed_it_although_others_come_and_go() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonRw).await;
    let ttl = Duration::from_secs(2);
    let held = Claimant::new(&store, &name, ttl).await.of(1, MAX);
    held.granted().await;
    let since = std::time::Instant::now();
    while since.elapsed() <= ttl {
        assert!(matches!(held.renewed().await, Renewal::Held { .. }));
    }
    let (of, target) = (name.parse().unwrap(), Target::Id(held.claim.key.id.hash()));
    let evicted = store.evict(&of, &target, Evict::Now, "ops", "stuck").await.unwrap();
    assert_eq!(evicted, Evicted::Done);
    // One claim in 16 looks for dead claims, once there are 16.
    for _ in 0..150 {
        Claimant::new(&store, &name, LONG).await.of(1, MAX).granted().await;
    }
    match held.renewed().await {
        Renewal::Lost(Some(broken)) => assert_eq!((&*broken.by, &*broken.reason), ("ops", "stuck")),
        other => panic!("{other:?}"),
    }
}

/// The clock goes back by an hour, and one of two readers has died. It keeps a writer out for its
/// ttl, counted from the jump, and not an hour longer.
#[tokio::test]
async fn a_clock_that_goes_back_does_not_prolong_a_dead_reader() {
    let (server, name) = (Redis::builder().with_clock().start().unwrap(), name());
    let store = store(&server, Layout::RedissonRw).await;
    let dead = Claimant::new(&store, &name, Duration::from_secs(2)).await.of(1, MAX);
    let alive = Claimant::new(&store, &name, Duration::from_secs(2)).await.of(1, MAX);
    let writer = Claimant::new(&store, &name, LONG).await;
    dead.granted().await;
    alive.granted().await;
    server.set_clock_offset(-3600).unwrap();
    assert!(matches!(alive.renewed().await, Renewal::Held { .. }));
    writer.busy().await;
    alive.release().await;
    let free = async {
        while !matches!(writer.send().await, Ok(Verdict::Granted { .. })) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(TIME_LIMIT, free).await;
    assert_eq!(dead.renewed().await, Renewal::Lost(None));
    writer.release().await;
}
