//! Unrequested messages of a Cluster node that gives a slot away, and requests at that moment.

use lockkeeper_live::{Act, Cluster, Proxy};
use tokio::sync::oneshot;

use super::clusters::{names_on, slot_of};
use super::{keeper, waiter};
use crate::support::{LONG, TIME_LIMIT, within};

/// Clients find the first node behind a proxy.
fn behind_a_proxy(cluster: &Cluster) -> Proxy {
    let node = &cluster.nodes()[0];
    let proxy = Proxy::resp(node.address()).unwrap();
    node.set("cluster-announce-bus-port", &node.bus().to_string()).unwrap();
    node.set("cluster-announce-port", &proxy.port().to_string()).unwrap();
    proxy
}

/// The end of a subscription is under way to a node that gives the slot of the channel away. The
/// node ends the subscription by itself, and redirects the client: one answer more than the client
/// expects. The next requests on that connection get their own answers all the same: a held lock is
/// not granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_unsubscribe_that_crosses_a_slot_move_grants_no_held_lock() {
    let cluster = Cluster::builder().replicas(0).node_timeout(LONG).start().unwrap();
    let names: Vec<String> = names_on(&cluster, 0).take(3).collect();
    let [moving, held, free] = names.as_slice() else { unreachable!() };
    let slot = slot_of(&cluster, moving);
    let proxy = behind_a_proxy(&cluster);
    let url = format!("redis+cluster://{}", proxy.address());
    let (holder, client) = (keeper(&url, LONG).await, keeper(&url, LONG).await);
    let first = holder.mutex(moving.as_str()).unwrap().lock().await.unwrap();
    let second = holder.mutex(held.as_str()).unwrap().lock().await.unwrap();
    let waiting = waiter(&client, moving).await;

    let ((held_back, is_held_back), (ended, is_ended)) = (oneshot::channel(), oneshot::channel());
    let (mut held_back, mut ended) = (Some(held_back), Some(ended));
    proxy.on_request(move |message| match held_back.take_if(|_| message.is("SUNSUBSCRIBE")) {
        Some(held_back) => {
            held_back.send(()).unwrap();
            Act::Hold
        }
        None => Act::Pass,
    });
    proxy.on_reply(move |message| {
        if let Some(ended) =
            ended.take_if(|_| message.is_push() && message.contains("sunsubscribe"))
        {
            ended.send(()).unwrap();
        }
        Act::Pass
    });
    // A waiter that gives up ends the subscription.
    waiting.abort();
    within(TIME_LIMIT, is_held_back).await.unwrap();
    let tries = [held, free].map(|name| {
        let client = client.clone();
        let name = name.clone();
        tokio::spawn(async move { client.mutex(name.as_str()).unwrap().try_lock().await })
    });
    for (at, step) in [(1, "IMPORTING"), (0, "MIGRATING")] {
        let other: String = cluster.nodes()[1 - at].query(&["CLUSTER", "MYID"]).unwrap();
        cluster.nodes()[at].run(&["CLUSTER", "SETSLOT", &slot.to_string(), step, &other]).unwrap();
    }
    cluster.move_keys(slot, 0, 1).unwrap();
    let target: String = cluster.nodes()[1].query(&["CLUSTER", "MYID"]).unwrap();
    for at in [1, 0] {
        cluster.nodes()[at]
            .run(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &target])
            .unwrap();
    }
    within(TIME_LIMIT, is_ended).await.unwrap();
    proxy.release();

    let [held_now, free_now] = tries;
    let held_now = within(TIME_LIMIT, held_now).await.unwrap().unwrap();
    assert!(held_now.is_none(), "{held_now:?} beside {second:?}");
    let free_now = within(TIME_LIMIT, free_now).await.unwrap().unwrap().expect("nobody has it");
    assert_eq!(holder.inspect(free.as_str()).await.unwrap().holders.len(), 1);
    within(TIME_LIMIT, free_now.release()).await.unwrap();
    within(TIME_LIMIT, second.release()).await.unwrap();
    within(TIME_LIMIT, first.release()).await.unwrap();
}
