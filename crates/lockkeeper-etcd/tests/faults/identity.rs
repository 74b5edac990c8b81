//! The id of a store: sets of locks, foreign data. The fault suite has the first requests, and
//! wiped data.

use std::sync::Arc;

use lockkeeper::store::Store;
use lockkeeper_live::Etcd;
use lockkeeper_live::locks::{asked_together, has_a_foreign_id};

use crate::support::store;

async fn client(url: &str) -> Arc<dyn Store> {
    Arc::new(store(url).await)
}

/// Each path and each layout is a set of locks of its own.
#[tokio::test]
async fn each_set_of_locks_in_an_etcd_has_an_id_of_its_own() {
    let server = Etcd::start().unwrap();
    let (url, own) = (server.url(), format!("{}/own", server.url()));
    let sets = [
        url.clone(),
        own.clone(),
        format!("{url}?layout=concurrency"),
        format!("{own}?layout=concurrency"),
    ];
    let mut ids = Vec::new();
    for set in &sets {
        ids.push(asked_together(vec![client(set).await, client(set).await]).await);
    }
    for (at, one) in ids.iter().enumerate() {
        assert!(!ids[at + 1..].contains(one), "{sets:?}: {ids:?}");
    }
    server.control().delete_all("/lockkeeper/").unwrap();
    assert_eq!(asked_together(vec![client(&own).await]).await, ids[1], "another path was wiped");
}

#[tokio::test]
async fn what_others_have_written_in_the_place_of_an_etcd_id_is_left_as_it_is() {
    let server = Etcd::start().unwrap();
    let store = client(&server.url()).await;
    server.control().put("/lockkeeper/.id", "something").unwrap();
    has_a_foreign_id(&*store, "/lockkeeper/.id").await;
    assert_eq!(server.control().get("/lockkeeper/.id").unwrap().unwrap().value, b"something");
}
