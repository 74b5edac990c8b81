//! The two leases that the key of a holder may have: the key is on the lease that ends last, after
//! every operation.

use std::time::Duration;

use lockkeeper::store::Verdict;
use lockkeeper::{Guard, Keeper};
use lockkeeper_live::Etcd;

use crate::keeps::{LONG, TTL, only, timer};
use crate::support::{Bare, TIME_LIMIT, keeper, line, name, within};

/// etcd rounds the remaining time down to whole seconds.
fn lasts(etcd: &Etcd, name: &str) -> Duration {
    let left = etcd.control().lease_left(line(etcd, name)[0].lease).unwrap().unwrap();
    Duration::from_secs(u64::try_from(left).unwrap() + 1)
}

/// A fixed lease gets another session at its upgrade, which ends after the timer of the minimum
/// hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writer_that_a_fixed_reader_becomes_does_not_outlive_its_lease() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let keeper = keeper(&etcd.url(), TTL).await;
    let reading = keeper.rw_lock(&name).unwrap().read();
    let reader =
        reading.lease(Duration::from_secs(6)).min_hold(Duration::from_secs(9)).await.unwrap();
    let (entry, record) = only(&etcd, &name);
    assert_eq!(entry.lease, timer(&record), "the reader is on its timer");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let writer = reader.try_upgrade().await.unwrap();
    let (lasts, believes) = (lasts(&etcd, &name), writer.remaining());
    assert!(
        lasts >= believes,
        "it lasts {lasts:?} at most, and the writer believes for {believes:?}"
    );
    writer.release().await.unwrap();
    let (entry, record) = only(&etcd, &name);
    assert_eq!(
        (entry.lease, record["keep"]["released"].as_bool()),
        (timer(&record), Some(true)),
        "it is kept"
    );
}

/// Readers whose timers outlive the last renewal of the session, and do not outlive its next
/// renewal.
async fn readers(etcd: &Etcd, keeper: &Keeper, names: &[String]) -> Vec<Guard> {
    let mut readers = Vec::new();
    for name in names {
        let reading =
            keeper.rw_lock(name).unwrap().read().min_hold(TTL + Duration::from_millis(400));
        readers.push(reading.await.unwrap());
        let (entry, record) = only(etcd, name);
        assert_eq!(entry.lease, timer(&record), "the reader is on its timer");
    }
    tokio::time::sleep(Duration::from_millis(2500)).await;
    readers
}

/// A renewal of the session is acknowledged while an upgrade is under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_meets_a_renewal_does_not_outlive_its_lease() {
    let etcd = Etcd::start().unwrap();
    let keeper = keeper(&etcd.url(), TTL).await;
    let names: Vec<_> = (0..40).map(|_| name()).collect();
    let other = keeper.mutex(name()).unwrap().lock().await.unwrap();
    let readers = readers(&etcd, &keeper, &names).await;
    let mut upgrades = tokio::task::JoinSet::new();
    for (number, (name, reader)) in names.into_iter().zip(readers).enumerate() {
        upgrades.spawn(async move {
            tokio::time::sleep(Duration::from_millis(number as u64)).await;
            (name, reader.try_upgrade().await.unwrap())
        });
    }
    tokio::time::sleep(Duration::from_millis(15)).await;
    other.renew_once().await.unwrap();
    let writers = within(TIME_LIMIT, upgrades.join_all()).await;
    for (name, writer) in writers {
        // In this order: at most, a renewal comes between.
        let believes = writer.remaining();
        let lasts = lasts(&etcd, &name);
        assert!(
            lasts >= believes,
            "it lasts {lasts:?} at most, and the writer believes for {believes:?}"
        );
    }
}

/// The answer to the first request was lost, and etcd has started the timer from its beginning
/// since.
#[tokio::test]
async fn a_minimum_hold_that_was_asked_for_before_is_kept() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, TTL).await;
    holder.granted().await;
    let (entry, mut record) = only(&etcd, &name);
    let lease = etcd.control().grant(u32::try_from(LONG.as_secs()).unwrap() + 60).unwrap();
    record["keep"] = serde_json::json!({ "lease": lease, "until_ms": u64::MAX / 2, "term": 1 });
    crate::keeps::write(&etcd, &entry, &record);
    holder.keeps(LONG).await;
    assert_eq!(timer(&only(&etcd, &name).1), lease);
    holder.withdrawn().await;
    let (entry, record) = only(&etcd, &name);
    assert_eq!(
        (entry.lease, record["keep"]["released"].as_bool()),
        (lease, Some(true)),
        "it is kept: {record}"
    );
    assert!(matches!(holder.tries().await, Verdict::Busy { .. }));
}

/// Two entries of one claim ask for minimum holds side by side: the claim is kept for the longer
/// one, and no timer is left over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longer_of_two_simultaneous_minimum_holds_counts() {
    let etcd = Etcd::start().unwrap();
    for _ in 0..10 {
        let name = name();
        let holder = Bare::new(&etcd.url(), &name, TTL).await;
        holder.granted().await;
        tokio::join!(holder.keeps(LONG), holder.keeps(LONG / 100));
        holder.withdrawn().await;
        let (entry, record) = only(&etcd, &name);
        assert_eq!(entry.lease, timer(&record), "it is kept: {record}");
        let lasts = lasts(&etcd, &name);
        assert!(lasts > LONG / 2, "it lasts {lasts:?}");
    }
}
