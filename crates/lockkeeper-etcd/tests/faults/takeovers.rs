//! Several clients send and await one claim of a detached session.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockkeeper::store::{Interest, Store as _, Verdict, Wake};
use lockkeeper_live::Etcd;

use crate::shared::clients;
use crate::support::{Bare, UNRENEWED, name, store, within};

const TTL: Duration = Duration::from_secs(30);

/// Each take-over wakes the other client, which claims again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_that_wait_for_one_claim_rarely_take_it_over() {
    const WHILE: Duration = Duration::from_secs(4);
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    holder.granted().await;
    let [mut ours, _] = clients(&etcd, &name, TTL).await;
    ours.claim.resend = false;
    let theirs = Bare { store: store(&etcd.url()).await, claim: ours.claim.clone() };
    let (sent, leases) = (AtomicU32::new(0), etcd.control().leases().unwrap().len());
    let acquire = async |bare: &Bare| loop {
        sent.fetch_add(1, Ordering::Relaxed);
        match bare.store.claim(&bare.claim).await.unwrap() {
            Verdict::Granted { token, .. } => return token,
            Verdict::Queued { seen, look_again, .. } => {
                let woken = bare.store.wait(Interest::Claim(&bare.claim.key), seen, look_again);
                if let Wake::Granted { token } = woken.await.unwrap() {
                    return token;
                }
            }
            other => panic!("{other:?}"),
        }
    };
    let leave = async {
        tokio::time::sleep(WHILE).await;
        let seen = (sent.load(Ordering::Relaxed), etcd.control().leases().unwrap().len() - leases);
        holder.store.withdraw(&holder.claim.key, None).await.unwrap();
        seen
    };
    let (ours, theirs, (sent, leases)) = within(Duration::from_secs(60), async {
        tokio::join!(acquire(&ours), acquire(&theirs), leave)
    })
    .await;
    assert_eq!(ours, theirs, "both have the same claim");
    // Each client has a lease for its notices, and the session has a lease of waiters.
    assert!(sent <= 25 && leases <= 4, "{sent} claims and {leases} more leases in {WHILE:?}");
}
