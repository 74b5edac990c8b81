//! Slots move, and nodes die.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::{ErrorKind, LostReason};
use lockkeeper_live::Cluster;

use super::{
    handed_over, is_still_held, keeper, nobody_else_gets_it, pushes_come, until_replicated, waiter,
};
use crate::support::{LONG, TIME_LIMIT, UNRENEWED, renewed, within};

pub(super) fn slot_of(cluster: &Cluster, name: &str) -> u16 {
    cluster.slot_of(&format!("lk:{{{name}}}")).unwrap()
}

/// Names that this node serves.
pub(super) fn names_on(cluster: &Cluster, node: usize) -> impl Iterator<Item = String> + '_ {
    let names = (0..).map(|number| format!("name-{number}"));
    names.filter(move |name| cluster.owner(slot_of(cluster, name)).unwrap() == node)
}

/// A slot goes to another node, with a pause at each step, while a lock in it is held, waited for,
/// and always renewed. While its keys are under way, renewals wait (`TRYAGAIN`), and no other
/// effect follows: the holder keeps the lock with its token, no other client gets it, the waiter
/// keeps its place and gets the lock at the release. Then the new node pushes messages to waiters.
/// The same once more, back to the first node.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slot_that_moves_takes_its_locks_along() {
    let (cluster, name) =
        (Cluster::builder().replicas(0).node_timeout(LONG).start().unwrap(), "moving");
    let slot = slot_of(&cluster, name);
    let (holder, other, third) = (
        keeper(&cluster.url(), LONG).await,
        keeper(&cluster.url(), LONG).await,
        keeper(&cluster.url(), LONG).await,
    );
    for _ in 0..2 {
        let from = cluster.owner(slot).unwrap();
        let to = (from + 1) % 3;
        let guard = Arc::new(holder.mutex(name).unwrap().lock().await.unwrap());
        let waiting = waiter(&other, name).await;
        let (moving, renewing) = (Arc::new(AtomicBool::new(true)), Arc::clone(&guard));
        let renewals = tokio::spawn({
            let moving = Arc::clone(&moving);
            async move {
                let (mut renewals, mut failures) = (0, 0);
                while moving.load(Ordering::SeqCst) {
                    match renewing.renew_once().await {
                        Ok(()) => renewals += 1,
                        Err(error) if error.lost_reason().is_some() => panic!("{error}"),
                        Err(_) => failures += 1,
                    }
                    tokio::task::yield_now().await;
                }
                (renewals, failures)
            }
        });
        let pause = || tokio::time::sleep(Duration::from_millis(300));
        cluster.begin_move(slot, from, to).unwrap();
        pause().await;
        cluster.move_keys(slot, from, to).unwrap();
        pause().await;
        cluster.end_move(slot, from, to).unwrap();
        assert_eq!(cluster.owner(slot).unwrap(), to);
        renewed(&guard).await;
        nobody_else_gets_it(&third, name).await;
        assert!(!waiting.is_finished());
        moving.store(false, Ordering::SeqCst);
        let (renewals, failures) = within(TIME_LIMIT, renewals).await.unwrap();
        eprintln!("{renewals} renewals, {failures} not");
        assert!(renewals > 0);
        let guard = Arc::into_inner(guard).unwrap();
        let next = handed_over(guard, waiting).await;
        pushes_come(&third, next).await;
    }
}

/// The lock is released, and another one claimed, while the slot is under way: both succeed when it
/// has arrived, and the waiter gets the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_release_and_a_claim_during_a_slot_move_succeed_after_it() {
    let (cluster, name) =
        (Cluster::builder().replicas(0).node_timeout(LONG).start().unwrap(), "moving");
    let slot = slot_of(&cluster, name);
    let (from, to) = (cluster.owner(slot).unwrap(), (cluster.owner(slot).unwrap() + 1) % 3);
    let (holder, other, third) = (
        keeper(&cluster.url(), LONG).await,
        keeper(&cluster.url(), LONG).await,
        keeper(&cluster.url(), LONG).await,
    );
    let guard = holder.mutex(name).unwrap().lock().await.unwrap();
    let waiting = waiter(&other, name).await;
    cluster.begin_move(slot, from, to).unwrap();
    cluster.move_keys(slot, from, to).unwrap();
    let token = guard.token();
    let releasing = tokio::spawn(guard.release());
    let late =
        tokio::spawn(std::future::IntoFuture::into_future(third.mutex(name).unwrap().lock()));
    tokio::time::sleep(Duration::from_millis(300)).await;
    cluster.end_move(slot, from, to).unwrap();
    within(TIME_LIMIT, releasing).await.unwrap().unwrap();
    let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    assert!(next.token() > token);
    let last = handed_over(next, late).await;
    pushes_come(&holder, last).await;
}

