//! The id of a store: lost answers, late copies, foreign data, slots that move. The fault suite has
//! the first requests, and wiped data.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper::RedisStore;
use lockkeeper::store::Store;
use lockkeeper_live::locks::{asked_together, has_a_foreign_id};
use lockkeeper_live::{Act, Cluster, Proxy, Redis};

use crate::support::{hasty_store, store};

/// Each database of a server is a store of its own.
#[tokio::test]
async fn another_database_has_another_id() {
    let server = Redis::start().unwrap();
    let id = store(server.address()).await.id().await.unwrap();
    let other = RedisStore::from_url(&format!("{}/1", server.url()).parse().unwrap())
        .unwrap()
        .connect()
        .await
        .unwrap();
    assert_ne!(other.id().await.unwrap(), id);
}

/// The answer is lost, and the id was made. A late copy of the request that made it arrives when
/// the data was wiped: it makes another id, not the old one again.
#[tokio::test]
async fn a_lost_answer_and_a_late_copy_make_no_second_id_and_bring_none_back() {
    let server = Redis::start().unwrap();
    let proxy = Proxy::resp(server.address()).unwrap();
    let behind = hasty_store(proxy.address(), Duration::from_millis(1500)).await;
    // The server has the script before a request is to be the next one.
    behind.id().await.unwrap();
    server.run(&["FLUSHALL"]).unwrap();
    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sent);
    proxy.on_request(move |request| {
        let mut seen = seen.lock().unwrap();
        if !request.is("EVALSHA") || !request.contains("lk:id") || !seen.is_empty() {
            return Act::Pass;
        }
        seen.extend_from_slice(request.bytes);
        Act::LoseReply
    });
    behind.id().await.unwrap_err();
    let made: String = server.query(&["GET", "lk:id"]).unwrap();
    let id = behind.id().await.unwrap();
    assert_eq!(made, format!("lockkeeper-store:{id}"));
    let request = sent.lock().unwrap().clone();
    let again: String = server.send(&request).unwrap();
    assert_eq!(again, made, "a copy makes nothing");
    server.run(&["FLUSHALL"]).unwrap();
    let late: String = server.send(&request).unwrap();
    assert_ne!(late, made, "a late copy brings no old id back");
    assert_ne!(behind.id().await.unwrap(), id);
}

#[tokio::test]
async fn what_others_have_written_in_the_place_of_a_redis_id_is_left_as_it_is() {
    let server = Redis::start().unwrap();
    let store = store(server.address()).await;
    for set in [&["SET", "lk:id", "something"][..], &["RPUSH", "lk:id", "something"]] {
        server.run(set).unwrap();
        let before: String = server.query(&["TYPE", "lk:id"]).unwrap();
        has_a_foreign_id(&store, "lk:id").await;
        assert_eq!(server.query::<String>(&["TYPE", "lk:id"]).unwrap(), before);
        server.run(&["DEL", "lk:id"]).unwrap();
    }
    store.id().await.unwrap();
}

/// The id has one slot, wherever it is.
#[tokio::test]
async fn a_cluster_has_one_id_while_its_slot_moves() {
    let cluster = Cluster::start().unwrap();
    let url = cluster.url().parse().unwrap();
    let mut clients: Vec<Arc<dyn Store>> = Vec::new();
    for _ in 0..3 {
        clients.push(Arc::new(RedisStore::from_url(&url).unwrap().connect().await.unwrap()));
    }
    let id = asked_together(clients.clone()).await;
    let slot = cluster.slot_of("lk:id").unwrap();
    assert_eq!(slot, 2766);
    let from = cluster.owner(slot).unwrap();
    let to = cluster.masters().unwrap().into_iter().find(|node| *node != from).unwrap();
    cluster.begin_move(slot, from, to).unwrap();
    assert_eq!(asked_together(clients.clone()).await, id, "its slot is on its way");
    cluster.move_keys(slot, from, to).unwrap();
    assert_eq!(asked_together(clients.clone()).await, id, "its key has moved");
    cluster.end_move(slot, from, to).unwrap();
    assert_eq!(asked_together(clients).await, id);
}
