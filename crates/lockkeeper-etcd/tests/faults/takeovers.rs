//! Several clients send and await one claim of a detached session.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockkeeper::store::{Interest, Store as _, Verdict, Wake};
use lockkeeper_live::{Etcd, Proxy, Way};

use crate::keeps::only;
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

/// Whether a request to let go is among the notification keys of the client that the only claim of
/// the line names.
fn is_asked_where_it_is(etcd: &Etcd, name: &str) -> bool {
    let (_, record) = only(etcd, name);
    let [client, id] = ["client", "id"].map(|field| record[field].as_str().unwrap().to_owned());
    etcd.control().get(format!("/lockkeeper/.notify/{client}/{id}")).unwrap().is_some()
}

/// An operator reads whose claim it is, and another client takes the claim over before the request
/// is put. The former client, whose notification keys the operator has read, may be gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_to_let_go_reaches_the_client_that_takes_the_claim_over_meanwhile() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, theirs] = clients(&etcd, &name, TTL).await;
    ours.granted().await;
    let session = ours.claim.key.session.clone();
    theirs.store.renew(&session, &[]).await.unwrap();
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let operator = store(&etcd.url_through(&[&proxy])).await;
    operator.line(&ours.claim.key.name).await.unwrap();
    let slow = Duration::from_millis(300);
    proxy.delay(Way::ToServer, slow);
    let admin = operator.admin().unwrap();
    let (asked, ()) =
        tokio::join!(admin.request_release(&ours.claim.key.name, "op", "upgrade"), async {
            // The line was read, and the lease of the request is on its way.
            tokio::time::sleep(slow + slow / 2).await;
            theirs.granted().await;
        });
    assert!(asked.unwrap());
    assert!(is_asked_where_it_is(&etcd, &name));
}

/// The holder releases after an operator has read who holds, and the next claim holds then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_to_let_go_reaches_the_claim_that_holds_after_a_release() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    holder.granted().await;
    let next = holder.another();
    next.queued().await;
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let operator = store(&etcd.url_through(&[&proxy])).await;
    operator.line(&holder.claim.key.name).await.unwrap();
    let leases = etcd.control().leases().unwrap().len();
    proxy.delay(Way::ToServer, Duration::from_secs(1));
    let admin = operator.admin().unwrap();
    let (asked, ()) =
        tokio::join!(admin.request_release(&holder.claim.key.name, "op", "upgrade"), async {
            // The lease of the request is there, and the request follows a second later.
            while etcd.control().leases().unwrap().len() == leases {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            holder.store.withdraw(&holder.claim.key, None).await.unwrap();
        });
    assert!(asked.unwrap());
    assert!(is_asked_where_it_is(&etcd, &name));
}

/// The new client has read that nobody has asked, and an operator asks before the take-over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_over_leaves_behind_no_request_to_let_go_that_meets_it() {
    let etcd = Etcd::start().unwrap();
    let operator = store(&etcd.url()).await;
    for late in 0..10 {
        let name = name();
        let [ours, mut theirs] = clients(&etcd, &name, TTL).await;
        ours.granted().await;
        let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
        theirs.store = store(&etcd.url_through(&[&proxy])).await;
        theirs.store.renew(&ours.claim.key.session, &[]).await.unwrap();
        let slow = Duration::from_millis(100);
        proxy.delay(Way::ToServer, slow);
        let admin = operator.admin().unwrap();
        let (asked, ()) = tokio::join!(
            async {
                tokio::time::sleep(slow / 2 * late).await;
                admin.request_release(&ours.claim.key.name, "op", "upgrade").await
            },
            theirs.granted()
        );
        assert!(asked.unwrap());
        assert!(is_asked_where_it_is(&etcd, &name), "{late}");
    }
}
