//! Several clients know one claim: each gets what it waits for, and keeps nothing that is another
//! client's.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockkeeper::RedisStore;
use lockkeeper::store::{Renewal, Verdict, Wake};
use lockkeeper_live::{Cluster, Proxy, cluster, redis};

use crate::support::{Claimant, LONG, TIME_LIMIT, name, store, within};

/// Less than the shortest time after which a waiter that is not the first looks.
const BY_PUSH: Duration = Duration::from_millis(4500);

/// A holder dies, with two readers behind it. Client A waits for the second of them; what another
/// client asks for about that reader grants both.
async fn a_learns_of_the_grant_that(ask: impl AsyncFnOnce(&Claimant)) {
    const TTL: Duration = Duration::from_millis(1500);
    let (server, name) = (redis().unwrap().address(), name());
    let [a, b, others] = [store(server).await, store(server).await, store(server).await];
    let holder = Claimant::new(&others, &name, TTL).await;
    let mut readers =
        [Claimant::new(&others, &name, LONG).await, Claimant::new(&a, &name, LONG).await];
    readers.iter_mut().for_each(|reader| reader.claim.weight = 1);
    let [first, waiter] = readers;
    holder.granted().await;
    first.queued().await;
    let (seen, look_again) = waiter.queued().await;
    assert!(look_again > BY_PUSH, "{look_again:?}");
    let asking = async {
        tokio::time::sleep(TTL + Duration::from_millis(100)).await;
        ask(&waiter.through(&b)).await;
    };
    let (woken, ()) = tokio::join!(waiter.wait(seen, BY_PUSH), asking);
    let Wake::Granted { token } = woken else { panic!("nobody told it: {woken:?}") };
    assert_eq!(waiter.granted().await, token);
    for reader in [&first, &waiter] {
        reader.release().await;
    }
}

#[tokio::test]
async fn a_grant_that_the_renewal_of_another_client_makes_is_reported_to_the_client_that_waits() {
    a_learns_of_the_grant_that(async |elsewhere| {
        let renewal = elsewhere.renew().await.unwrap();
        assert!(matches!(renewal, Renewal::Held { .. }), "{renewal:?}");
    })
    .await;
}

#[tokio::test]
async fn a_grant_that_a_late_copy_of_another_client_makes_is_reported_to_the_client_that_waits() {
    a_learns_of_the_grant_that(async |elsewhere| {
        elsewhere.granted().await;
    })
    .await;
}

/// Another client sends the claim while client A is cut off. Client A finds that when it is
/// connected again, and its next claim brings its wake-ups back.
#[tokio::test]
async fn a_client_finds_that_another_one_took_its_claim_while_it_heard_nothing() {
    let (server, name) = (redis().unwrap().address(), name());
    let proxy = Proxy::resp(server).unwrap();
    let [a, b] = [store(proxy.address()).await, store(server).await];
    // The first in line would claim again after each loss of its subscription.
    let [holder, first] =
        [Claimant::new(&b, &name, LONG).await, Claimant::new(&b, &name, LONG).await];
    let waiter = Claimant::new(&a, &name, LONG).await;
    holder.granted().await;
    first.queued().await;
    let (seen, _) = waiter.queued().await;
    let waiting = tokio::spawn({
        let waiter = waiter.clone();
        async move { waiter.wait(seen, BY_PUSH).await }
    });
    proxy.refuse();
    proxy.cut();
    proxy.until(|seen| seen.open == 0).await.unwrap();
    waiter.through(&b).queued().await;
    proxy.accept().unwrap();
    assert_eq!(waiting.await.unwrap(), Wake::Changed);
    let (seen, _) = waiter.queued().await;
    let leave = async {
        first.withdraw(None).await.unwrap();
        holder.release().await;
    };
    let (woken, ()) = tokio::join!(waiter.wait(seen, BY_PUSH), leave);
    assert!(matches!(woken, Wake::Granted { .. }), "{woken:?}");
    waiter.release().await;
}

/// Two clients wait for one claim, and each claims again when the other has taken it: now and then,
/// and not with each round trip. Both learn of the grant.
#[tokio::test]
async fn two_clients_that_wait_for_one_claim_take_it_from_each_other_now_and_then_only() {
    const WHILE: Duration = Duration::from_secs(4);
    let (server, name) = (redis().unwrap().address(), name());
    let [one, two] = [store(server).await, store(server).await];
    let holder = Claimant::new(&one, &name, LONG).await;
    let claim = Claimant::new(&one, &name, LONG).await;
    let elsewhere = claim.through(&two);
    holder.granted().await;
    let sent = AtomicU32::new(0);
    let (one, two, leave) = (granted(&claim, &sent), granted(&elsewhere, &sent), async {
        tokio::time::sleep(WHILE).await;
        let sent = sent.load(Ordering::Relaxed);
        holder.release().await;
        sent
    });
    let (one, two, sent) = within(TIME_LIMIT, async { tokio::join!(one, two, leave) }).await;
    assert_eq!(one, two);
    eprintln!("{sent} claims in {WHILE:?}");
    assert!((4..=25).contains(&sent), "{sent} claims in {WHILE:?}");
    claim.release().await;
}

/// Claims and waits, as an engine does, until the claim is granted. Returns the token.
async fn granted(claim: &Claimant, sent: &AtomicU32) -> u64 {
    loop {
        sent.fetch_add(1, Ordering::Relaxed);
        match claim.send().await.unwrap() {
            Verdict::Granted { token, .. } => return token,
            Verdict::Queued { seen, look_again, .. } => {
                if let Wake::Granted { token } = claim.wait(seen, look_again).await {
                    return token;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The channels on which clients receive messages about their claims on this name.
fn channels(cluster: &Cluster, name: &str) -> Option<Vec<String>> {
    let pattern = format!("lk:w:{{{}}}:*", name.replace('/', "%2F"));
    let of = |node: &lockkeeper_live::Redis| {
        node.query::<Vec<String>>(&["PUBSUB", "SHARDCHANNELS", &pattern]).ok()
    };
    Some(cluster.nodes().iter().map(of).collect::<Option<Vec<_>>>()?.concat())
}

/// In a Cluster a client listens for each of its claims. It ends that when another client has sent
/// the claim, and nobody waits for it here.
#[tokio::test]
async fn a_client_stops_listening_for_a_claim_that_another_client_took() {
    let (cluster, name) = (cluster().unwrap(), name());
    if channels(cluster, &name).is_none() {
        return eprintln!("left out: before Redis 7 a Cluster has no sharded channels");
    }
    let connect = async || {
        RedisStore::from_url(&cluster.url().parse().unwrap()).unwrap().connect().await.unwrap()
    };
    let [a, b] = [connect().await, connect().await];
    let [holder, waiter] =
        [Claimant::new(&b, &name, LONG).await, Claimant::new(&a, &name, LONG).await];
    holder.granted().await;
    waiter.queued().await;
    let listening = async |is_right: &dyn Fn(&[String]) -> bool| loop {
        let channels = channels(cluster, &name).unwrap();
        if is_right(&channels) {
            break channels;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let before = within(TIME_LIMIT, listening(&|channels| channels.len() == 1)).await;
    waiter.through(&b).queued().await;
    within(TIME_LIMIT, listening(&|channels| channels.len() == 1 && channels != before)).await;
    waiter.through(&b).release().await;
    holder.release().await;
}
