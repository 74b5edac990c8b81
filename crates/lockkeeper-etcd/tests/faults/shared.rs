//! Several clients use one detached session: what one of them does ends no claim of another one.

use std::time::Duration;

use lockkeeper::ErrorKind;
use lockkeeper::store::{
    Amend, Amended, Claim, ClaimKey, Live, LiveState, Renewal, SessionId, SessionSpec, Store as _,
};
use lockkeeper_live::{Etcd, Proxy, Way};

use crate::keeps::{LONG, only, timer};
use crate::support::{Bare, lease_of, line, name, send, store};

const TTL: Duration = Duration::from_secs(30);

/// How long each request of a slow client takes to etcd.
const SLOW: Duration = Duration::from_millis(100);

pub(super) fn spec(bare: &Bare) -> SessionSpec {
    let durations = SessionSpec::new(bare.claim.ttl, Duration::ZERO);
    SessionSpec { wait_ttl: bare.claim.wait_ttl, detached: true, ..durations }
}

/// A client with a detached session, and another client of that session that has not opened it.
pub(super) async fn clients(etcd: &Etcd, name: &str, ttl: Duration) -> [Bare; 2] {
    let mut ours = Bare::new(&etcd.url(), name, ttl).await;
    ours.claim.key.session = SessionId::random();
    ours.store.open(&ours.claim.key.session, &spec(&ours)).await.unwrap();
    let theirs = Bare {
        store: store(&etcd.url()).await,
        claim: Claim { resend: true, ..ours.claim.clone() },
    };
    [ours, theirs]
}

/// The same, but the second client is behind a proxy.
async fn clients_and_proxy(etcd: &Etcd, name: &str) -> ([Bare; 2], Proxy) {
    let [ours, mut theirs] = clients(etcd, name, TTL).await;
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    theirs.store = store(&etcd.url_through(&[&proxy])).await;
    theirs.store.renew(&theirs.claim.key.session, &[]).await.unwrap();
    ([ours, theirs], proxy)
}

/// Asserts that the line keeps this many claims, however late a request of another client comes.
async fn stays(etcd: &Etcd, name: &str, claims: usize) {
    for _ in 0..25 {
        assert_eq!(line(etcd, name).len(), claims);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Renews the session with none of its claims. An unknown claim makes the renewal list the keys of
/// all leases.
async fn misses_all(client: &Bare) {
    let live = Live { key: client.another().claim.key, state: LiveState::InFlight };
    client.store.renew(&client.claim.key.session, &[live]).await.unwrap();
}

impl Bare {
    async fn is_held(&self) {
        let renewal = self.renew(LiveState::Granted).await.unwrap();
        assert!(matches!(renewal, Renewal::Held { .. }), "{renewal:?}");
    }
}

/// The refused client has made the first lease, but another client uses the lease before the
/// refusal.
#[tokio::test(flavor = "multi_thread")]
async fn an_opening_that_is_refused_ends_no_session() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [mut ours, theirs] = clients(&etcd, &name, TTL).await;
    theirs.store.open(&SessionId::random(), &spec(&ours)).await.unwrap();
    let session = SessionId::random();
    let (lease, other) =
        (lease_of(&session), SessionSpec { wait_ttl: Duration::from_secs(1), ..spec(&ours) });
    let mut opening = theirs.store.open(&session, &other);
    send(&mut opening, || etcd.control().leases().unwrap().contains(&lease)).await;
    ours.claim.key.session = session.clone();
    ours.store.open(&session, &spec(&ours)).await.unwrap();
    ours.granted().await;
    assert_eq!(opening.await.unwrap_err().kind(), ErrorKind::Invalid);
    stays(&etcd, &name, 1).await;
    ours.is_held().await;
}

/// A client that opens a closed session makes its first lease before the refusal.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_granted_in_a_session_that_another_client_has_closed() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, theirs] = clients(&etcd, &name, TTL).await;
    let third = store(&etcd.url()).await;
    third.open(&SessionId::random(), &spec(&ours)).await.unwrap();
    let (session, spec) = (ours.claim.key.session.clone(), spec(&ours));
    let mut all = Vec::new();
    for _ in 0..3 {
        // A client of its own, since a refused client forgets the session.
        let client = store(&etcd.url()).await;
        client.renew(&session, &[]).await.unwrap();
        all.push(client);
    }
    theirs.store.close(&session, &[]).await.unwrap();
    let (lease, mut opening) = (lease_of(&session), third.open(&session, &spec));
    send(&mut opening, || etcd.control().leases().unwrap().contains(&lease)).await;
    for (client, (queue, weight)) in
        all.iter().zip([(true, u32::MAX), (true, 1), (false, u32::MAX)])
    {
        let claim = Claim { queue, weight, ..ours.another().claim };
        let error = client.claim(&claim).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    }
    assert_eq!(opening.await.unwrap_err().kind(), ErrorKind::SessionLost);
    stays(&etcd, &name, 0).await;
}

