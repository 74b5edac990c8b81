//! A client connects while another server becomes the master.

use std::future::IntoFuture;

use lockkeeper::{Keeper, Result};
use lockkeeper_live::{Act, Cluster, Proxy, Sentinel};
use tokio::task::JoinHandle;

use super::clusters::names_on;
use crate::support::{LONG, TIME_LIMIT, within};

/// Patient enough for a failover.
fn connecting(url: &str) -> JoinHandle<Result<Keeper>> {
    tokio::spawn(
        Keeper::from_url(&format!("{url}?timeout=200s")).unwrap().ttl(LONG).connect().into_future(),
    )
}

/// The client is connected to the master and is about to ask for its role. When the question
/// arrives, the server is a replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_becomes_a_replica_during_a_connect_does_not_refuse_the_cluster() {
    let cluster = Cluster::builder().node_timeout(LONG).start().unwrap();
    let name = names_on(&cluster, 0).next().unwrap();
    let proxies: Vec<_> =
        cluster.nodes().iter().map(|node| Proxy::resp(node.address()).unwrap()).collect();
    for (node, proxy) in cluster.nodes().iter().zip(&proxies) {
        // The first request asks for a part of it.
        proxy.on_request(|request| if request.words() == ["INFO"] { Act::Hold } else { Act::Pass });
        node.set("cluster-announce-port", &proxy.port().to_string()).unwrap();
    }
    let connecting = connecting(&format!("redis+cluster://{}", proxies[0].address()));
    proxies[0].until(|seen| seen.held > 0).await.unwrap();
    cluster.fail_over(0).unwrap();
    proxies.iter().for_each(|proxy| {
        proxy.on_nothing();
        proxy.release();
    });
    let keeper = within(10 * TIME_LIMIT, connecting).await.unwrap().unwrap();
    within(TIME_LIMIT, keeper.mutex(&*name).unwrap().lock())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// The Sentinel's answer is under way while another server becomes the master.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_becomes_a_replica_during_a_connect_is_no_failure() {
    let sentinel = Sentinel::builder().down_after(LONG).start().unwrap();
    let proxy = Proxy::resp(sentinel.sentinels()[0].address()).unwrap();
    proxy.on_request(
        |request| if request.contains("GET-MASTER-ADDR") { Act::HoldReply } else { Act::Pass },
    );
    let connecting =
        connecting(&format!("redis+sentinel://{}/{}", proxy.address(), sentinel.name()));
    proxy.until(|seen| seen.held > 0).await.unwrap();
    sentinel.fail_over().unwrap();
    sentinel.wait_until_settled().unwrap();
    proxy.on_nothing();
    proxy.release();
    let keeper = within(10 * TIME_LIMIT, connecting).await.unwrap().unwrap();
    within(TIME_LIMIT, keeper.mutex("a-lock").unwrap().lock())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}
