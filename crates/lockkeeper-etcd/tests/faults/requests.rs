//! A client requests a lock whose holder has no connection to etcd at the moment.

use std::time::Duration;

use lockkeeper_live::{Etcd, Proxy, Way};

use crate::support::{TIME_LIMIT, keeper, name, patiently, within};

/// A third of this is longer than the limit of a test: only the renewal after the cut can bring
/// news.
const TTL: Duration = Duration::from_secs(300);

/// The request comes while the holder has no connection: no watch of the holder reports it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_during_an_outage_is_received_after_the_reconnection() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let (holder, asker) =
        (keeper(&etcd.url_through(&[&proxy]), TTL).await, keeper(&etcd.url(), TTL).await);
    let guard = holder.mutex(&name).unwrap().lock().await.unwrap();
    proxy.refuse();
    proxy.cut();
    let admin = asker.admin().unwrap();
    assert!(patiently(async || admin.request_release(&name, "a hot fix").await).await);
    proxy.accept().unwrap();
    let request = within(3 * TIME_LIMIT, guard.release_requested()).await;
    assert_eq!(request.reason, "a hot fix");
    guard.release().await.unwrap();
}

/// The network swallows etcd's messages, and the client notices only when the connection ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_the_network_swallows_is_received_by_the_next_watch() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let (holder, asker) =
        (keeper(&etcd.url_through(&[&proxy]), TTL).await, keeper(&etcd.url(), TTL).await);
    let guard = holder.mutex(&name).unwrap().lock().await.unwrap();
    proxy.black_hole(Way::ToClient);
    let admin = asker.admin().unwrap();
    assert!(patiently(async || admin.request_release(&name, "a hot fix").await).await);
    proxy.heal();
    proxy.cut();
    let request = within(3 * TIME_LIMIT, guard.release_requested()).await;
    assert_eq!(request.reason, "a hot fix");
    guard.release().await.unwrap();
}
