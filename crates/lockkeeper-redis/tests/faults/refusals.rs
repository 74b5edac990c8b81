//! The server answers, but refuses: it is full, it cannot write to its disk, it has lost the
//! scripts.

use std::fs;
use std::future::IntoFuture;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lockkeeper::{Error, ErrorKind};
use lockkeeper_live::Redis;

use crate::support::{LONG, TIME_LIMIT, is_free, keeper, name, renewed, until_waiting, within};

fn says(error: &Error, code: &str, remedy: &str) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(code) && error.to_string().contains(remedy), "{error}");
}

/// The server is full: an acquire fails with the server's reason and the remedy, and leaves nothing
/// behind. A holder keeps its lock for two ttls, alone or with others, and releases it; its waiter
/// is granted the lock.
#[tokio::test]
async fn a_full_server_grants_nothing_new_but_keeps_and_releases_held_locks() {
    let server = Redis::start().unwrap();
    let (name, ttl) = (name(), Duration::from_secs(4));
    let [shared, new] = ["shared", "new"].map(|what| format!("{name}{what}"));
    let keeper = keeper(server.address(), ttl).await;
    let alone = keeper.mutex(&*name).unwrap().lock().await.unwrap();
    let readers = keeper.rw_lock(&*shared).unwrap();
    let together = [readers.read().await.unwrap(), readers.read().await.unwrap()];
    let writes = tokio::spawn({
        let keeper = keeper.clone();
        let shared = shared.clone();
        async move { keeper.rw_lock(shared).unwrap().write().await.unwrap() }
    });
    until_waiting(&keeper, &shared, 1).await;
    server.set("maxmemory", "1kb").unwrap();
    let error = keeper.mutex(&*new).unwrap().try_lock().await.unwrap_err();
    says(&error, "OOM", "maxmemory");
    tokio::time::sleep(ttl * 2).await;
    alone.check().unwrap();
    alone.release().await.unwrap();
    for reader in together {
        reader.check().unwrap();
        reader.release().await.unwrap();
    }
    let written = within(TIME_LIMIT, writes).await.unwrap();
    written.release().await.unwrap();
    server.set("maxmemory", "0").unwrap();
    for name in [&name, &shared, &new] {
        is_free(&keeper, name).await;
    }
}

/// The server cannot save: it refuses writes, an acquire reports that with the remedy, and succeeds
/// when the disk can be written again.
#[tokio::test]
async fn a_server_that_cannot_save_grants_nothing_and_says_why() {
    let server = Redis::builder().config("save", "3600 1000000").start().unwrap();
    let name = name();
    let keeper = keeper(server.address(), LONG).await;
    let (_, folder): (String, PathBuf) = server
        .query::<(String, String)>(&["CONFIG", "GET", "dir"])
        .map(|(k, dir)| (k, dir.into()))
        .unwrap();
    // The server cannot rename its file to a folder.
    let in_the_way = folder.join("dump.rdb").join("in-the-way");
    fs::create_dir_all(&in_the_way).unwrap();
    save(&server, "err");
    let error = keeper.mutex(&*name).unwrap().try_lock().await.unwrap_err();
    says(&error, "MISCONF", "disk");
    fs::remove_dir_all(folder.join("dump.rdb")).unwrap();
    save(&server, "ok");
    is_free(&keeper, &name).await;
}

fn save(server: &Redis, outcome: &str) {
    server.run(&["BGSAVE"]).unwrap();
    let began = Instant::now();
    while server.info("rdb_bgsave_in_progress").unwrap() != "0"
        || server.info("rdb_last_bgsave_status").unwrap() != outcome
    {
        assert!(began.elapsed() < TIME_LIMIT, "it was not saved");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// An administrator empties the cache of scripts under a holder and a waiter, and before each of
/// their steps: all goes on without an error.
#[tokio::test]
async fn scripts_that_are_flushed_are_loaded_again() {
    let server = Redis::start().unwrap();
    let name = name();
    let (holder, other) =
        (keeper(server.address(), LONG).await, keeper(server.address(), LONG).await);
    let flush = || server.run(&["SCRIPT", "FLUSH"]).unwrap();
    flush();
    let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
    flush();
    let waiting = tokio::spawn(other.mutex(&*name).unwrap().lock().into_future());
    until_waiting_again(&holder, &name).await;
    flush();
    renewed(&guard).await;
    flush();
    let token = guard.token();
    guard.release().await.unwrap();
    let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    assert!(next.token() > token);
    flush();
    next.release().await.unwrap();
    until_waiting(&holder, &name, 0).await;
    is_free(&holder, &name).await;
}

/// A look is not repeated automatically: a caller that only looks gets the error once.
async fn until_waiting_again(keeper: &lockkeeper::Keeper, name: &str) {
    let _ = keeper.inspect(name).await;
    until_waiting(keeper, name, 1).await;
}

/// The same where locks count only with a replica: a full server costs no held lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_min_replicas_a_full_server_keeps_held_locks() {
    let server = Redis::start().unwrap();
    let replica = Redis::builder().replica_of(&server).start().unwrap();
    crate::topologies::demotions::follows(&replica, &server).await;
    let ttl = Duration::from_secs(4);
    let url = format!("{}?min-replicas=1", server.url());
    let keeper = crate::topologies::keeper(&url, ttl).await;
    let guard = within(TIME_LIMIT, keeper.mutex("a-lock").unwrap().lock()).await.unwrap();
    tokio::time::sleep(ttl * 2).await;
    guard.check().expect("the replica has each renewal");
    server.set("maxmemory", "1kb").unwrap();
    tokio::time::sleep(ttl * 2).await;
    let kept = guard.check();
    server.set("maxmemory", "0").unwrap();
    kept.expect("a full server renews held locks");
}
