//! Detached locks outlive the processes that hold them.

use std::time::{Duration, Instant};

use lockkeeper::ErrorKind;

use super::{keeper, lock, short_ttl, worker};
use crate::locks::{LONG, TIME_LIMIT, is_free, name, patiently, within};
use crate::server::LiveStore;

/// What an error says of where a store is.
fn address(url: &str) -> &str {
    let address = url.split_once(':').unwrap().1.trim_start_matches('/');
    address.split('?').next().unwrap()
}

/// A lock is acquired in one process, renewed in a second, and released in a third. A keeper of
/// another store does not adopt it.
pub async fn a_detached_lock_is_handed_from_process_to_process<S: LiveStore>() {
    let (store, elsewhere, name) = (S::start().unwrap(), S::start().unwrap(), name());
    let keeper_here = keeper(&store.url(), LONG).await;
    let is_held = async || {
        let tried = patiently(async || keeper_here.mutex(&*name).unwrap().try_lock().await);
        tried.await.is_none()
    };
    let mut first = worker::start::<S>(&store.url());
    let handle = first.ask(&format!("detach {name} 60000"));
    first.kill();
    assert!(is_held().await, "it ended with its process");
    let mut second = worker::start::<S>(&store.url());
    assert_eq!(second.ask(&format!("renew {handle}")), "held");
    assert!(second.end().success());
    assert!(is_held().await, "the second process has ended it");
    let other = keeper(&elsewhere.url(), LONG).await;
    let error = other.adopt(handle.parse().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    for url in [store.url(), elsewhere.url()] {
        assert!(error.to_string().contains(address(&url)), "{error}");
    }
    let mut third = worker::start::<S>(&store.url());
    assert_eq!(third.ask(&format!("release {handle}")), "released");
    assert_eq!(third.ask(&format!("renew {handle}")), "Lost");
    assert_eq!(third.ask(&format!("release {handle}")), "Lost");
    assert!(third.end().success());
    is_free(&keeper_here, &name).await;
}

/// A detached lock ends with its ttl while other claims wait, and no client has to end it.
pub async fn a_detached_lock_without_renewals_ends_with_its_ttl<S: LiveStore>() {
    let (store, name, ttl) = (S::start().unwrap(), name(), short_ttl::<S>());
    let keeper = keeper(&store.url(), LONG).await;
    let mut worker = worker::start::<S>(&store.url());
    let began = Instant::now();
    let handle = worker.ask(&format!("detach {name} {}", ttl.as_millis()));
    worker.kill();
    let guard = within(TIME_LIMIT, lock(&keeper, &name)).await;
    assert!(began.elapsed() >= ttl - Duration::from_millis(10), "{:?}", began.elapsed());
    let error = keeper.adopt(handle.parse().unwrap()).unwrap().release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    guard.check().unwrap();
    guard.release().await.unwrap();
}
