//! Watchers: each is told of each change, and asks for nothing meanwhile.

use std::time::Duration;

use lockkeeper::store::{Interest, Revision, Store, Wake};
use lockkeeper::testing::unique_prefix;
use lockkeeper::{LockName, RedisStore};
use lockkeeper_live::{Cluster, cluster, redis};
use tokio::task::JoinHandle;

use super::keeper;
use crate::faults::{LONG, PATIENCE, within};

async fn store(url: &str) -> RedisStore {
    RedisStore::from_url(&url.parse().unwrap()).unwrap().connect().await.unwrap()
}

async fn revision(store: &RedisStore, name: &LockName) -> Revision {
    store.line(name).await.unwrap().revision
}

/// Watches from here on, for at most so long.
fn watch(store: &RedisStore, name: &LockName, seen: Revision, most: Duration) -> JoinHandle<Wake> {
    let (store, name) = (store.clone(), name.clone());
    tokio::spawn(async move { store.wait(Interest::Name(&name), seen, most).await.unwrap() })
}

/// Two of one client watch one name. The end of the one that watched for a shorter time does not end the other's
/// watching, in whichever order they came.
async fn two_of_one_client(url: &str) {
    let (store, keeper) = (store(url).await, keeper(url, LONG).await);
    for is_first_short in [true, false] {
        let name: LockName = (unique_prefix() + "watched").parse().unwrap();
        let seen = revision(&store, &name).await;
        let (short, long) = (Duration::from_millis(300), LONG);
        let [one, two] = if is_first_short { [short, long] } else { [long, short] };
        let one = watch(&store, &name, seen, one);
        let two = watch(&store, &name, seen, two);
        let (short, long) = if is_first_short { (one, two) } else { (two, one) };
        assert_eq!(within(PATIENCE, short).await.unwrap(), Wake::Elapsed);
        assert!(!long.is_finished());
        let guard = keeper.mutex(name.as_str()).unwrap().lock().await.unwrap();
        assert_eq!(within(Duration::from_secs(5), long).await.unwrap(), Wake::Changed);
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_one_watcher_does_not_end_another_of_its_client() {
    two_of_one_client(&redis().unwrap().url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_one_watcher_does_not_end_another_of_its_client_in_a_cluster() {
    two_of_one_client(&cluster().unwrap().url()).await;
}

/// How many scripts the nodes have run.
fn scripts_run(cluster: &Cluster) -> u64 {
    let calls = |info: String| -> u64 {
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=").map(str::to_owned));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    };
    cluster.nodes().iter().map(|node| calls(node.query(&["INFO", "commandstats"]).unwrap())).sum()
}

/// On each node some watch and some wait for a lock. While nothing happens they ask once or twice, and renew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_watches_or_waits_in_a_cluster_asks_for_nothing_while_nothing_happens() {
    const EACH: usize = 12;
    let cluster = Cluster::builder().replicas(0).node_timeout(LONG).start().unwrap();
    let (store, keeper) = (store(&cluster.url()).await, keeper(&cluster.url(), LONG).await);
    let before = scripts_run(&cluster);
    let (mut watchers, mut guards) = (Vec::new(), Vec::new());
    for number in 0..EACH {
        let name: LockName = format!("name-{number}").parse().unwrap();
        guards.push(keeper.mutex(name.as_str()).unwrap().lock().await.unwrap());
        let seen = revision(&store, &name).await;
        watchers.push(watch(&store, &name, seen, LONG));
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let asked = scripts_run(&cluster) - before;
    eprintln!("{asked} scripts for {EACH} watchers");
    // A claim, a look and two times to be told of changes: the subscription comes to stand after the first.
    assert!(asked >= 3 * EACH as u64 && asked <= 5 * EACH as u64, "{asked}");
    assert!(watchers.iter().all(|watcher| !watcher.is_finished()));
    for guard in guards {
        guard.release().await.unwrap();
    }
    for watcher in watchers {
        assert_eq!(within(PATIENCE, watcher).await.unwrap(), Wake::Changed);
    }
}
