//! Clients that look for a detached session which they have not opened.

use std::time::{Duration, Instant};

use lockkeeper::Effect;
use lockkeeper::store::{Claim, ClaimId, Live, LiveState, Renewal, SessionId, Store as _};
use lockkeeper_live::{Etcd, Proxy, Way};

use crate::releases::poll_once;
use crate::shared::{clients, spec};
use crate::support::{TIME_LIMIT, name, store, within};

const TTL: Duration = Duration::from_secs(30);
/// Much more than a few requests to a server on this host take.
const LIMIT: Duration = Duration::from_secs(6);

/// A renewal that waited for the release would lose its locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpolled_lookup_of_a_session_delays_no_other_session() {
    let (etcd, names) = (Etcd::start().unwrap(), [name(), name()]);
    let [first, _] = clients(&etcd, &names[0], TTL).await;
    let [second, _] = clients(&etcd, &names[1], TTL).await;
    first.granted().await;
    second.granted().await;
    let other = store(&etcd.url()).await;
    let mut left_alone = other.withdraw(&first.claim.key, None);
    poll_once(&mut left_alone);
    let live = |key| [Live { key, state: LiveState::Granted }];
    let live = live(second.claim.key.clone());
    let renewed = within(LIMIT, other.renew(&second.claim.key.session, &live)).await.unwrap();
    assert!(matches!(renewed.claims[..], [Renewal::Held { .. }]), "{:?}", renewed.claims);
    // The other calls in the session of the release do not wait either.
    within(LIMIT, other.renew(&first.claim.key.session, &[])).await.unwrap();
    within(LIMIT, left_alone).await.unwrap();
}

/// A client that was started again takes over many detached locks at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_detached_sessions_are_found_side_by_side() {
    const MANY: usize = 40;
    let (etcd, ttl) = (Etcd::start().unwrap(), Duration::from_secs(6));
    let slow = Duration::from_millis(200);
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let other = store(&etcd.url_through(&[&proxy])).await;
    let [first, _] = clients(&etcd, &name(), ttl).await;
    let mut holders = Vec::new();
    for _ in 0..MANY {
        let mut holder = first.another();
        holder.claim.key.session = SessionId::random();
        holder.claim.key.name = name().parse().unwrap();
        holder.store.open(&holder.claim.key.session, &spec(&holder)).await.unwrap();
        holder.granted().await;
        holders.push(holder);
    }
    let begun = Instant::now();
    proxy.delay(Way::ToServer, slow);
    let renewals = holders.into_iter().map(|holder| {
        let other = other.clone();
        tokio::spawn(async move {
            let live = [Live { key: holder.claim.key.clone(), state: LiveState::Granted }];
            other.renew(&holder.claim.key.session, &live).await.map(|renewed| renewed.claims)
        })
    });
    let mut lost = 0;
    for renewal in renewals.collect::<Vec<_>>() {
        let renewed = renewal.await.unwrap();
        lost += usize::from(!matches!(renewed.as_deref(), Ok([Renewal::Held { .. }])));
    }
    assert_eq!(
        lost,
        0,
        "of {MANY} locks with a ttl of {ttl:?}, after {:?} at {slow:?} for a request",
        begun.elapsed()
    );
}

/// etcd is silent. So many calls in a session look for it. Returns how long each call took until it
/// failed, and the effect that its error names.
async fn calls_at_a_silent_etcd(many: usize, timeout: &str) -> Vec<(Duration, Effect)> {
    let etcd = Etcd::start().unwrap();
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let [first, _] = clients(&etcd, &name(), TTL).await;
    let other = store(&format!("{}?timeout={timeout}", etcd.url_through(&[&proxy]))).await;
    proxy.black_hole(Way::ToClient);
    let begun = Instant::now();
    let releases = (0..many).map(|_| {
        let (other, mut key) = (other.clone(), first.claim.key.clone());
        (key.name, key.id) = (name().parse().unwrap(), ClaimId::random());
        tokio::spawn(async move {
            let error = other.withdraw(&key, None).await.unwrap_err();
            (begun.elapsed(), error.effect())
        })
    });
    let mut took = Vec::new();
    for release in releases.collect::<Vec<_>>() {
        took.push(release.await.unwrap());
    }
    took
}

fn are_short(took: &[(Duration, Effect)]) -> bool {
    took.iter().all(|(took, effect)| *took < Duration::from_secs(3) && *effect == Effect::None)
}

/// The releases that wait for the lookup of one of them fail with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_one_session_at_a_silent_etcd_do_not_wait_one_after_the_other() {
    let took = calls_at_a_silent_etcd(12, "500ms").await;
    assert!(are_short(&took), "{took:?}");
}

/// A lookup ends with the time-out, which is not long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_one_session_with_a_short_timeout_do_not_wait_one_after_the_other() {
    let took = calls_at_a_silent_etcd(40, "200ms").await;
    assert!(are_short(&took), "{took:?}");
}

/// A claim waits for its turn among the calls that look for its session, and its withdrawal, which
/// comes later, finds the session known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_withdrawal_does_not_overtake_its_claim_that_looks_for_the_session() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, _] = clients(&etcd, &name, TTL).await;
    ours.granted().await;
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let theirs = store(&etcd.url_through(&[&proxy])).await;
    theirs.line(&ours.claim.key.name).await.unwrap();
    let replacing =
        Claim { queue: false, replaces: Some(ours.claim.key.id), ..ours.another().claim };
    let claim = ours.another().claim;
    let slow = Duration::from_millis(400);
    proxy.delay(Way::ToServer, slow);
    let mut first = theirs.claim(&replacing);
    poll_once(&mut first);
    let mut second = theirs.claim(&claim);
    poll_once(&mut second);
    tokio::time::sleep(slow + slow / 4).await;
    let withdrawing = theirs.withdraw(&claim.key, None);
    let (_, _, withdrawn) =
        within(TIME_LIMIT, async { tokio::join!(first, second, withdrawing) }).await;
    withdrawn.unwrap();
    let entries = theirs.line(&ours.claim.key.name).await.unwrap().entries;
    assert!(entries.iter().all(|entry| entry.id != claim.key.id.hash()), "{entries:?}");
}