/// The session has ended, and the same id was opened again: what the client knows is of the session
/// before.
#[tokio::test]
async fn a_client_that_missed_the_end_of_a_session_claims_nothing_in_the_next_one() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, theirs] = clients(&etcd, &name, TTL).await;
    let session = &ours.claim.key.session;
    etcd.control().revoke(lease_of(session)).unwrap();
    theirs.store.open(session, &spec(&ours)).await.unwrap();
    let error = ours.store.claim(&ours.claim).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    ours.store.open(session, &spec(&ours)).await.unwrap();
    ours.another().granted().await;
}

/// The client that made the lease does not know that others have seen it.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_others_may_have_chosen_is_not_given_back() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, TTL).await;
    holder.granted().await;
    let ([ours, theirs], proxy) = clients_and_proxy(&etcd, &name).await;
    let shown = format!("/lockkeeper/.session/{:x}/wait-", lease_of(&ours.claim.key.session));
    proxy.delay(Way::ToClient, SLOW);
    let (claim, its) = (Claim { resend: false, ..theirs.another().claim }, theirs.store.clone());
    let claiming = tokio::spawn(async move { its.claim(&claim).await });
    while etcd.control().keys(&shown).unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    proxy.black_hole(Way::ToClient);
    let lease = etcd.control().keys(&shown).unwrap()[0].lease;
    ours.store.renew(&ours.claim.key.session, &[]).await.unwrap();
    ours.queued().await;
    assert_eq!(line(&etcd, &name)[1].lease, lease);
    proxy.heal();
    proxy.cut();
    claiming.await.unwrap().unwrap_err();
    stays(&etcd, &name, 2).await;
}

/// Another client has missed the claim in its list, before the minimum hold began.
#[tokio::test]
async fn what_is_kept_is_no_leftover() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, theirs] = clients(&etcd, &name, Duration::from_secs(2)).await;
    ours.granted().await;
    misses_all(&theirs).await;
    let missed = format!("/lockkeeper/.session/{:x}/missed", lease_of(&ours.claim.key.session));
    while etcd.control().keys(&missed).unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ours.keeps(LONG).await;
    ours.withdrawn().await;
    while !etcd.control().keys(&missed).unwrap().is_empty() {
        misses_all(&theirs).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(line(&etcd, &name).len(), 1);
}

/// The claim is on the lease of its session, which ends later than the minimum hold.
#[tokio::test]
async fn a_leftover_stays_for_its_minimum_hold() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, theirs] = clients(&etcd, &name, Duration::from_secs(4)).await;
    ours.granted().await;
    let (session, key) = (&ours.claim.key.session, only(&etcd, &name).0.key);
    let missed = format!("/lockkeeper/.session/{:x}/missed", lease_of(session));
    let mut hold = Some(Duration::from_secs(3));
    let began = std::time::Instant::now();
    loop {
        misses_all(&theirs).await;
        if began.elapsed() > Duration::from_secs(3)
            && let Some(hold) = hold.take()
        {
            assert_eq!(
                ours.store.amend(&ours.claim.key, 1, &Amend::MinHold(hold)).await.unwrap(),
                Amended::Done
            );
            assert_eq!(only(&etcd, &name).0.lease, lease_of(session));
        }
        if hold.is_none() && etcd.control().keys(&missed).unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (kept, record) = only(&etcd, &name);
    assert_eq!((kept.key, kept.lease), (key, timer(&record)));
    assert_eq!(record["keep"]["released"], true);
}

/// What names another key than its own hash was written by no client of the session.
#[tokio::test]
async fn a_key_that_nobody_has_missed_is_not_removed() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [ours, theirs] = clients(&etcd, &name, Duration::from_secs(2)).await;
    let (session, victim) = (&ours.claim.key.session, format!("/another/{name}"));
    let lease = lease_of(session);
    etcd.control().put(&victim, "x").unwrap();
    let forged = format!("/lockkeeper/.session/{lease:x}/missed-00112233445566778899aabbccddeeff");
    etcd.control().put_with_lease(&forged, &victim, lease).unwrap();
    ours.granted().await;
    while !line(&etcd, &name).is_empty() {
        misses_all(&theirs).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    misses_all(&theirs).await;
    assert!(etcd.control().get(&victim).unwrap().is_some());
}

