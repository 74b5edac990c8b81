//! The two faults of Redlock that Martin Kleppmann described in 2016: five servers, of which two
//! cannot be reached by the first client.

use std::time::Duration;

use lockkeeper::fence::FenceGate;
use lockkeeper::{ErrorKind, LostReason};
use lockkeeper_live::{Way, with};

use crate::support::{
    LONG, TIME_LIMIT, behind_proxies, keeper, lock, name, renewed, tried, until_holding, within,
};

/// Longer than the steps of K3, and short enough that the test waits for its end.
const K3_TTL: Duration = Duration::from_secs(8);

/// K3, a clock that jumps. The first client has servers A, B and C; the clock of C jumps, and the
/// second client gets C, D and E. Exclusion fails, and this test shows it. The second token is
/// higher, so a fence refuses the first client. No renewal of the first client succeeds any more.
#[tokio::test]
async fn k3_a_clock_jump_breaks_the_lock_and_the_fence_refuses_the_old_holder() {
    let ((servers, proxies), name) = (behind_proxies(5), name());
    let first = keeper(&servers.url_through(&proxies), K3_TTL).await;
    let second = keeper(&servers.url(), LONG).await;
    cut_off(&proxies[3..]);
    let older = lock(&first, &name).await;
    until_holding(&servers, &name, 3).await;
    let gate = FenceGate::new(older.name().clone());
    gate.admit(&older.sequencer()).unwrap();
    assert!(tried(&second, &name).await.unwrap().is_none());
    servers.nodes()[2].set_clock_offset(60).unwrap();
    let newer = lock(&second, &name).await;
    older.check().expect("two believe in it at the same time: only the fence helps");
    assert!(newer.token() > older.token());
    gate.admit(&newer.sequencer()).unwrap();
    gate.admit(&older.sequencer()).unwrap_err();
    // Two servers confirm the lock and one refuses it. The other two decide, and cannot be reached.
    assert_eq!(older.renew_once().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(within(TIME_LIMIT, older.lost()).await, LostReason::Expired);
    renewed(&newer).await;
    newer.release().await.unwrap();
}

/// K4, a crash without fsync. As K3, but C is started again without its data. It does not count
/// for the life of a lock, so the second client gets the lock only when the first has lost it.
#[tokio::test]
async fn k4_a_server_that_forgets_gives_no_lock_away() {
    let ((mut servers, proxies), name) = (behind_proxies(5), name());
    let query = "max-keep=5s";
    let ttl = Duration::from_secs(4);
    let first = keeper(&with(&servers.url_through(&proxies), query), ttl).await;
    let second = keeper(&with(&servers.url(), query), ttl).await;
    cut_off(&proxies[3..]);
    let older = lock(&first, &name).await;
    until_holding(&servers, &name, 3).await;
    servers.node(2).restart_empty().unwrap();
    let newer = lock(&second, &name).await;
    assert!(older.check().is_err(), "two believe in it at the same time");
    assert!(newer.token() > older.token());
    newer.release().await.unwrap();
}

/// The servers behind these proxies cannot be reached.
fn cut_off(proxies: &[lockkeeper_live::Proxy]) {
    for proxy in proxies {
        proxy.refuse();
        proxy.cut();
    }
}

/// A client that is cut off from all servers in the middle of its hold has lost the lock before
/// another client has it.
#[tokio::test]
async fn a_partition_ends_the_hold_before_the_next_one_begins() {
    for way in [Way::ToServer, Way::ToClient] {
        let ((servers, proxies), name) = (behind_proxies(5), name());
        let first = keeper(&servers.url_through(&proxies), crate::support::TTL).await;
        let second = keeper(&servers.url(), LONG).await;
        let older = lock(&first, &name).await;
        proxies.iter().for_each(|proxy| proxy.hold(way));
        let newer = within(TIME_LIMIT, lock(&second, &name)).await;
        assert!(older.check().is_err(), "two believe in it at the same time");
        assert!(newer.token() > older.token());
        newer.release().await.unwrap();
    }
}
