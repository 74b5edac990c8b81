//! `RLock` and `RFencedLock`, beside the scripts of Redisson.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use lockkeeper::backend::redis_foreign::{ForeignRedisStore, Layout};
use lockkeeper::store::{Admin as _, Evict, Evicted, LiveState, Renewal, Store as _, Target};
use lockkeeper::{ErrorKind, Keeper, LockName};
use lockkeeper_live::redis;

use crate::support::{
    Claimant, JAVA, LONG, TIME_LIMIT, first_message, keeper, name, redisson_locks,
    redisson_unlocks, store, until_listening, within,
};

#[tokio::test]
async fn a_lock_of_each_is_busy_for_the_other_and_its_release_lets_the_other_in() {
    let server = redis().unwrap();
    for layout in [Layout::Redisson, Layout::RedissonFenced] {
        let (name, keeper) = (name(), keeper(server, layout).await);
        let mutex = keeper.mutex(&*name).unwrap();
        let guard = mutex.lock().await.unwrap();
        assert!(redisson_locks(server, &name).is_some_and(|left| left > 0));
        assert_eq!(redisson_unlocks(server, &name), None, "it is not theirs");
        guard.release().await.unwrap();
        assert_eq!(redisson_locks(server, &name), None, "it is free");
        assert_eq!(redisson_locks(server, &name), None, "it is reentrant");
        assert!(mutex.try_lock().await.unwrap().is_none());
        assert_eq!(keeper.inspect(&*name).await.unwrap().holders[0].owner, JAVA);
        let waiting = tokio::spawn(async move { mutex.lock().await });
        until_listening(server, &format!("redisson_lock__channel:{{{name}}}")).await;
        assert_eq!(redisson_unlocks(server, &name), Some(0), "it is still held once");
        assert_eq!(redisson_unlocks(server, &name), Some(1));
        within(TIME_LIMIT, waiting).await.unwrap().unwrap().release().await.unwrap();
    }
}

/// A waiter of Redisson sleeps until the message `0`.
#[tokio::test]
async fn a_release_publishes_what_the_waiters_of_redisson_wait_for() {
    let (server, name) = (redis().unwrap(), name());
    let keeper = keeper(server, Layout::Redisson).await;
    let guard = keeper.mutex(&*name).unwrap().lock().await.unwrap();
    let channel = format!("redisson_lock__channel:{{{name}}}");
    let (listening, connection) = (channel.clone(), server.connect().unwrap());
    let message = tokio::task::spawn_blocking(move || first_message(connection, &listening));
    until_listening(server, &channel).await;
    guard.release().await.unwrap();
    assert_eq!(within(TIME_LIMIT, message).await.unwrap(), "0");
}

/// The counter is that of Redisson: tokens of both rise together.
#[tokio::test]
async fn tokens_of_a_fenced_lock_come_from_the_counter_that_redisson_increments() {
    let (server, name) = (redis().unwrap(), name());
    let keeper = keeper(server, Layout::RedissonFenced).await;
    let counter = format!("redisson_lock_token:{{{name}}}");
    let mut last = None;
    for _ in 0..3 {
        let theirs: u64 = server.query(&["INCR", &counter]).unwrap();
        let guard = keeper.mutex(&*name).unwrap().lock().await.unwrap();
        let ours: u64 = server.query(&["GET", &counter]).unwrap();
        assert_eq!(ours, theirs + 1);
        let token = guard.token();
        assert!(last.is_none_or(|last| token > last), "{token:?}");
        last = Some(token);
        guard.release().await.unwrap();
    }
}

