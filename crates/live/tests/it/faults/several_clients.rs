//! Several clients know one claim: each gets what it waits for, and keeps nothing that is another client's.

use std::time::Duration;

use lockkeeper::RedisStore;
use lockkeeper::store::{Renewal, Wake};
use lockkeeper_live::{Cluster, cluster, redis};

use super::{Claimant, LONG, TIME_LIMIT, name, store, within};

/// Less than the shortest time after which a waiter that is not the first looks.
const BY_PUSH: Duration = Duration::from_millis(4500);

/// A holder dies, with two readers behind it. Client A waits for the second of them; what another
/// client asks for about that reader grants both.
async fn a_learns_of_the_grant_that(ask: impl AsyncFnOnce(&Claimant)) {
    const TTL: Duration = Duration::from_millis(1500);
    let (server, name) = (redis().unwrap().address(), name());
    let [a, b, others] = [store(server).await, store(server).await, store(server).await];
    let holder = Claimant::new(&others, &name, TTL).await;
    let mut readers = [Claimant::new(&others, &name, LONG).await, Claimant::new(&a, &name, LONG).await];
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
    a_learns_of_the_grant_that(async |elsewhere| drop(elsewhere.granted().await)).await;
}

/// The channels on which clients hear of their claims on this name.
fn channels(cluster: &Cluster, name: &str) -> Option<Vec<String>> {
    let pattern = format!("lk:w:{{{}}}:*", name.replace('/', "%2F"));
    let of = |node: &lockkeeper_live::Redis| node.query::<Vec<String>>(&["PUBSUB", "SHARDCHANNELS", &pattern]).ok();
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
    let connect = async || RedisStore::from_url(&cluster.url().parse().unwrap()).unwrap().connect().await.unwrap();
    let [a, b] = [connect().await, connect().await];
    let [holder, waiter] = [Claimant::new(&b, &name, LONG).await, Claimant::new(&a, &name, LONG).await];
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
