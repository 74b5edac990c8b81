//! Leftovers in etcd, and their display, when a minimum hold meets another operation.

use std::time::Duration;

use lockkeeper::store::{
    Amend, Evict, LiveState, MAX, Renewal, SessionId, SessionSpec, Store as _, Target, Withdrawal,
};
use lockkeeper::{Effect, ErrorKind};
use lockkeeper_live::{Act, Etcd, Proxy, Way};

use crate::keeps::{LONG, TTL, only};
use crate::support::{Bare, TIME_LIMIT, UNRENEWED, drive, lease_of, name, within};

/// A lock whose holder is gone costs two requests for leases.
#[tokio::test]
async fn a_list_shows_of_many_that_they_are_kept() {
    let etcd = Etcd::start().unwrap();
    let (prefix, first) = (name(), Bare::new(&etcd.url(), &name(), TTL).await);
    let semaphore = format!("{prefix}/permits");
    for number in 0..40 {
        let mut holder = first.another();
        holder.claim.key.session = SessionId::random();
        let spec = SessionSpec::new(TTL, Duration::ZERO);
        first.store.open(&holder.claim.key.session, &spec).await.unwrap();
        holder.claim.key.name = format!("{prefix}/{number}").parse().unwrap();
        if number % 2 == 0 {
            (holder.claim.key.name, holder.claim.weight, holder.claim.capacity) =
                (semaphore.parse().unwrap(), 1, 100);
        }
        holder.granted().await;
        holder.keeps(LONG).await;
        etcd.control().revoke(lease_of(&holder.claim.key.session)).unwrap();
    }
    let lines = first.store.admin().unwrap().lines(&prefix, None, 1000).await.unwrap();
    let entries: Vec<_> = lines.into_iter().flat_map(|(_, line)| line.unwrap().entries).collect();
    assert_eq!((entries.len(), entries.iter().filter(|entry| entry.kept).count()), (40, 40));
    let line = first.store.line(&semaphore.parse().unwrap()).await.unwrap();
    assert_eq!(line.entries.iter().filter(|entry| entry.kept).count(), 20);
}

