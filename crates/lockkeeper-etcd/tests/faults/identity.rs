//! The id of a store: who asks first at the same time, wiped data, foreign data.

use std::sync::Arc;

use lockkeeper::store::Store;
use lockkeeper_live::Etcd;
use lockkeeper_live::locks::{asked_together, has_a_foreign_id};

use crate::support::store;

/// As many clients ask at the same time.
const CLIENTS: usize = 8;

async fn client(url: &str) -> Arc<dyn Store> {
    Arc::new(store(url).await)
}

#[tokio::test]
async fn those_who_ask_an_etcd_first_get_one_id_for_each_set_of_locks() {
    let server = Etcd::start().unwrap();
    let (url, own) = (server.url(), format!("{}/own", server.url()));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(client(&url).await);
    }
    let id = asked_together(clients.clone()).await;
    assert_eq!(asked_together(vec![client(&url).await]).await, id);
    let others =
        [own.clone(), format!("{url}?layout=concurrency"), format!("{own}?layout=concurrency")];
    let mut ids = vec![id];
    for other in &others {
        ids.push(asked_together(vec![client(other).await, client(other).await]).await);
    }
    for (at, one) in ids.iter().enumerate() {
        assert!(!ids[at + 1..].contains(one), "{others:?}: {ids:?}");
    }
    server.control().delete_all("/lockkeeper/").unwrap();
    assert_ne!(asked_together(clients).await, id, "it was wiped");
    assert_eq!(asked_together(vec![client(&own).await]).await, ids[1], "another path was not");
}

#[tokio::test]
async fn what_others_have_written_in_the_place_of_an_etcd_id_is_left_as_it_is() {
    let server = Etcd::start().unwrap();
    let store = client(&server.url()).await;
    server.control().put("/lockkeeper/.id", "something").unwrap();
    has_a_foreign_id(&*store, "/lockkeeper/.id").await;
    assert_eq!(server.control().get("/lockkeeper/.id").unwrap().unwrap().value, b"something");
}
