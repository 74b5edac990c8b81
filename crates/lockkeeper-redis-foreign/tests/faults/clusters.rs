//! The layouts in a Cluster, where messages go to shards.

use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper::{ErrorKind, Keeper};
use lockkeeper_live::cluster;

use crate::support::{TIME_LIMIT, name, within};

async fn keeper(layout: Layout) -> Keeper {
    let url = format!("{}?layout={}", cluster().unwrap().url(), layout.name());
    lockkeeper::connect(&url).await.unwrap()
}

#[tokio::test]
async fn locks_of_a_cluster_are_handed_on_by_messages() {
    for layout in [Layout::Plain, Layout::Redisson, Layout::RedissonFenced, Layout::RedissonRw] {
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
