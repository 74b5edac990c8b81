//! Lists of many locks, on real servers: their cost, and since when they show a lock as held.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::{Guard, Keeper};
use lockkeeper_live::{Act, Etcd, Proxy, Redis, Way};

use crate::etcd_faults::{is_free, patiently, waiter};

const LOCKS: usize = 1000;
/// How much longer each request takes.
const DELAY: Duration = Duration::from_millis(50);
/// How often a client goes to another server.
const MOVES: usize = 10;

async fn keeper(url: &str) -> Keeper {
    Keeper::from_url(url).unwrap().ttl(Duration::from_secs(600)).connect().await.unwrap()
}

/// A request for each lock would take ten times as long.
async fn takes_few_requests(url: &str, proxy: &Proxy, through: &str) {
    let (holder, looker) = (keeper(url).await, keeper(through).await);
    let mut guards: Vec<Guard> = Vec::new();
    for number in 0..LOCKS {
        guards.push(holder.mutex(format!("many/{number}")).unwrap().lock().await.unwrap());
    }
    let admin = looker.admin().unwrap();
    assert_eq!(admin.list("many/", 1).await.unwrap().len(), 1);
    proxy.delay(Way::ToServer, DELAY);
    let began = Instant::now();
    let listed = admin.list("many/", usize::MAX).await.unwrap();
    let took = began.elapsed();
    proxy.heal();
    eprintln!("{LOCKS} locks in {took:?}, of which each request takes {DELAY:?}");
    let has_all = |lock: &lockkeeper::LockInfo| lock.holders.iter().all(|holder| holder.held.is_some());
    assert!(listed.len() == LOCKS && listed.iter().all(has_all));
    assert!(took < DELAY * u32::try_from(LOCKS).unwrap() / 10, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_many_locks_takes_few_requests_on_redis() {
    let server = Redis::start().unwrap();
    let proxy = Proxy::resp(server.address()).unwrap();
    takes_few_requests(&format!("redis://{}", server.address()), &proxy, &format!("redis://{}", proxy.address())).await;
}

/// Another server answers in the middle of a list. The first server's cursor means nothing there,
/// so the list covers the whole second server. One thread: the client knows of the lost connection
/// before its next request.
#[tokio::test]
async fn a_list_that_goes_on_at_another_server_misses_none_of_its_locks() {
    let (first, second) = (Redis::start().unwrap(), Redis::start().unwrap());
    // Keys of another program, more than one request scans.
    first.run(&["EVAL", "for i=1,4000 do redis.call('SET','other:'..i,'') end", "0"]).unwrap();
    let holder = keeper(&second.url()).await;
    let mut guards: Vec<Guard> = Vec::new();
    for number in 0..LOCKS {
        guards.push(holder.mutex(format!("many/{number}")).unwrap().lock().await.unwrap());
    }
    let mut is_moved = false;
    for _ in 0..MOVES {
        let proxy = Proxy::resp(first.address()).unwrap();
        let looker = keeper(&format!("redis://{}", proxy.address())).await;
        proxy.set_target(second.address());
        // The first connection ends behind the first answer.
        let asked = Arc::new(AtomicBool::new(false));
        let is_asked = Arc::clone(&asked);
        proxy.on_request(move |request| {
            asked.fetch_or(request.connection == 1 && request.is("SCAN"), Ordering::SeqCst);
            Act::Pass
        });
        proxy.on_reply(move |reply| match reply.connection == 1 && is_asked.load(Ordering::SeqCst) {
            true => Act::CutAfter,
            false => Act::Pass,
        });
        // A request before the loss was noticed ends with an unknown outcome.
        if let Ok(listed) = looker.admin().unwrap().list("", usize::MAX).await {
            is_moved |= proxy.seen().connections > 1;
            assert_eq!(listed.len(), LOCKS);
        }
    }
    assert!(is_moved, "no list went on at another server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_many_locks_takes_few_requests_on_etcd() {
    let etcd = Etcd::start().unwrap();
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    takes_few_requests(&etcd.url(), &proxy, &etcd.url_through(&[&proxy])).await;
}

/// etcd does not know when a claim was granted. The holder writes it with its first renewal, and
/// does not write the begin of its wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_learns_since_when_a_lock_is_held_that_was_waited_for() {
    const WAITED: Duration = Duration::from_secs(5);
    let etcd = Etcd::start().unwrap();
    for ttl in [Duration::from_secs(3), Duration::from_secs(9)] {
        let keeper = Keeper::from_url(&*etcd.url()).unwrap().ttl(ttl).connect().await.unwrap();
        let first = keeper.mutex("waited").unwrap().lock().await.unwrap();
        let waiting = waiter(&keeper, "waited").await;
        let waits = Instant::now();
        let is_known = async |known: &str| {
            let info = patiently(async || keeper.inspect("waited").await).await;
            let ages =
                (info.holders.first().and_then(|holder| holder.held), info.waiters.first().and_then(|w| w.waited));
            if known == "holder" { ages.0 } else { ages.1 }
        };
        assert!(is_known("waiter").await.is_some());
        while waits.elapsed() < WAITED {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let granted = Instant::now();
        first.release().await.unwrap();
        let second = waiting.await.unwrap().unwrap();
        let held = loop {
            if let Some(held) = is_known("holder").await {
                break held;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert!(held <= granted.elapsed() + Duration::from_millis(100), "{held:?}");
        second.release().await.unwrap();
        is_free(&keeper, "waited").await;
    }
}
