//! Watchers: each gets each change, and sends no request meanwhile.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use lockkeeper::store::{Interest, Revision, Store, Wake};
use lockkeeper::{LockName, RedisStore};
use lockkeeper_live::{Cluster, Redis, cluster, redis};
use lockkeeper_testing::unique_prefix;
use tokio::task::JoinHandle;

use super::keeper;
use crate::support::{LONG, TIME_LIMIT, UNRENEWED, until_waiting, within};

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

/// Two watchers of one client watch one name. The end of the shorter watch does not end the other
/// one, in either order.
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
        assert_eq!(within(TIME_LIMIT, short).await.unwrap(), Wake::Elapsed);
        assert!(!long.is_finished());
        let guard = keeper.mutex(name.as_str()).unwrap().lock().await.unwrap();
        assert_eq!(within(TIME_LIMIT, long).await.unwrap(), Wake::Changed);
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_one_watcher_does_not_end_another_of_its_client() {
    two_of_one_client(&redis().unwrap().url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_one_watchers_end_does_not_end_another_of_its_client() {
    two_of_one_client(&cluster().unwrap().url()).await;
}

/// How many scripts the nodes have run.
fn scripts_run(cluster: &Cluster) -> u64 {
    let calls = |info: String| -> u64 {
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=").map(str::to_owned));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    };
    cluster.nodes().iter().map(|node| calls(node.query(&["INFO", "commandstats"]).unwrap())).sum()
}

/// On each node some clients watch a lock and some wait for it. While nothing changes they ask once
/// or twice, and renew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_watchers_and_waiters_in_a_cluster_send_no_requests() {
    const EACH: usize = 12;
    let cluster = Cluster::builder().replicas(0).node_timeout(LONG).start().unwrap();
    let (store, keeper) = (store(&cluster.url()).await, keeper(&cluster.url(), UNRENEWED).await);
    let before = scripts_run(&cluster);
    let (mut watchers, mut guards) = (Vec::new(), Vec::new());
    for number in 0..EACH {
        let name: LockName = format!("name-{number}").parse().unwrap();
        guards.push(keeper.mutex(name.as_str()).unwrap().lock().await.unwrap());
        let seen = revision(&store, &name).await;
        watchers.push(watch(&store, &name, seen, UNRENEWED));
    }
    let asked = || scripts_run(&cluster) - before;
    // A claim, a look and two watches: the subscription begins after the first.
    let all_asked = async {
        while asked() < 3 * EACH as u64 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within(TIME_LIMIT, all_asked).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    eprintln!("{} scripts for {EACH} watchers", asked());
    assert!(asked() <= 5 * EACH as u64, "{}", asked());
    assert!(watchers.iter().all(|watcher| !watcher.is_finished()));
    for guard in guards {
        guard.release().await.unwrap();
    }
    for watcher in watchers {
        assert_eq!(within(TIME_LIMIT, watcher).await.unwrap(), Wake::Changed);
    }
}

/// How often a command was called.
fn calls(server: &Redis, command: &str) -> u64 {
    let info: String = server.query(&["INFO", "commandstats"]).unwrap();
    let begins = format!("cmdstat_{command}:calls=");
    let line = info.lines().find_map(|line| line.strip_prefix(&begins).map(str::to_owned));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// Half of the time by which a subscription outlasts its last watcher.
const SOON: Duration = Duration::from_millis(500);

fn listeners(server: &Redis, name: &LockName) -> u64 {
    server.query::<(String, u64)>(&["PUBSUB", "NUMSUB", &format!("lk:w:{{{name}}}")]).unwrap().1
}

/// Watches a line five times, and looks at it after each watch. Returns how often a subscription
/// began, how many there are then, and whether each watch ended soon.
async fn watched_again_and_again(
    server: &Redis,
    store: &RedisStore,
    name: &LockName,
) -> ([u64; 2], bool) {
    let (seen, before) = (revision(store, name).await, calls(server, "subscribe"));
    let (mut began, mut longest) = (Instant::now(), Duration::ZERO);
    for _ in 0..5 {
        let wake = store.wait(Interest::Name(name), seen, Duration::from_millis(50)).await.unwrap();
        assert_eq!(wake, Wake::Elapsed);
        assert_eq!(revision(store, name).await, seen);
        longest = longest.max(began.elapsed());
        began = Instant::now();
    }
    let subscriptions = [calls(server, "subscribe") - before, listeners(server, name)];
    (subscriptions, longest.max(began.elapsed()) < SOON)
}

/// A watcher looks at the line now and then, and goes on watching: the subscription begins once. It
/// ends soon after the last look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_looks_again_and_again_subscribes_once_and_leaves_no_subscription() {
    let server = Redis::start().unwrap();
    let (store, mut name) = (store(&server.url()).await, "watched".parse().unwrap());
    for attempt in 0.. {
        let (subscriptions, soon) = watched_again_and_again(&server, &store, &name).await;
        if subscriptions == [1, 1] {
            break;
        }
        // On a busy machine one may end in between.
        assert!(!soon && attempt < 20, "{subscriptions:?}");
        name = format!("watched-{attempt}").parse().unwrap();
    }
    let gone = async {
        while listeners(&server, &name) > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within(TIME_LIMIT, gone).await;
    // And the subscription begins again.
    let watching = watch(&store, &name, revision(&store, &name).await, LONG);
    let keeper = keeper(&server.url(), LONG).await;
    let guard = keeper.mutex(name.as_str()).unwrap().lock().await.unwrap();
    assert_eq!(within(TIME_LIMIT, watching).await.unwrap(), Wake::Changed);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_subscription_ends_also_where_the_runtime_of_who_watched_has_ended() {
    let server = Redis::start().unwrap();
    let (store, name) = (store(&server.url()).await, "watched".parse::<LockName>().unwrap());
    let seen = revision(&store, &name).await;
    let (there, of) = (store.clone(), name.clone());
    let watched = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(there.wait(Interest::Name(&of), seen, Duration::from_millis(50)))
    });
    assert_eq!(within(TIME_LIMIT, watched).await.unwrap().unwrap(), Wake::Elapsed);
    let gone = async {
        while listeners(&server, &name) > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within(TIME_LIMIT, gone).await;
}

/// Each follower has a connection of its own.
const FOLLOWERS: usize = 100;
/// Nothing changes for this long.
const CALM: Duration = Duration::from_secs(5);

/// Many clients follow one election, each in a program of its own, and a candidate campaigns. While
/// nothing changes, no follower sends a request. A change is one message to the server, whatever
/// their number, and every follower gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_followers_of_an_election_send_nothing_and_a_change_is_one_message() {
    let server = Redis::start().unwrap();
    let keeper = keeper(&server.url(), LONG).await;
    let mut leadership = keeper.election("leader").unwrap().campaign("one").await.unwrap();
    // A candidate of the election.
    let candidate = tokio::spawn(keeper.election("leader").unwrap().campaign("next").into_future());
    until_waiting(&keeper, "leader", 1).await;
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..FOLLOWERS {
        let (follower, sender) = (super::keeper(&server.url(), LONG).await, sender.clone());
        tokio::spawn(async move {
            let mut observer = follower.election("leader").unwrap().observe();
            while let Ok(leader) = observer.next().await {
                if sender.send(leader.map(|leader| leader.value)).is_err() {
                    break;
                }
            }
        });
    }
    let mut all_receive = async |what: &[u8]| {
        for _ in 0..FOLLOWERS {
            assert_eq!(within(TIME_LIMIT, receiver.recv()).await.unwrap().as_deref(), Some(what));
        }
    };
    all_receive(b"one").await;
    // The first followers to get the change may still be renewing their watch.
    let settled = async {
        let (mut asked, mut calm) = (0, 0);
        while calm < 5 {
            let before = std::mem::replace(&mut asked, calls(&server, "evalsha"));
            calm = if asked == before { calm + 1 } else { 0 };
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    within(TIME_LIMIT, settled).await;
    let (asked, began) = (calls(&server, "evalsha"), cpu(&server));
    tokio::time::sleep(CALM).await;
    let (asked, cpu) = (calls(&server, "evalsha") - asked, cpu(&server) - began);
    eprintln!(
        "{FOLLOWERS} followers, {CALM:?}: {asked} scripts, {cpu:.3} s of the server's processor"
    );
    assert!(asked < FOLLOWERS as u64, "{asked} scripts in {CALM:?}");
    let published = calls(&server, "publish");
    leadership.proclaim("two").await.unwrap();
    all_receive(b"two").await;
    assert_eq!(calls(&server, "publish") - published, 1);
    candidate.abort();
}

/// The processor time of the server, in seconds.
fn cpu(server: &Redis) -> f64 {
    let used = |field| server.info(field).unwrap().parse::<f64>().unwrap();
    used("used_cpu_user") + used("used_cpu_sys")
}
