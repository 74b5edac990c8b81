//! Lists of many locks: their cost.

use std::time::{Duration, Instant};

use lockkeeper::{Guard, LockInfo};

use super::{keeper, lock};
use crate::locks::UNRENEWED;
use crate::proxy::Way;
use crate::server::{Server, with};

const LOCKS: usize = 1000;
/// An etcd that shares a processor with others has taken more than its 3 s for one request.
const PATIENT: &str = "timeout=30s";
/// How much longer each request takes.
const DELAY: Duration = Duration::from_millis(50);

/// A request for each lock would take twice as long as the limit.
pub async fn a_list_of_many_locks_takes_few_requests<S: Server>() {
    let server = S::start().unwrap();
    let holder = keeper(&server.url(), UNRENEWED).await;
    let looker = keeper(&with(&server.url_through_proxies(), PATIENT), UNRENEWED).await;
    let mut guards: Vec<Guard> = Vec::new();
    for number in 0..LOCKS {
        guards.push(lock(&holder, &format!("many/{number}")).await);
    }
    let admin = looker.admin().unwrap();
    assert_eq!(admin.list("many/", 1).await.unwrap().len(), 1);
    server.proxies().iter().for_each(|proxy| proxy.delay(Way::ToServer, DELAY));
    let began = Instant::now();
    let listed = admin.list("many/", usize::MAX).await.unwrap();
    let took = began.elapsed();
    server.heal().unwrap();
    eprintln!("{LOCKS} locks in {took:?}, of which each request takes {DELAY:?}");
    let has_all = |lock: &LockInfo| lock.holders.iter().all(|holder| holder.held.is_some());
    assert!(listed.len() == LOCKS && listed.iter().all(has_all));
    assert!(took < DELAY * u32::try_from(LOCKS).unwrap() / 2, "{took:?}");
}
