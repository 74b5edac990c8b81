//! The leader, or another member in use, is killed, stopped or cut off from the others, while one
//! client holds and one waits.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{Guard, Result};
use lockkeeper_live::Etcd;
use tokio::task::JoinHandle;

use crate::support::{LONG, TIME_LIMIT, is_free, keeper, line, name, patiently, waiter, within};

/// How long the clients wait before they ask another member.
const TIMEOUT: &str = "?timeout=1s";

/// One holds, one waits.
struct Before {
    url: String,
    name: String,
    guard: Guard,
    waiting: JoinHandle<Result<Guard>>,
}

impl Before {
    async fn on(etcd: &Etcd) -> Self {
        Self::at(etcd.url() + TIMEOUT).await
    }

    /// Of clients that know these members.
    async fn at(url: String) -> Self {
        let name = name();
        let holder = keeper(&url, LONG).await;
        let guard = patiently(async || holder.mutex(&name).unwrap().lock().await).await;
        let waiting = waiter(&keeper(&url, LONG).await, &name).await;
        Self { url, name, guard, waiting }
    }

    /// The holder has kept the lock and its token, no other client has had the lock, and the waiter
    /// gets it at the release.
    async fn goes_on(self, etcd: &Etcd) {
        let Self { url, name, guard, waiting } = self;
        let renewed = async {
            while guard.renew_once().await.is_err_and(|error| error.lost_reason().is_none()) {}
        };
        within(TIME_LIMIT, renewed).await;
        guard.check().unwrap();
        assert!(!waiting.is_finished(), "two have it");
        let both = async {
            loop {
                let claims = line(etcd, &name);
                if claims.len() == 2 {
                    break claims;
                }
                tokio::task::yield_now().await;
            }
        };
        let claims = within(TIME_LIMIT, both).await;
        assert_eq!(
            claims.iter().map(|entry| entry.create_revision).min(),
            i64::try_from(guard.token().raw()).ok()
        );
        let token = guard.token();
        within(TIME_LIMIT, guard.release()).await.unwrap();
        let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
        assert!(next.token() > token);
        // If the leader changes meanwhile, the client learns of the release a moment after it
        // happened.
        within(TIME_LIMIT, next.release()).await.unwrap();
        is_free(&keeper(&url, LONG).await, &name).await;
    }
}

fn three() -> Etcd {
    Etcd::builder().members(3).start().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_is_killed_while_one_holds_and_one_waits() {
    let mut etcd = three();
    let before = Before::on(&etcd).await;
    let old = etcd.leader().unwrap();
    etcd.kill(old).unwrap();
    etcd.wait_for_other_leader(old).unwrap();
    before.goes_on(&etcd).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_is_stopped_while_one_holds_and_one_waits() {
    let mut etcd = three();
    let before = Before::on(&etcd).await;
    let old = etcd.leader().unwrap();
    etcd.pause(old).unwrap();
    etcd.wait_for_other_leader(old).unwrap();
    before.goes_on(&etcd).await;
    etcd.resume(old).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_is_cut_off_while_one_holds_and_one_waits() {
    let etcd = three();
    let before = Before::on(&etcd).await;
    let old = etcd.leader().unwrap();
    etcd.isolate(old).unwrap();
    etcd.wait_for_other_leader(old).unwrap();
    before.goes_on(&etcd).await;
}

/// The clients ask this member first, which does not lead.
async fn at_a_follower(etcd: &Etcd) -> (usize, Before) {
    let leader = etcd.leader().unwrap();
    let (asked, addresses) = ((leader + 1) % 3, etcd.addresses());
    let members = [asked, leader, (leader + 2) % 3].map(|member| addresses[member].to_string());
    (asked, Before::at(format!("etcd://{}{TIMEOUT}", members.join(","))).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_used_follower_is_killed_while_one_holds_and_one_waits() {
    let mut etcd = three();
    let (asked, before) = at_a_follower(&etcd).await;
    etcd.kill(asked).unwrap();
    before.goes_on(&etcd).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_used_follower_is_stopped_while_one_holds_and_one_waits() {
    let mut etcd = three();
    let (asked, before) = at_a_follower(&etcd).await;
    etcd.pause(asked).unwrap();
    before.goes_on(&etcd).await;
    etcd.resume(asked).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_used_follower_is_cut_off_while_one_holds_and_one_waits() {
    let etcd = three();
    let (asked, before) = at_a_follower(&etcd).await;
    etcd.isolate(asked).unwrap();
    before.goes_on(&etcd).await;
}

/// Without a majority, etcd grants nothing, renews nothing and ends nothing; with a majority all
/// goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_majority_is_away_while_one_holds_and_one_waits() {
    let mut etcd = three();
    let before = Before::on(&etcd).await;
    for member in [0, 1] {
        etcd.pause(member).unwrap();
    }
    let error = within(TIME_LIMIT, before.guard.renew_once()).await.unwrap_err();
    assert!(error.lost_reason().is_none(), "{error}");
    assert!(!before.waiting.is_finished());
    for member in [0, 1] {
        etcd.resume(member).unwrap();
    }
    etcd.leader().unwrap();
    before.goes_on(&etcd).await;
}

/// A client reaches only the member that is cut off: the data of that member prove nothing. The
/// client's lock is lost when its lease is over, and not a moment later, while other clients get
/// locks from the majority.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_member_without_a_majority_renews_nothing() {
    let etcd = three();
    let (old, name) = (etcd.leader().unwrap(), name());
    let alone = format!("etcd://{}?timeout=500ms", etcd.addresses()[old]);
    let ttl = Duration::from_secs(8);
    let holder = keeper(&alone, ttl).await;
    let guard = Arc::new(patiently(async || holder.mutex(&name).unwrap().lock().await).await);
    let others = keeper(&format!("{}{TIMEOUT}", etcd.url()), LONG).await;
    let waiting = waiter(&others, &name).await;
    let before = Arc::clone(&guard);
    let granted = tokio::spawn(async move {
        let next = waiting.await.unwrap().unwrap();
        assert!(before.remaining().is_zero(), "the next had it while this one believed");
        next
    });
    etcd.isolate(old).unwrap();
    etcd.wait_for_other_leader(old).unwrap();
    // The member still has the key, and shows it to a client that asks for the member's own data.
    let holder = &line(&etcd, &name)[0];
    assert!(etcd.member(old).get_stale(&holder.key).unwrap().is_some());
    within(TIME_LIMIT, guard.lost()).await;
    assert!(etcd.member(old).get_stale(&holder.key).unwrap().is_some(), "it knows no better");
    let next = within(TIME_LIMIT * 2, granted).await.unwrap();
    assert!(next.token() > guard.token());
    guard.check().unwrap_err();
}
