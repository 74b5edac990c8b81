//! The simple lock, beside programs that use `SET NX PX` and a script that compares and deletes.

use std::time::Duration;

use lockkeeper::backend::redis_foreign::{ForeignRedisStore, Layout};
use lockkeeper::{Break, ErrorKind, Keeper, LostReason, Target};
use lockkeeper_live::{Act, Proxy, redis};

use crate::support::{TIME_LIMIT, keeper, name, until_listening, within};

/// How a program releases the simple lock.
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

#[tokio::test]
async fn a_lock_of_another_program_is_busy_and_its_release_lets_us_in() {
    let (server, name) = (redis().unwrap(), name());
    let keeper = keeper(server, Layout::Plain).await;
    server.run(&["SET", &name, "worker-7", "NX", "PX", "60000"]).unwrap();
    let mutex = keeper.mutex(&*name).unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none());
    let info = keeper.inspect(&*name).await.unwrap();
    assert_eq!(info.holders[0].owner, "worker-7");
    assert!(info.holders[0].expires_in.is_some_and(|left| left <= Duration::from_secs(60)));
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_listening(server, &format!("lkf:{{{name}}}:channel")).await;
    let released: u8 = server.query(&["EVAL", RELEASE, "1", &name, "worker-7"]).unwrap();
    assert_eq!(released, 1);
    let guard = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    // Theirs is refused while we hold, and their release does not touch our lock.
    let theirs: Option<String> =
        server.query(&["SET", &name, "worker-7", "NX", "PX", "60000"]).unwrap();
    assert_eq!(theirs, None);
    let released: u8 = server.query(&["EVAL", RELEASE, "1", &name, "worker-7"]).unwrap();
    assert_eq!(released, 0);
    guard.check().unwrap();
    guard.release().await.unwrap();
    assert!(!server.query::<bool>(&["EXISTS", &name]).unwrap(), "a release leaves no key");
}

