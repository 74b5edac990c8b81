//! What the examination of a store finds in these layouts.

use std::time::Duration;

use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper::store::{Finding, Level};
use lockkeeper_live::Redis;

use crate::support::{JAVA, keeper, name};

pub(crate) async fn examined(url: &str) -> Vec<Finding> {
    let url = url.parse().unwrap();
    let driver = lockkeeper::drivers().into_iter().find(|driver| driver.has_scheme("redis"));
    driver.unwrap().examine(&url, Duration::from_secs(20)).await.findings
}

pub(crate) fn find(all: &[Finding], check: &str) -> Finding {
    all.iter().find(|found| found.check == check).cloned().unwrap_or_else(|| panic!("{all:?}"))
}

#[tokio::test]
async fn the_doctor_names_the_layout_and_the_locks_without_a_ttl() {
    let server = Redis::start().unwrap();
    let plain = format!("{}?layout=plain", server.url());
    let (name, keeper) = (name(), keeper(&server, Layout::Plain).await);
    let all = examined(&plain).await;
    let is_well = |found: &Finding| found.level == Level::Ok || found.check == "persistence";
    assert!(all.iter().all(is_well), "{all:?}");
    assert!(find(&all, "layout").finding.contains("SET NX PX"), "{all:?}");
    assert!(find(&all, "rights").remedy.unwrap().contains("+evalsha"), "{all:?}");
    server.run(&["SET", &name, "worker-7"]).unwrap();
    // An attempt that does not wait leaves no trace, so the doctor does not know the lock.
    keeper.mutex(&*name).unwrap().try_lock().await.unwrap();
    let found = find(&examined(&plain).await, "ttl");
    let known = "no lock that lockkeeper has held or waited for is without a ttl";
    assert_eq!((found.level, &*found.finding), (Level::Ok, known));
    drop(keeper.mutex(&*name).unwrap().lock().wait(Duration::from_millis(50)).await);
    let all = examined(&plain).await;
    let found = find(&all, "ttl");
    assert_eq!(found.level, Level::Warn, "{all:?}");
    let remedy = found.remedy.unwrap();
    assert!(found.finding.contains(&name) && remedy.contains("is a lock"), "{remedy}");
    assert!(remedy.contains("adopt-ttl"), "{remedy}");
    let all = examined(&format!("{}?layout=plian", server.url())).await;
    assert_eq!(all[0].level, Level::Fail);
    assert_eq!(all[0].remedy.as_deref(), Some("layout=plain"), "{all:?}");
}

#[tokio::test]
async fn the_doctor_warns_of_a_lock_of_redisson_without_a_ttl() {
    let server = Redis::start().unwrap();
    let name = name();
    for layout in [Layout::Redisson, Layout::RedissonFenced] {
        let url = format!("{}?layout={}", server.url(), layout.name());
        server.run(&["DEL", &name]).unwrap();
        server.run(&["HSET", &name, JAVA, "1"]).unwrap();
        server.run(&["HSET", "user:7", "name", "bob"]).unwrap();
        let all = examined(&url).await;
        let found = all.iter().find(|found| found.check == "ttl").unwrap();
        assert_eq!(found.level, Level::Warn, "{all:?}");
        assert!(found.finding.contains(&name) && !found.finding.contains("user:7"), "{all:?}");
        assert!(found.remedy.as_ref().unwrap().contains("break --now"), "{all:?}");
        server.run(&["PEXPIRE", &name, "60000"]).unwrap();
        let all = examined(&url).await;
        let found = all.iter().find(|found| found.check == "ttl").unwrap();
        assert_eq!(found.level, Level::Ok, "{all:?}");
    }
}

/// A layout may keep semaphores only. What the doctor leaves is in the way of no other layout.
#[tokio::test]
async fn the_doctor_takes_a_lock_of_the_kind_that_the_layout_keeps() {
    let server = Redis::start().unwrap();
    for layout in Layout::ALL.into_iter().chain(Layout::ALL) {
        let url = format!("{}?layout={}", server.url(), layout.name()).parse().unwrap();
        let all = lockkeeper::doctor::examine(&url, Duration::from_secs(20)).await;
        assert!(all.iter().all(|found| found.level != Level::Fail), "{all:?}");
        assert!(all.iter().any(|found| found.check == "round trip"), "{all:?}");
    }
}

#[tokio::test]
async fn the_doctor_says_what_the_servers_of_a_layout_forget() {
    let server = Redis::start().unwrap();
    server.set("maxmemory-policy", "allkeys-lru").unwrap();
    for layout in Layout::ALL {
        let url = format!("{}?layout={}", server.url(), layout.name());
        let level = |all: &[Finding], check: &str| {
            let found = all.iter().find(|found| found.check == check);
            found.map(|found| found.level)
        };
        let all = examined(&format!("{url}&unsafe=eviction")).await;
        for check in ["eviction", "persistence"] {
            assert_eq!(level(&all, check), Some(Level::Warn), "{check}: {all:?}");
        }
        for check in ["server", "role", "replicas", "memory", "clock"] {
            assert_eq!(level(&all, check), Some(Level::Ok), "{check}: {all:?}");
        }
        assert_eq!(level(&examined(&url).await, "eviction"), Some(Level::Fail));
    }
}