/// The other client reads the claim before the minimum hold begins, and releases the claim after
/// that.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_through_another_client_leaves_a_minimum_hold_that_has_just_begun() {
    let etcd = Etcd::start().unwrap();
    let ([first, slow], proxy) = clients_and_proxy(&etcd, &name()).await;
    for late in 0..6 {
        let name = name();
        let mut ours = first.another();
        ours.claim.key.name = name.parse().unwrap();
        ours.granted().await;
        let key: &ClaimKey = &ours.claim.key;
        proxy.delay(Way::ToServer, SLOW);
        let (withdrawn, amended) = tokio::join!(slow.store.withdraw(key, None), async {
            tokio::time::sleep(SLOW / 2 * late).await;
            ours.store.amend(key, 1, &Amend::MinHold(LONG)).await
        });
        proxy.delay(Way::ToServer, Duration::ZERO);
        withdrawn.unwrap();
        let kept = amended.unwrap() == Amended::Done;
        assert_eq!(line(&etcd, &name).len(), usize::from(kept), "{late}");
        assert!(!kept || only(&etcd, &name).1["keep"]["released"] == true);
    }
}

/// A claim deletes the claim that leaves before it, but not the claim whose minimum hold has begun
/// meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_behind_a_release_is_not_granted_beside_a_minimum_hold() {
    let etcd = Etcd::start().unwrap();
    let ([first, slow], proxy) = clients_and_proxy(&etcd, &name()).await;
    for late in 0..8 {
        let name = name();
        let [mut ours, mut next] = [first.another(), slow.another()];
        for bare in [&mut ours, &mut next] {
            bare.claim.key.name = name.parse().unwrap();
        }
        next.claim = Claim { resend: false, queue: false, ..next.claim.clone() };
        ours.granted().await;
        let key: &ClaimKey = &ours.claim.key;
        proxy.delay(Way::ToServer, SLOW);
        let claiming = async {
            // The release has been sent, and reads the claim.
            tokio::time::sleep(SLOW + SLOW / 4).await;
            next.store.claim(&next.claim).await
        };
        let amending = async {
            tokio::time::sleep(SLOW / 2 * late).await;
            ours.store.amend(key, 1, &Amend::MinHold(LONG)).await
        };
        let (withdrawn, claimed, amended) =
            tokio::join!(slow.store.withdraw(key, None), claiming, amending);
        proxy.delay(Way::ToServer, Duration::ZERO);
        withdrawn.unwrap();
        let is_granted = matches!(claimed.unwrap(), lockkeeper::store::Verdict::Granted { .. });
        let is_kept = amended.unwrap() == Amended::Done;
        assert!(!(is_granted && is_kept), "{late}");
        assert_eq!(
            line(&etcd, &name).len(),
            usize::from(is_granted) + usize::from(is_kept),
            "{late}"
        );
    }
}

/// The replacing client reads the claim before its minimum hold is made longer, on another timer.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_replaces_another_one_stays_when_the_minimum_hold_has_just_been_made_longer() {
    let etcd = Etcd::start().unwrap();
    let ([first, slow], proxy) = clients_and_proxy(&etcd, &name()).await;
    for late in 0..10 {
        let name = name();
        let mut ours = first.another();
        ours.claim.key.name = name.parse().unwrap();
        ours.granted().await;
        ours.keeps(LONG).await;
        let mut next = slow.another();
        next.claim = Claim {
            resend: false,
            queue: false,
            replaces: Some(ours.claim.key.id),
            ..ours.another().claim
        };
        proxy.delay(Way::ToServer, SLOW);
        let (replaced, ()) = tokio::join!(next.store.claim(&next.claim), async {
            tokio::time::sleep(SLOW / 2 * late).await;
            let amended =
                ours.store.amend(&ours.claim.key, u64::MAX >> 12, &Amend::MinHold(LONG * 2)).await;
            assert!(matches!(amended, Ok(Amended::Done | Amended::NotLive)), "{amended:?}");
        });
        proxy.delay(Way::ToServer, Duration::ZERO);
        if let Err(error) = &replaced {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
        stays(&etcd, &name, 1).await;
        let (entry, record) = only(&etcd, &name);
        assert_eq!(entry.lease, timer(&record), "{late}: {record}");
    }
}
