//! The leases that several clients of a detached session make and choose.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use lockkeeper::store::Store as _;
use lockkeeper_live::Etcd;

use crate::shared::clients;
use crate::support::{Bare, UNRENEWED, lease_of, name, store};

/// One client after the other waits in the session, as with a program that is started again and
/// again. Each client renews all leases of the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_waits_in_a_shared_session_uses_its_wait_lease() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    holder.granted().await;
    let [mut ours, _] = clients(&etcd, &name, Duration::from_secs(8)).await;
    ours.claim.resend = false;
    let session = ours.claim.key.session.clone();
    for _ in 0..6 {
        let next = Bare { store: store(&etcd.url()).await, claim: ours.another().claim };
        next.queued().await;
        next.store.withdraw(&next.claim.key, None).await.unwrap();
    }
    let begun = Instant::now();
    // Longer than a lease of waiters lives.
    while begun.elapsed() < Duration::from_secs(8) {
        ours.store.renew(&session, &[]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let shown = format!("/lockkeeper/.session/{:x}/wait-", lease_of(&session));
    let leases: HashSet<i64> =
        etcd.control().keys(shown).unwrap().into_iter().map(|key| key.lease).collect();
    assert_eq!(leases.len(), 1, "leases of waiters, and no claim waits");
}