/// A master dies, and its replica takes its place after a while. Locks of other slots are held,
/// renewed, claimed and handed over all that time, also locks of a session that has locks on the
/// dead master. A guard that cannot be renewed is lost when its lease is over. A guard with a
/// longer lease is held after the failover with its token, and its waiter gets the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_death_of_a_master_concerns_its_own_slots_only() {
    const TTL: Duration = Duration::from_secs(9);
    let mut cluster = Cluster::builder().node_timeout(UNRENEWED).start().unwrap();
    let url = cluster.url();
    let mut here = names_on(&cluster, 0);
    let (long_here, short_here) = (here.next().unwrap(), here.next().unwrap());
    drop(here);
    let mut there = names_on(&cluster, 1);
    let (short_there, waited_there, free_there) =
        (there.next().unwrap(), there.next().unwrap(), there.next().unwrap());
    drop(there);
    let (patient, hasty, other) =
        (keeper(&url, UNRENEWED).await, keeper(&url, TTL).await, keeper(&url, LONG).await);
    let long = patient.mutex(&*long_here).unwrap().lock().await.unwrap();
    let waited = patient.mutex(&*waited_there).unwrap().lock().await.unwrap();
    let (waits_here, waits_there) =
        (waiter(&other, &long_here).await, waiter(&other, &waited_there).await);
    let kept = hasty.mutex(&*short_there).unwrap().lock().await.unwrap();
    let short = hasty.mutex(&*short_here).unwrap().lock().await.unwrap();
    until_replicated(&cluster.nodes()[0], &format!("{{{short_here}}}mark"));
    cluster.node(0).kill().unwrap();
    let killed = Instant::now();
    assert_eq!(within(TIME_LIMIT, short.lost()).await, LostReason::Expired);
    assert!(killed.elapsed() < TTL + Duration::from_secs(8), "{:?}", killed.elapsed());
    kept.check().expect("its node is alive");
    let next = handed_over(waited, waits_there).await;
    let free = within(TIME_LIMIT, other.mutex(&*free_there).unwrap().lock()).await.unwrap();
    free.release().await.unwrap();
    // A new client does not need that node either.
    let newcomer = keeper(&url, LONG).await;
    let free = within(TIME_LIMIT, newcomer.mutex(&*free_there).unwrap().lock()).await.unwrap();
    free.release().await.unwrap();
    pushes_come(&patient, next).await;
    assert_eq!(cluster.masters().unwrap(), [1, 2], "all that was to be before the failover");
    for node in &cluster.nodes()[1..] {
        node.set("cluster-node-timeout", &TTL.as_millis().to_string()).unwrap();
    }
    cluster.wait_for_other_owner(slot_of(&cluster, &long_here), 0).unwrap();
    kept.check().expect("its node was alive all the time");
    renewed(&kept).await;
    assert!(is_still_held(&long).await, "the replica had it");
    let next = handed_over(long, waits_here).await;
    pushes_come(&patient, next).await;
    // The lost lock is free, with a higher token.
    let again = within(TIME_LIMIT, other.mutex(&*short_here).unwrap().lock()).await.unwrap();
    assert!(again.token() > short.token());
    assert_eq!(within(TIME_LIMIT, short.release()).await.unwrap_err().kind(), ErrorKind::Lost);
    renewed(&again).await;
}

/// The URL names replicas too, as many do. While a master is gone, a client looks at the map
/// several times a second. Each look asks a node that it is connected to, and makes no new
/// connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_look_at_the_map_makes_no_connection_to_each_node_of_the_url() {
    let mut cluster = Cluster::builder().node_timeout(LONG * 4).start().unwrap();
    let _client = keeper(&cluster.url(), LONG).await;
    cluster.node(0).kill().unwrap();
    // The replica of a master that lives on.
    let count = |cluster: &Cluster| {
        cluster.nodes()[4].info("total_connections_received").unwrap().parse::<u64>().unwrap()
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = count(&cluster);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let made = count(&cluster) - before - 1;
    assert!(made <= 2, "{made} connections to a replica within 4 s");
}
