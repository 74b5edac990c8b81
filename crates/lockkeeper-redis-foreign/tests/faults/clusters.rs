//! The layouts in a Cluster, where messages go to shards.

use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper::{ErrorKind, Keeper};
use lockkeeper_live::cluster;

use crate::support::{TIME_LIMIT, first_message, name, until_listening, within};

async fn keeper(layout: Layout) -> Keeper {
    let url = format!("{}?layout={}", cluster().unwrap().url(), layout.name());
    lockkeeper::connect(&url).await.unwrap()
}

#[tokio::test]
async fn locks_of_a_cluster_are_handed_on_by_messages() {
    for layout in Layout::ALL {
        if layout == Layout::RedissonSemaphore {
            continue;
        }
        let (first, second) = (keeper(layout).await, keeper(layout).await);
        for name in [name(), format!("{{{}}}/tagged", name())] {
            let guard = first.mutex(&*name).unwrap().lock().await.unwrap();
            let mutex = second.mutex(&*name).unwrap();
            let waiting = tokio::spawn(async move { mutex.lock().await });
            guard.release().await.unwrap();
            let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
            let listed = first.admin().unwrap().list(&name, 10).await.unwrap();
            assert_eq!(listed.len(), 1, "{layout:?}: {listed:?}");
            next.release().await.unwrap();
        }
    }
    let semaphores = keeper(Layout::RedissonSemaphore).await;
    let name = name();
    let guard = semaphores.semaphore(&*name, 2).unwrap().acquire_many(2).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_name_whose_keys_are_in_several_slots_is_refused() {
    let keeper = keeper(Layout::Plain).await;
    let error = keeper.mutex("a}b").unwrap().try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("brace"), "{error}");
}

/// A Redisson before 3.22, or with `shardedSubscriptionMode=OFF`.
#[tokio::test]
async fn a_release_in_a_cluster_is_also_published_to_clients_that_do_not_listen_to_shards() {
    let node = &cluster().unwrap().nodes()[0];
    for (layout, prefix) in
        [(Layout::Redisson, "redisson_lock__channel"), (Layout::RedissonRw, "redisson_rwlock")]
    {
        let (name, keeper) = (name(), keeper(layout).await);
        let guard = keeper.mutex(&*name).unwrap().lock().await.unwrap();
        let channel = format!("{prefix}:{{{name}}}");
        let (listening, connection) = (channel.clone(), node.connect().unwrap());
        let message = tokio::task::spawn_blocking(move || first_message(connection, &listening));
        until_listening(node, &channel).await;
        guard.release().await.unwrap();
        assert!(["0", "1"].contains(&&*within(TIME_LIMIT, message).await.unwrap()), "{layout:?}");
    }
}
