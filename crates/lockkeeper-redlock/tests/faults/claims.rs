//! What no claim may do: outlast its withdrawal, take the place of a claim that was lost, or hold
//! beside a claim that keeps it out.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::ErrorKind;
use lockkeeper::store::{
    Claim, Evict, Evicted, Live, LiveState, MAX, Renewal, Target, Verdict, Withdrawal,
};
use lockkeeper_live::{Redis, Redlock, Way, with};

use crate::support::{
    ByHand, LONG, SLOW, TIME_LIMIT, behind_proxies, holders, holding, keeper, line_key, lock, name,
    tried, until, until_holding, within,
};

/// Longer than any step here, so that no answer is too late.
const PATIENT: &str = "node-timeout=5s";

/// A claim is withdrawn while its answers are on their way, and the client does not make it again.
/// Servers whose clocks differ give different numbers, and the client would ask for equal ones.
#[tokio::test]
async fn nothing_is_claimed_behind_a_withdrawal_of_the_same_client() {
    for seconds in [0, 10] {
        let ((servers, proxies), name) = (behind_proxies(3), name());
        for (node, later) in servers.nodes().iter().zip(0..) {
            node.set_clock_offset(later * seconds).unwrap();
        }
        let client = ByHand::connect(&with(&servers.url_through(&proxies), PATIENT), &name).await;
        let claim = client.writer();
        proxies.iter().for_each(|proxy| proxy.hold(Way::ToClient));
        let (store, sent) = (Arc::clone(&client.store), claim.clone());
        let claiming = tokio::spawn(async move { store.claim(&sent).await });
        until_holding(&servers, &name, 3).await;
        let (store, key) = (Arc::clone(&client.store), claim.key.clone());
        let withdrawing = tokio::spawn(async move { store.withdraw(&key, None).await });
        until_holding(&servers, &name, 0).await;
        proxies.iter().for_each(|proxy| proxy.heal());
        let verdict = within(TIME_LIMIT, claiming).await.unwrap().unwrap();
        assert_eq!(verdict, Verdict::Gone, "clocks {seconds} s apart");
        let withdrawn = within(TIME_LIMIT, withdrawing).await.unwrap().unwrap();
        assert_eq!(withdrawn, Withdrawal::Removed);
        assert_eq!(holding(&servers, &name), 0);
    }
}

/// A server has lost its scripts when a claim comes, and has them again when the withdrawal of the
/// claim comes. The connection does not repeat the claim.
#[tokio::test]
async fn a_claim_without_its_script_is_not_repeated_behind_its_withdrawal() {
    let ((servers, proxies), name) = (behind_proxies(3), name());
    let (direct, behind) =
        (keeper(&servers.url(), LONG).await, keeper(&servers.url_through(&proxies), LONG).await);
    let held = lock(&direct, &name).await;
    until_holding(&servers, &name, 3).await;
    let third = &servers.nodes()[2];
    third.run(&["DEL", &line_key(&name)]).unwrap();
    third.run(&["SCRIPT", "FLUSH", "SYNC"]).unwrap();
    third.run(&["CONFIG", "RESETSTAT"]).unwrap();
    for proxy in &proxies[..2] {
        proxy.delay(Way::ToClient, Duration::from_millis(350));
    }
    proxies[2].hold(Way::ToClient);
    let attempt = async { tried(&behind, &name).await.unwrap() };
    let load = async {
        until(|| third.info("errorstat_NOSCRIPT").is_ok()).await;
        // Each connection loads the scripts.
        keeper(&servers.url(), LONG).await
    };
    let (got, _loader) = tokio::join!(attempt, load);
    assert!(got.is_none(), "it is held");
    proxies[2].heal();
    // The client gets the held answers, and would repeat the claim.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(holders(third, &name).is_empty(), "it was withdrawn");
    held.release().await.unwrap();
}

/// A reader was lost on most servers, so others may have had the lock since. No writer takes its
/// place: what the reader has read may be old.
#[tokio::test]
async fn a_reader_that_was_lost_is_not_replaced() {
    for lost in [2, 3] {
        let (servers, name) = (Redlock::start().unwrap(), name());
        let client = ByHand::connect(&with(&servers.url(), SLOW), &name).await;
        let reader = client.reader(0);
        client.token(&reader).await.expect("it is free");
        until_holding(&servers, &name, 3).await;
        for node in &servers.nodes()[..lost] {
            node.run(&["DEL", &line_key(&name)]).unwrap();
        }
        let other = client.writer();
        if lost == 3 {
            client.token(&other).await.expect("the reader is lost");
            client.store.withdraw(&other.key, None).await.unwrap();
        }
        assert_eq!(client.token(&client.writer_for(&reader)).await, None, "{lost} servers");
        client.store.withdraw(&reader.key, None).await.unwrap();
        until_holding(&servers, &name, 0).await;
    }
}