#[tokio::test]
async fn a_release_of_lockkeeper_wakes_its_waiter_with_a_message() {
    let (server, name) = (redis().unwrap(), name());
    let (first, second) =
        (keeper(server, Layout::Plain).await, keeper(server, Layout::Plain).await);
    let guard = first.mutex(&*name).unwrap().lock().await.unwrap();
    let mutex = second.mutex(&*name).unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    let waits = || server.query::<Option<u64>>(&["HGET", &format!("lkf:{{{name}}}"), "w"]).unwrap();
    // The waiter looks when it begins, and when its subscription stands. Then it sleeps.
    let sleeps = async {
        let mut seen = None;
        while seen.is_none() || seen != waits() {
            seen = waits();
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    within(TIME_LIMIT, sleeps).await;
    let began = std::time::Instant::now();
    guard.release().await.unwrap();
    let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    // Without the message it looks again after 4 s or later.
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_key_without_a_ttl_is_shown_and_stays_until_it_is_adopted() {
    let (server, name) = (redis().unwrap(), name());
    let keeper = keeper(server, Layout::Plain).await;
    // The program has died between SETNX and EXPIRE.
    server.run(&["SETNX", &name, "worker-7"]).unwrap();
    assert!(keeper.mutex(&*name).unwrap().try_lock().await.unwrap().is_none());
    let info = keeper.inspect(&*name).await.unwrap();
    let holder = &info.holders[0];
    assert_eq!(holder.expires_in, None);
    let reason = holder.reason.as_ref().unwrap();
    assert!(
        reason.contains("if the key is a lock") && reason.contains("adopt-ttl=30s"),
        "{reason}"
    );
    assert_eq!(server.query::<i64>(&["PTTL", &name]).unwrap(), -1, "nobody has asked for it");

    let adopting = ForeignRedisStore::standalone(server.address().to_string(), Layout::Plain)
        .adopt_ttl(Duration::from_millis(400));
    let adopting = Keeper::builder(adopting).connect().await.unwrap();
    // An attempt that does not wait gives the ttl too, whatever the string is.
    assert!(adopting.mutex(&*name).unwrap().try_lock().await.unwrap().is_none());
    assert_ne!(server.query::<i64>(&["PTTL", &name]).unwrap(), -1);
    let guard = within(TIME_LIMIT, adopting.mutex(&*name).unwrap().lock()).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_release_of_a_lock_that_another_program_has_names_that_program() {
    let (server, name) = (redis().unwrap(), name());
    let keeper = keeper(server, Layout::Plain).await;
    let guard = keeper.mutex(&*name).unwrap().lock().await.unwrap();
    // Another program deletes without a look, and takes the lock.
    server.run(&["DEL", &name]).unwrap();
    server.run(&["SET", &name, "worker-7", "NX", "PX", "60000"]).unwrap();
    let error = guard.release().await.unwrap_err();
    match error.lost_reason() {
        Some(LostReason::Removed { by, reason }) => {
            assert_eq!(by, "another program");
            assert!(reason.starts_with("worker-7 now holds a lock made by SET NX PX"), "{reason}");
        }
        other => panic!("{other:?}: {error}"),
    }
    assert_eq!(server.query::<String>(&["GET", &name]).unwrap(), "worker-7", "it stays");
}

/// The first message after a lost subscription may be lost too, so the waiter looks.
#[tokio::test]
async fn a_waiter_whose_connection_is_lost_gets_the_lock() {
    let (server, name) = (redis().unwrap(), name());
    let proxy = Proxy::resp(server.address()).unwrap();
    let first = keeper(server, Layout::Plain).await;
    let guard = first.mutex(&*name).unwrap().lock().await.unwrap();
    let behind = ForeignRedisStore::standalone(proxy.address().to_string(), Layout::Plain);
    let behind = Keeper::builder(behind).connect().await.unwrap();
    let mutex = behind.mutex(&*name).unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_listening(server, &format!("lkf:{{{name}}}:channel")).await;
    proxy.on_reply(|reply| if reply.is_push() { Act::Drop } else { Act::Pass });
    guard.release().await.unwrap();
    proxy.on_nothing();
    proxy.cut();
    within(TIME_LIMIT, waiting).await.unwrap().unwrap().release().await.unwrap();
}

/// The side key has fields of one letter that are no owners.
#[tokio::test]
async fn an_owner_of_one_letter_holds_the_lock_as_any_other() {
    let (server, name) = (redis().unwrap(), name());
    let keeper = keeper(server, Layout::Plain).await;
    let mutex = keeper.mutex(&*name).unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    assert!(server.query::<bool>(&["HEXISTS", &format!("lkf:{{{name}}}"), "t"]).unwrap());
    server.run(&["SET", &name, "t", "NX", "PX", "60000"]).unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none());
    let info = keeper.inspect(&*name).await.unwrap();
    assert_eq!((&*info.holders[0].owner, info.holders[0].token), ("t", None));
}

#[tokio::test]
async fn a_holder_without_lockkeeper_can_only_be_removed_and_the_error_has_its_id() {
    let (server, name) = (redis().unwrap(), name());
    let keeper = keeper(server, Layout::Plain).await;
    server.run(&["SET", &name, "", "PX", "60000"]).unwrap();
    let holder = &keeper.inspect(&*name).await.unwrap().holders[0];
    assert_eq!((&*holder.owner, holder.token), ("an empty value", None));
    let admin = keeper.admin().unwrap();
    let command = format!("lockkeeper break NAME --id {} --now --reason TEXT", holder.id);
    let asked = admin.request_release(&*name, "a fix waits").await.unwrap_err();
    let target = || Target::IdHash(holder.id);
    let marked = admin.break_lock(&*name, target(), "stuck", Break::Mark).await.unwrap_err();
    for error in [asked, marked] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("an empty value holds the lock"), "{error}");
        assert!(error.remedy().unwrap().contains(&command), "{error}");
    }
    assert!(admin.break_lock(&*name, target(), "stuck", Break::Now).await.unwrap());
    assert!(!server.query::<bool>(&["EXISTS", &name]).unwrap());
}

/// The key that lockkeeper keeps beside the lock shows, for a day, that a client still uses it.
#[tokio::test]
async fn the_side_key_stays_for_a_day_after_the_last_claim() {
    let (server, name) = (redis().unwrap(), name());
    let keeper = keeper(server, Layout::Plain).await;
    keeper.mutex(&*name).unwrap().lock().await.unwrap().release().await.unwrap();
    let left = server.query::<i64>(&["PTTL", &format!("lkf:{{{name}}}")]).unwrap();
    let day = 24 * 3_600_000;
    assert!((day - 60_000..=day + 60_000).contains(&left), "{left}");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_named_with_the_layout() {
    let closed = ForeignRedisStore::standalone("127.0.0.1:1", Layout::RedissonRw);
    let error = closed.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().starts_with("redis://127.0.0.1:1?layout=redisson-rw: "), "{error}");
}
