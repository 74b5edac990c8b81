//! Servers and clients of the tests.

use std::time::Duration;

use lockkeeper::{Guard, Keeper, Result};
pub(crate) use lockkeeper_live::locks::{LONG, TIME_LIMIT, name, patiently, renewed, within};
use lockkeeper_live::{Proxy, Redis, Redlock, with};

/// Short enough that a test can wait for its end.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// A busy machine takes longer than 50 ms to answer.
pub(crate) const SLOW: &str = "node-timeout=400ms";

/// A client of these servers.
pub(crate) async fn keeper(url: &str, ttl: Duration) -> Keeper {
    let url = with(url, SLOW);
    patiently(async || Keeper::from_url(&*url).unwrap().ttl(ttl).connect().await).await
}

/// Waits for the lock, and asks again while the store is unavailable.
pub(crate) async fn lock(keeper: &Keeper, name: &str) -> Guard {
    within(TIME_LIMIT, patiently(async || keeper.mutex(name).unwrap().lock().await)).await
}

pub(crate) async fn tried(keeper: &Keeper, name: &str) -> Result<Option<Guard>> {
    keeper.mutex(name).unwrap().try_lock().await
}

/// So many servers, with a clock of its own each, behind a proxy each.
pub(crate) fn behind_proxies(nodes: usize) -> (Redlock, Vec<Proxy>) {
    let servers = Redlock::of(nodes, &Redis::builder().with_clock()).unwrap();
    let proxies = servers.nodes().iter().map(|node| Proxy::resp(node.address()).unwrap()).collect();
    (servers, proxies)
}

/// How many of the servers have a holder of this lock.
pub(crate) fn holding(servers: &Redlock, name: &str) -> usize {
    let name: lockkeeper::LockName = name.parse().unwrap();
    let key = format!("lk:r:{{{}}}", name.encoded());
    let has_one = |node: &&Redis| {
        let fields: Vec<Vec<u8>> = node.query(&["HKEYS", &key]).unwrap_or_default();
        fields.iter().any(|field| field.first() == Some(&b'h'))
    };
    servers.nodes().iter().filter(has_one).count()
}

/// Waits until so many servers have a holder of this lock.
pub(crate) async fn until_holding(servers: &Redlock, name: &str, count: usize) {
    let holds = async {
        while holding(servers, name) != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(TIME_LIMIT, holds).await;
}