/// Waits until etcd has these leases only.
async fn only_these_are_left(etcd: &Etcd, leases: &[i64], what: &str) {
    let left = async {
        loop {
            let mut left = etcd.control().leases().unwrap();
            left.retain(|lease| !leases.contains(lease));
            if left.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(
        tokio::time::timeout(TIME_LIMIT, left).await.is_ok(),
        "{what}: {:?}",
        etcd.control().leases()
    );
}

/// A timer without a claim would stay for up to a year.
#[tokio::test]
async fn a_minimum_hold_that_is_over_leaves_no_timer() {
    let etcd = Etcd::start().unwrap();
    let first = Bare::new(&etcd.url(), &name(), LONG).await;
    first.granted().await;
    let leases = etcd.control().leases().unwrap();
    for (how, is_released) in [(Evict::Now, false), (Evict::Now, true), (Evict::Mark, true)] {
        let mut holder = first.another();
        holder.claim.key.name = name().parse().unwrap();
        holder.granted().await;
        holder.keeps(LONG * 2).await;
        if is_released {
            holder.withdrawn().await;
        }
        let target = Target::Id(holder.claim.key.id.hash());
        let before = etcd.control().leases().unwrap();
        first
            .store
            .admin()
            .unwrap()
            .evict(&holder.claim.key.name, &target, how, "op", "stuck")
            .await
            .unwrap();
        let notice = |lease: &i64| !before.contains(lease);
        let kept: Vec<_> = etcd
            .control()
            .leases()
            .unwrap()
            .into_iter()
            .filter(notice)
            .chain(leases.clone())
            .collect();
        only_these_are_left(&etcd, &kept, &format!("{how:?}, {is_released}")).await;
        for lease in kept.iter().filter(|lease| !leases.contains(lease)) {
            etcd.control().revoke(*lease).unwrap();
        }
    }
    // The claim is on the lease of its session, and leaves when the minimum hold is over.
    let mut holder = first.another();
    holder.claim.key.name = name().parse().unwrap();
    holder.granted().await;
    holder.keeps(Duration::from_millis(10)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    holder.withdrawn().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(
        etcd.control().leases().unwrap().len(),
        leases.len(),
        "it was given back before it ended"
    );
}

/// A holder that crashed receives no request.
#[tokio::test]
async fn nobody_is_asked_for_what_is_kept() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, TTL).await;
    holder.granted().await;
    holder.keeps(LONG).await;
    let ask = async || {
        holder.store.admin().unwrap().request_release(&holder.claim.key.name, "op", "deploy").await
    };
    assert!(ask().await.unwrap());
    etcd.control().revoke(lease_of(&holder.claim.key.session)).unwrap();
    assert!(!ask().await.unwrap());
}

/// A busy machine: the timer is over before the claim is on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timer_that_ends_before_its_claim_is_on_it_is_requested_again() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let holder = Bare::new(&etcd.url_through(&[&proxy]), &name, UNRENEWED).await;
    holder.granted().await;
    let leases = etcd.control().leases().unwrap();
    proxy.on_request(|message| match message.bytes.windows(7).any(|word| word == br#""keep":"#) {
        true => Act::Hold,
        false => Act::Pass,
    });
    let hold = Amend::MinHold(UNRENEWED * 2);
    let ending = async {
        let ends =
            || etcd.control().leases().unwrap().into_iter().find(|lease| !leases.contains(lease));
        let timer = loop {
            match ends() {
                Some(timer) => break timer,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        tokio::time::sleep(Duration::from_millis(100)).await;
        etcd.control().revoke(timer).unwrap();
        proxy.on_nothing();
        proxy.release();
    };
    let (amended, ()) = within(TIME_LIMIT, async {
        tokio::join!(holder.store.amend(&holder.claim.key, 1, &hold), ending)
    })
    .await;
    let error = amended.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
}

/// The claim that replaces another one arrives late, when the lease of its session is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_after_its_withdrawal_leaves_the_kept_reader() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let proxies =
        [Proxy::raw(etcd.addresses()[0]).unwrap(), Proxy::raw(etcd.addresses()[0]).unwrap()];
    let url = etcd.url_through(&[&proxies[0], &proxies[1]]) + "?timeout=1s";
    let mut reader = Bare::new(&url, &name, TTL).await;
    reader.claim.weight = 1;
    reader.granted().await;
    reader.keeps(LONG).await;
    let mut writer = reader.another();
    (writer.claim.weight, writer.claim.queue, writer.claim.replaces) =
        (MAX, false, Some(reader.claim.key.id));
    let id = data(&writer);
    proxies[0].on_request(move |message| {
        match message.bytes.windows(id.len()).any(|word| word == &id[..]) {
            true => Act::Hold,
            false => Act::Pass,
        }
    });
    let error = writer.store.claim(&writer.claim).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    etcd.control().revoke(lease_of(&reader.claim.key.session)).unwrap();
    let withdrawn =
        writer.store.withdraw(&writer.claim.key, Some(Duration::from_secs(60))).await.unwrap();
    assert_eq!(withdrawn, Withdrawal::Absent);
    proxies[0].on_nothing();
    proxies[0].release();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (_, record) = only(&etcd, &name);
    assert_eq!(record["weight"], 1, "{record}");
}

/// The id of a claim, as requests show it.
fn data(bare: &Bare) -> Vec<u8> {
    let id: String =
        bare.claim.key.id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!(r#""id":"{id}""#).into_bytes()
}

/// A renewal finds the heir before the upgrade is answered: the replaced claim is gone all the
/// same.
#[tokio::test]
async fn what_was_replaced_is_forgotten_when_a_renewal_finds_its_heir() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let mut reader = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    reader.claim.weight = 1;
    reader.granted().await;
    let mut writer = reader.another();
    (writer.claim.weight, writer.claim.queue, writer.claim.replaces) =
        (MAX, false, Some(reader.claim.key.id));
    let before = only(&etcd, &name).0.key;
    assert!(reader.store.fence_key(&reader.claim.key).unwrap().ends_with(&before));
    let mut upgrading = writer.store.claim(&writer.claim);
    drive(&mut upgrading, || only(&etcd, &name).0.key != before).await;
    drop(upgrading);
    let renewal = writer.renew(LiveState::InFlight).await.unwrap();
    assert!(matches!(renewal, Renewal::Held { .. }), "{renewal:?}");
    assert!(
        !reader.store.fence_key(&reader.claim.key).unwrap().ends_with(&before),
        "it has its slot no more"
    );
}

/// A claim is about to wait, for which a lease is made, and its keeper is shut down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_made_during_the_close_of_its_session_ends_with_it() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    let next = Bare::new(&etcd.url_through(&[&proxy]), &name, UNRENEWED).await;
    holder.granted().await;
    let leases = etcd.control().leases().unwrap();
    proxy.delay(Way::ToClient, Duration::from_secs(1));
    let claiming = next.store.claim(&next.claim);
    let closing = async {
        while etcd.control().leases().unwrap().len() == leases.len() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        next.store.close(&next.claim.key.session, &[]).await.unwrap();
    };
    let _ = within(TIME_LIMIT, async { tokio::join!(claiming, closing) }).await;
    assert_eq!(
        etcd.control().leases().unwrap().len(),
        leases.len() - 1,
        "the leases of the session are gone"
    );
}
