//! Minimum holds that a new leader of etcd has lengthened: a new leader starts every lease from its
//! beginning.

use std::time::Duration;

use lockkeeper::store::{Interest, MAX, Revision, Store as _, Verdict, Wake};
use lockkeeper_live::Etcd;

use crate::keeps::{LONG, first, only, write};
use crate::support::{Bare, name, patiently};

/// By the clock of the holder's host, the minimum hold is over then.
fn says(etcd: &Etcd, name: &str, until_ms: u64) {
    let (entry, mut record) = only(etcd, name);
    record["keep"]["until_ms"] = until_ms.into();
    write(etcd, &entry, &record);
}

/// All clients use another leader from now on, and the lease of the minimum hold starts from its
/// beginning.
fn another_leader(etcd: &mut Etcd) {
    etcd.restart(0).unwrap();
}

/// Only etcd's clock ends a minimum hold that no leader has lengthened: the clocks of the hosts may
/// differ by an hour.
#[tokio::test]
async fn what_is_kept_for_too_long_is_ended_by_who_comes_next() {
    let (mut etcd, name) = (Etcd::builder().durable().start().unwrap(), name());
    let [holder, next] =
        [Bare::new(&etcd.url(), &name, LONG).await, Bare::new(&etcd.url(), &name, LONG).await];
    holder.granted().await;
    holder.keeps(LONG * 2).await;
    let until = only(&etcd, &name).1["keep"]["until_ms"].as_u64().unwrap();
    says(&etcd, &name, 1);
    assert!(matches!(next.tries().await, Verdict::Busy { .. }), "its holder is there");
    holder.withdrawn().await;
    assert!(matches!(next.tries().await, Verdict::Busy { .. }), "etcd ends it in time");
    another_leader(&mut etcd);
    says(&etcd, &name, until);
    assert!(matches!(patiently_tries(&next).await, Verdict::Busy { .. }), "it is not over");
    says(&etcd, &name, 1);
    assert!(matches!(patiently_tries(&next).await, Verdict::Granted { .. }));
}

async fn patiently_tries(bare: &Bare) -> Verdict {
    let mut trying = bare.another();
    trying.claim.queue = false;
    patiently(async || trying.store.claim(&trying.claim).await).await
}

/// A waiter looks now and then, and a new claim looks at once.
#[tokio::test]
async fn who_waits_behind_what_is_kept_for_too_long_ends_it() {
    for (comes_later, weight) in [(false, 1), (false, MAX), (true, 1), (true, MAX)] {
        let (mut etcd, name) = (Etcd::builder().durable().start().unwrap(), name());
        let [holder, mut next] =
            [Bare::new(&etcd.url(), &name, LONG).await, Bare::new(&etcd.url(), &name, LONG).await];
        next.claim.weight = weight;
        holder.granted().await;
        holder.keeps(LONG * 2).await;
        holder.withdrawn().await;
        if !comes_later {
            patiently_queued(&next).await;
        }
        another_leader(&mut etcd);
        // Only the first key of the line.
        let (entry, mut record) = first(&etcd, &name);
        record["keep"]["until_ms"] = 1.into();
        write(&etcd, &entry, &record);
        if comes_later {
            patiently_queued(&next).await;
        }
        let waking = async {
            let waits =
                || next.store.wait(Interest::Claim(&next.claim.key), Revision::default(), LONG);
            // A member that is gone ends a watch.
            while !matches!(waits().await, Ok(Wake::Granted { .. })) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let woken = tokio::time::timeout(Duration::from_secs(30), waking).await;
        assert!(woken.is_ok(), "comes later: {comes_later}, weight {weight}");
    }
}

async fn patiently_queued(bare: &Bare) {
    let verdict = patiently(async || bare.store.claim(&bare.claim).await).await;
    assert!(matches!(verdict, Verdict::Queued { .. }), "{verdict:?}");
}
