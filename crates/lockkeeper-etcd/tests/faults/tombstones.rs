//! The leases of tombstones.

use std::time::Duration;

use lockkeeper::store::{Claim, Store as _, TOMBSTONE_MIN};
use lockkeeper_live::Etcd;

use crate::releases::poll_once;
use crate::support::{Bare, UNRENEWED, name, within};

/// Much more than a few requests to a server on this host take.
const LIMIT: Duration = Duration::from_secs(6);

/// A resend that finds nothing needs a tombstone too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpolled_withdrawal_that_makes_a_lease_delays_no_tombstone() {
    let etcd = Etcd::start().unwrap();
    let first = Bare::new(&etcd.url(), &name(), UNRENEWED).await;
    let mut second = first.another();
    second.claim.key.name = name().parse().unwrap();
    let mut left_alone = first.store.withdraw(&first.claim.key, Some(TOMBSTONE_MIN));
    poll_once(&mut left_alone);
    let again = Claim { resend: true, ..second.another().claim };
    let (withdrawn, resent) = within(LIMIT, async {
        tokio::join!(
            second.store.withdraw(&second.claim.key, Some(TOMBSTONE_MIN)),
            second.store.claim(&again),
        )
    })
    .await;
    withdrawn.unwrap();
    resent.unwrap();
    within(LIMIT, left_alone).await.unwrap();
}
