//! The checks of a cluster before its use.

use std::time::Duration;

use lockkeeper::{Error, ErrorKind, EtcdStore};
use lockkeeper_live::{Etcd, etcd_debian, etcd_oldest};

use crate::support::{LONG, TIME_LIMIT, is_free, keeper, name, within};

/// Why the cluster is refused, once all members have answered in time.
async fn refused(url: &str) -> Error {
    let builder = EtcdStore::from_url(&url.parse().unwrap()).unwrap();
    let asking = async {
        loop {
            match builder.clone().connect().await {
                Err(error) if error.kind() != ErrorKind::Unavailable => return error,
                _ => {}
            }
        }
    };
    within(TIME_LIMIT, asking).await
}

async fn can_lock(url: &str) {
    is_free(&keeper(url, LONG).await, &name()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_one_is_used_and_older_ones_are_refused() {
    can_lock(&etcd_oldest().unwrap().url()).await;
    let debian = etcd_debian().unwrap();
    let refused = refused(&debian.url()).await;
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    let version = debian.control().version().unwrap();
    assert!(
        refused.to_string().contains(&format!("is etcd {version}, older than 3.5.14")),
        "{refused}"
    );
    assert!(refused.remedy().unwrap().ends_with("or unsafe=version to go without this check"));
    can_lock(&(debian.url() + "?unsafe=version")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_two_clusters_are_refused() {
    let (one, other) = (Etcd::start().unwrap(), Etcd::start().unwrap());
    let url = format!("etcd://{},{}", one.addresses()[0], other.addresses()[0]);
    let refused = refused(&url).await;
    let printed =
        format!("{} is of another cluster than {}", other.addresses()[0], one.addresses()[0]);
    assert!(
        refused.kind() == ErrorKind::Unsupported && refused.to_string().contains(&printed),
        "{refused}"
    );
    can_lock(&(url + "?unsafe=members")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_silent_member_does_not_prevent_opening_a_store() {
    let mut etcd =
        Etcd::builder().members(3).election_timeout(Duration::from_secs(1)).start().unwrap();
    let follower = (etcd.leader().unwrap() + 2) % 3;
    etcd.pause(follower).unwrap();
    can_lock(&(etcd.url() + "?timeout=2s")).await;
    etcd.resume(follower).unwrap();
}
