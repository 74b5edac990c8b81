//! All traffic is encrypted: of clients, of Sentinels, of the nodes of a cluster.

use lockkeeper::{ErrorKind, Keeper};
use lockkeeper_live::{Certificates, Cluster, Redis, RedisBuilder, Sentinel};

use crate::support::{LONG, TIME_LIMIT, within};
use crate::topologies::{handed_over, keeper, pushes_come, until_replicated, waiter};

fn encrypted() -> RedisBuilder {
    Redis::builder().tls(Certificates::new().unwrap())
}

fn trusting(url: &str, server: &Redis) -> String {
    format!("{url}?ca={}", server.certificates().unwrap().authority().display())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sentinels_behind_tls_are_asked_and_followed() {
    let sentinel = Sentinel::builder().down_after(LONG).server(encrypted()).start().unwrap();
    assert!(sentinel.url().starts_with("rediss+sentinel://"));
    let url = trusting(&sentinel.url(), &sentinel.servers()[0]);
    let keeper = keeper(&url, LONG).await;
    let guard = keeper.mutex("a-lock").unwrap().lock().await.unwrap();
    let waiting = waiter(&keeper, "a-lock").await;
    until_replicated(&sentinel.servers()[0], "mark");
    assert_eq!(sentinel.fail_over().unwrap(), 1);
    let next = handed_over(guard, waiting).await;
    pushes_come(&keeper, next).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_behind_tls_is_found_and_its_moves_are_followed() {
    let cluster =
        Cluster::builder().replicas(0).node_timeout(LONG).node(encrypted()).start().unwrap();
    assert!(cluster.url().starts_with("rediss+cluster://"));
    let keeper = keeper(&trusting(&cluster.url(), &cluster.nodes()[0]), LONG).await;
    // Some locks in each of the nodes.
    for number in 0..9 {
        let name = format!("lock-{number}");
        let guard = keeper.mutex(&name).unwrap().lock().await.unwrap();
        let waiting = waiter(&keeper, &name).await;
        if number == 0 {
            let slot = cluster.slot_of(&format!("{{{name}}}")).unwrap();
            cluster.move_slot(slot, (cluster.owner(slot).unwrap() + 1) % 3).unwrap();
        }
        let next = handed_over(guard, waiting).await;
        within(TIME_LIMIT, next.release()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sentinels_and_nodes_of_an_untrusted_authority_are_refused_with_a_remedy() {
    let cluster = Cluster::builder().replicas(0).node(encrypted()).start().unwrap();
    let sentinel = Sentinel::builder().replicas(0).server(encrypted()).start().unwrap();
    let stranger = Certificates::new().unwrap().authority();
    for url in [cluster.url(), sentinel.url()] {
        let url = format!("{url}?ca={}", stranger.display());
        let error =
            within(TIME_LIMIT, Keeper::from_url(&url).unwrap().connect()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.remedy().unwrap().starts_with("ca=FILE"), "{error}");
    }
}
