//! Lists of many locks, on every store: their cost.

use std::time::{Duration, Instant};

use lockkeeper::{Guard, Keeper};
use lockkeeper_live::locks::UNRENEWED;
use lockkeeper_live::{Etcd, Proxy, Redis, Way};

const LOCKS: usize = 1000;
/// How much longer each request takes.
const DELAY: Duration = Duration::from_millis(50);

async fn keeper(url: &str) -> Keeper {
    Keeper::from_url(url).unwrap().ttl(UNRENEWED).connect().await.unwrap()
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
    let has_all =
        |lock: &lockkeeper::LockInfo| lock.holders.iter().all(|holder| holder.held.is_some());
    assert!(listed.len() == LOCKS && listed.iter().all(has_all));
    assert!(took < DELAY * u32::try_from(LOCKS).unwrap() / 10, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_many_locks_takes_few_requests_on_redis() {
    let server = Redis::start().unwrap();
    let proxy = Proxy::resp(server.address()).unwrap();
    takes_few_requests(
        &format!("redis://{}", server.address()),
        &proxy,
        &format!("redis://{}", proxy.address()),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_many_locks_takes_few_requests_on_etcd() {
    let etcd = Etcd::start().unwrap();
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    takes_few_requests(&etcd.url(), &proxy, &etcd.url_through(&[&proxy])).await;
}