/// A server missed the reader. The writer that replaces the reader needs the other two, and an
/// attempt does not wait for one of them that is late.
#[tokio::test]
async fn a_reader_on_a_bare_majority_is_replaced() {
    let (servers, name) = (Redlock::start().unwrap(), name());
    let client = ByHand::connect(&with(&servers.url(), SLOW), &name).await;
    let reader = client.reader(0);
    let token = client.token(&reader).await.expect("it is free");
    until_holding(&servers, &name, 3).await;
    servers.nodes()[1].run(&["DEL", &line_key(&name)]).unwrap();
    let replaced = async {
        loop {
            let writer = client.writer_for(&reader);
            if let Some(token) = client.token(&writer).await {
                return (writer, token);
            }
        }
    };
    let (writer, higher) = within(TIME_LIMIT, replaced).await;
    assert!(higher > token);
    client.store.withdraw(&writer.key, None).await.unwrap();
    until_holding(&servers, &name, 0).await;
}

/// A reader of a lower epoch would get a lower token than a reader that holds already. A writer
/// learns of the higher epoch, whichever of the readers a server names.
#[tokio::test]
async fn a_lower_epoch_is_kept_out_by_readers_too() {
    let (servers, name) = (Redlock::start().unwrap(), name());
    let client = ByHand::connect(&with(&servers.url(), SLOW), &name).await;
    for epoch in [0, 3, 7] {
        client.token(&client.reader(epoch)).await.expect("readers share");
    }
    let writer = Claim { weight: MAX, ..client.reader(5) };
    for low in [client.reader(0), client.reader(6), writer] {
        let error = client.store.claim(&low).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
        assert!(error.to_string().contains("epoch 7"), "{error}");
    }
    client.token(&client.reader(7)).await.expect("readers share");
    until(|| servers.nodes().iter().all(|node| holders(node, &name).len() == 4)).await;
}

/// An administrator removes a lock while one server cannot be reached, and the tombstones end. The
/// holder finds its claim on that server first, and does not get the others back.
#[tokio::test]
async fn a_removed_lock_is_not_revived_by_a_server_that_missed_the_removal() {
    let ((servers, proxies), name) = (behind_proxies(3), name());
    let [one, two] = [&proxies[0], &proxies[1]].map(|proxy| proxy.address());
    let (third, members) = (servers.nodes()[2].address(), servers.members());
    let url = format!("redlock://{one},{two},{third}?{SLOW}&{members}");
    let holder = ByHand::connect(&url, &name).await;
    let claim = holder.writer();
    let token = holder.token(&claim).await.expect("it is free");
    until_holding(&servers, &name, 3).await;
    proxies[2].refuse();
    proxies[2].cut();
    let admin = ByHand::connect(&with(&servers.url_through(&proxies), SLOW), &name).await;
    let target = Target::Token(token);
    let evicted = admin.store.admin().unwrap().evict(&admin.name, &target, Evict::Now, "op", "");
    assert_eq!(evicted.await.unwrap(), Evicted::Done);
    for node in &servers.nodes()[..2] {
        let keys: Vec<String> = node.query(&["KEYS", "*:g:*"]).unwrap();
        assert_eq!(keys.len(), 1, "{keys:?}");
        node.run(&["DEL", &keys[0]]).unwrap();
    }
    proxies.iter().for_each(|proxy| proxy.delay(Way::ToClient, Duration::from_millis(100)));
    let live = Live { key: claim.key.clone(), state: LiveState::Granted };
    let renewed = holder.store.renew(&claim.key.session, &[live]).await.unwrap();
    assert_eq!(renewed.claims, [Renewal::Lost(None)]);
    until_holding(&servers, &name, 0).await;
}

/// A server was away for a while. It is not asked later to withdraw what it never had.
#[tokio::test]
async fn a_server_that_was_away_is_not_asked_to_withdraw_what_it_never_had() {
    const LOCKS: u64 = 30;
    let ((servers, proxies), name) = (behind_proxies(3), name());
    let keeper = keeper(&servers.url_through(&proxies), LONG).await;
    let away = &servers.nodes()[2];
    proxies[2].refuse();
    proxies[2].cut();
    for _ in 0..LOCKS {
        lock(&keeper, &name).await.release().await.unwrap();
    }
    let before = crate::support::scripts_run(away);
    proxies[2].accept().unwrap();
    // A withdrawal is repeated after two seconds at the latest.
    tokio::time::sleep(Duration::from_secs(4)).await;
    lock(&keeper, &name).await.release().await.unwrap();
    until_holding(&servers, &name, 0).await;
    let asked = crate::support::scripts_run(away) - before;
    assert!((1..LOCKS / 2).contains(&asked), "{asked} requests for {LOCKS} locks");
}

/// A release is not answered, and is tried again. One task repeats it, however often it was tried.
#[tokio::test]
async fn a_release_that_is_tried_again_is_repeated_once() {
    let ((servers, proxies), name) = (behind_proxies(3), name());
    let client = ByHand::connect(&with(&servers.url_through(&proxies), SLOW), &name).await;
    let claim = client.writer();
    proxies[2].refuse();
    proxies[2].cut();
    client.token(&claim).await.expect("it is free");
    proxies[1].refuse();
    proxies[1].cut();
    for _ in 0..12 {
        let error = client.store.withdraw(&claim.key, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    let second: &Redis = &servers.nodes()[1];
    let before = crate::support::scripts_run(second);
    proxies[1].accept().unwrap();
    until_holding(&servers, &name, 0).await;
    // A withdrawal is repeated after two seconds at the latest.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let asked = crate::support::scripts_run(second) - before;
    assert!(asked < 6, "{asked} requests for one claim");
}