/// `RedissonMultiLock` takes several locks; so does a multi-lock over this layout.
#[tokio::test]
async fn a_multi_lock_takes_several_locks_of_redisson() {
    let (server, name) = (redis().unwrap(), name());
    let keeper = keeper(server, Layout::Redisson).await;
    let names = ["a", "b"].map(|end| format!("{name}{end}"));
    let multi = keeper.multi_lock(names.iter().map(String::as_str)).unwrap();
    assert_eq!(redisson_locks(server, &names[1]), None);
    assert!(multi.try_lock().await.unwrap().is_none(), "all or none");
    // The part that was free is given back.
    let given_back = async {
        while server.query::<bool>(&["EXISTS", &names[0]]).unwrap() {
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT, given_back).await;
    assert_eq!(redisson_unlocks(server, &names[1]), Some(1));
    let guards = multi.lock().await.unwrap();
    for name in &names {
        assert!(redisson_locks(server, name).is_some(), "{name} is held");
    }
    guards.release().await.unwrap();
    for name in &names {
        assert_eq!(redisson_locks(server, name), None, "{name} is free");
    }
}

/// The counter belongs to Redisson, and an application may have written it.
#[tokio::test]
async fn a_counter_that_cannot_count_on_is_refused_and_its_lock_stays_free() {
    let server = redis().unwrap();
    for counter in ["9223372036854775807", "1000000000000000", "-5", "007", "1e3"] {
        let (name, store) = (name(), store(server, Layout::RedissonFenced).await);
        let key = format!("redisson_lock_token:{{{name}}}");
        server.run(&["SET", &key, counter]).unwrap();
        let claim = Claimant::new(&store, &name, LONG).await;
        let error = claim.send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{counter}: {error}");
        assert!(!server.query::<bool>(&["EXISTS", &name]).unwrap(), "{counter}");
        assert_eq!(server.query::<String>(&["GET", &key]).unwrap(), counter);
        assert!(error.message().contains(&format!("the key {key} holds a counter")), "{error}");
        let line = store.line(&name.parse().unwrap()).await.unwrap();
        assert_eq!(line.last_token, None, "{counter}");
    }
}

/// A copy of the claim may still be on its way, and be granted once the other one has left.
#[tokio::test]
async fn a_claim_without_an_answer_is_not_lost_because_redisson_has_the_lock() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::Redisson).await;
    let claim = Claimant::new(&store, &name, LONG).await;
    assert_eq!(redisson_locks(server, &name), None);
    assert_eq!(claim.renewed_as(LiveState::InFlight).await, Renewal::Unknown);
    match claim.renewed().await {
        Renewal::Lost(Some(broken)) => assert!(broken.reason.starts_with(JAVA), "{broken:?}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(redisson_unlocks(server, &name), Some(1));
    claim.granted().await;
    let of: LockName = name.parse().unwrap();
    let target = Target::Id(claim.claim.key.id.hash());
    let broken = store.evict(&of, &target, Evict::Now, "ops", "stuck").await.unwrap();
    assert_eq!(broken, Evicted::Done);
    assert!(matches!(claim.renewed_as(LiveState::InFlight).await, Renewal::Lost(Some(_))));
}

/// `MONITOR` of the server shows which client sends the owner of a lock, and `CLIENT LIST` the name
/// of the client.
#[tokio::test]
async fn the_monitor_of_the_server_shows_the_address_of_a_holder() {
    let (server, name) = (redis().unwrap(), name());
    let port = server.port().to_string();
    let mut monitor = Command::new("redis-cli")
        .args(["-p", &port, "MONITOR"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(monitor.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("OK"));
    // As the watchdog of Redisson renews a lock.
    let mut client = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let renewal = "return redis.call('hexists', KEYS[1], ARGV[1])";
    redis::cmd("CLIENT").arg("SETNAME").arg(&name).exec(&mut client).unwrap();
    redis::cmd("EVAL").arg(renewal).arg(1).arg(&name).arg(JAVA).exec(&mut client).unwrap();
    let shown = lines.find(|line| line.contains(JAVA) && line.contains(&name)).unwrap();
    monitor.kill().unwrap();
    monitor.wait().unwrap();
    let address = shown.split_once("[0 ").unwrap().1.split_once(']').unwrap().0;
    let clients: String = server.query(&["CLIENT", "LIST"]).unwrap();
    let found = clients.lines().find(|line| line.contains(&format!(" addr={address} ")));
    assert!(found.unwrap().contains(&format!(" name={name} ")), "{shown}: {clients}");
}

/// The tokens of the clock are far above those of the counter.
#[tokio::test]
async fn a_name_of_a_fenced_lock_is_refused_as_an_ordinary_lock() {
    let (server, name) = (redis().unwrap(), name());
    let counter = format!("redisson_lock_token:{{{name}}}");
    let fenced = keeper(server, Layout::RedissonFenced).await;
    fenced.mutex(&*name).unwrap().lock().await.unwrap().release().await.unwrap();
    let ordinary = keeper(server, Layout::Redisson).await;
    let mutex = ordinary.mutex(&*name).unwrap();
    let error = mutex.try_lock().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let remedy = error.remedy().unwrap();
    assert!(error.message().contains(&counter), "{error}");
    assert!(remedy.contains("layout=redisson-fenced") && remedy.contains("DEL"), "{error}");
    assert!(!ordinary.inspect(&*name).await.unwrap().is_held());
    server.run(&["DEL", &counter]).unwrap();
    mutex.try_lock().await.unwrap().unwrap().release().await.unwrap();
}

/// Redisson counts on from the same counter, and has no epoch.
#[tokio::test]
async fn an_epoch_above_the_tokens_of_a_fenced_lock_is_refused() {
    let server = redis().unwrap();
    let url = format!("{}?layout=redisson-fenced", server.url());
    let of_the_url = lockkeeper::connect(&format!("{url}&epoch=1")).await;
    let of_the_keeper = {
        let store =
            ForeignRedisStore::standalone(server.address().to_string(), Layout::RedissonFenced);
        Keeper::builder(store).epoch(1).connect().await
    };
    for refused in [of_the_url, of_the_keeper] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("redisson-fenced"), "{error}");
        assert!(error.message().contains("no epoch"), "{error}");
    }
    lockkeeper::connect(&format!("{url}&epoch=0")).await.unwrap();
}
