//! The connection to etcd is made again: the held locks are in doubt until their renewal, and are
//! renewed at once.

use std::time::Duration;

use lockkeeper::store::{Admin as _, Evict, Target};
use lockkeeper::{Keeper, LostReason, SessionState};
use lockkeeper_live::{Etcd, Proxy};

use crate::support::{Bare, TIME_LIMIT, keeper, line, name, within};

/// A third of this is longer than the limit of a test: an earlier renewal has another reason.
const TTL: Duration = Duration::from_secs(300);

/// The session goes through doubt to being valid again, long before a third of the ttl is over.
async fn is_renewed_after(keeper: &Keeper, fault: impl AsyncFnOnce()) {
    let mut session = keeper.session();
    assert_eq!(session.state(), SessionState::Valid);
    let states = async {
        match session.changed().await {
            SessionState::Jeopardy => session.changed().await,
            // The state was in doubt before, and the test did not look at that moment.
            state => state,
        }
    };
    let ((), state) = within(3 * TIME_LIMIT, async { tokio::join!(fault(), states) }).await;
    assert_eq!(state, SessionState::Valid);
}

/// How many seconds are left of a lease.
fn left(etcd: &Etcd, lease: i64) -> i64 {
    // Without a leader, no answer comes.
    (0..10)
        .find_map(|_| etcd.control().lease_left(lease).ok().flatten())
        .expect("what is left of a lease")
}

/// The lease of a lock, once it is old enough for a renewal to show.
async fn aged(etcd: &Etcd, name: &str) -> i64 {
    let lease = line(etcd, name)[0].lease;
    while left(etcd, lease) >= 290 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    lease
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_is_renewed_at_once_at_another_member() {
    let mut etcd =
        Etcd::builder().members(3).election_timeout(Duration::from_secs(1)).start().unwrap();
    let name = name();
    let (leader, addresses) = (etcd.leader().unwrap(), etcd.addresses());
    let (asked, next) = ((leader + 1) % 3, (leader + 2) % 3);
    let keeper = keeper(&format!("etcd://{},{}", addresses[asked], addresses[next]), TTL).await;
    let guard = keeper.mutex(&name).unwrap().lock().await.unwrap();
    let lease = aged(&etcd, &name).await;
    is_renewed_after(&keeper, async || etcd.kill(asked).unwrap()).await;
    assert!(left(&etcd, lease) > 292, "it was renewed in etcd too: {}", left(&etcd, lease));
    guard.check().unwrap();
    guard.release().await.unwrap();
}

/// The lease of the lock is gone with etcd's data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_forgotten_during_an_outage_is_lost_at_the_reconnection() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let keeper = keeper(&etcd.url_through(&[&proxy]), TTL).await;
    let guard = keeper.mutex(&name).unwrap().lock().await.unwrap();
    etcd.control().revoke(line(&etcd, &name)[0].lease).unwrap();
    proxy.cut();
    let reason = within(TIME_LIMIT, guard.lost()).await;
    assert_eq!(reason, LostReason::SessionExpired);
}

/// A mark is under way while the disks of a majority are stopped, and the client that broke the
/// lock is gone. The holder may have renewed until a moment before the mark, and is cut off since:
/// its claim lasts for its whole ttl.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_break_mark_leaves_the_holder_its_whole_ttl() {
    let etcd = Etcd::start().unwrap();
    // A mark that is faster than the looks at it is not late, and the test tries another one.
    let is_late = async || loop {
        let left = marked_late(&etcd, &name()).await;
        if let Some(left) = left {
            return left;
        }
    };
    let left = within(3 * TIME_LIMIT, is_late()).await;
    assert!(left > 54, "it was marked just now, and would end in {left} s");
}

/// How long a claim of 60 s lasts that is marked 6 s after the lease of the mark was made; `None`
/// if it is marked earlier.
async fn marked_late(etcd: &Etcd, name: &str) -> Option<i64> {
    let holder = Bare::new(&etcd.url(), name, Duration::from_secs(60)).await;
    holder.granted().await;
    let breaker = crate::support::store(&etcd.url()).await;
    let leases = || etcd.control().leases().unwrap().len();
    let claim = || line(etcd, name).remove(0);
    let is_marked = || String::from_utf8_lossy(&claim().value).contains("\"broken\"");
    let (victim, target) =
        (name.parse().unwrap(), Target::Token(claim().create_revision.unsigned_abs()));
    let before = leases();
    let mut breaking = breaker.evict(&victim, &target, Evict::Mark, "somebody", "a test");
    // One lease for the notice to the client, and one for the mark.
    crate::support::drive(&mut breaking, || leases() >= before + 2).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    if is_marked() {
        return None;
    }
    crate::support::drive(&mut breaking, is_marked).await;
    drop(breaking);
    Some(etcd.control().lease_left(claim().lease).unwrap().unwrap())
}
