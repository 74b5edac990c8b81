//! Minimum holds: the lease of the timer, and the owner of the claim on it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper::store::{
    Amend, Amended, Evict, Line, LiveState, Renewal, Store as _, Target, Verdict, Withdrawal,
};
use lockkeeper_live::{Entry, Etcd, Proxy, Way};
use serde_json::Value;

use crate::support::{Bare, UNRENEWED, lease_of, line, name, send, store};

pub(super) const TTL: Duration = Duration::from_secs(20);
pub(super) const LONG: Duration = Duration::from_secs(3600);

/// The only key of a line, and its record.
pub(super) fn only(etcd: &Etcd, name: &str) -> (Entry, Value) {
    let line = line(etcd, name);
    assert_eq!(line.len(), 1, "{line:?}");
    first(etcd, name)
}

/// The first one of a line.
pub(super) fn first(etcd: &Etcd, name: &str) -> (Entry, Value) {
    let entry = line(etcd, name).into_iter().min_by_key(|entry| entry.create_revision).unwrap();
    let record = serde_json::from_slice(&entry.value).unwrap();
    (entry, record)
}

pub(super) fn timer(record: &Value) -> i64 {
    record["keep"]["lease"].as_i64().unwrap()
}

/// Replaces the record of a key.
pub(super) fn write(etcd: &Etcd, entry: &Entry, record: &Value) {
    // A record of lockkeeper begins in this way.
    let text =
        record.to_string().replace("\"lockkeeper\":1,", "").replacen('{', "{\"lockkeeper\":1,", 1);
    etcd.control().put_with_lease(&entry.key, text, entry.lease).unwrap();
}

/// Higher than that of every change before, of whatever claim.
fn next_change() -> u64 {
    static CHANGES: AtomicU64 = AtomicU64::new(0);
    CHANGES.fetch_add(1, Ordering::Relaxed) + 1
}

impl Bare {
    /// A change that another one has overtaken is sent again with a higher number, as the engine
    /// does.
    pub(super) async fn keeps(&self, hold: Duration) {
        loop {
            let number = next_change();
            match self.store.amend(&self.claim.key, number, &Amend::MinHold(hold)).await.unwrap() {
                Amended::Older { last } => assert!(last > number, "{number} after {last}"),
                amended => return assert_eq!(amended, Amended::Done),
            }
        }
    }

    pub(super) async fn withdrawn(&self) -> Withdrawal {
        self.store.withdraw(&self.claim.key, None).await.unwrap()
    }

    pub(super) async fn tries(&self) -> Verdict {
        let mut trying = self.another();
        trying.claim.queue = false;
        trying.store.claim(&trying.claim).await.unwrap()
    }

    pub(super) async fn line(&self) -> Line {
        self.store.line(&self.claim.key.name).await.unwrap()
    }
}

/// After each answered renewal, the lease of the claim lasts for at least a whole ttl.
#[tokio::test]
async fn a_holders_lease_outlives_its_deadline_with_any_minimum_hold() {
    let etcd = Etcd::start().unwrap();
    let longer = TTL + Duration::from_secs(1);
    let holds = [
        (TTL / 2, [false, false]),
        (TTL - Duration::from_secs(3), [false, false]),
        (longer, [true, false]),
        (TTL * 3, [true, true]),
    ];
    for (hold, is_timed) in holds {
        let name = name();
        let holder = Bare::new(&etcd.url(), &name, TTL).await;
        holder.granted().await;
        let (before, _) = only(&etcd, &name);
        holder.keeps(hold).await;
        for (renewed, is_timed) in is_timed.into_iter().enumerate() {
            if renewed > 0 {
                tokio::time::sleep(longer - TTL + Duration::from_millis(200)).await;
                let renewal = holder.renew(LiveState::Granted).await.unwrap();
                assert!(matches!(renewal, Renewal::Held { .. }), "{renewal:?}");
            }
            let (entry, record) = only(&etcd, &name);
            assert_eq!(
                entry.lease,
                if is_timed { timer(&record) } else { before.lease },
                "{hold:?}, {renewed}"
            );
            let left = etcd.control().lease_left(entry.lease).unwrap().unwrap();
            // etcd cuts to whole seconds.
            let least = i64::try_from(TTL.as_secs()).unwrap() - 2;
            assert!(left >= least, "{hold:?}, {renewed}: {left} s");
        }
        assert_eq!(holder.withdrawn().await, Withdrawal::Removed);
        let (entry, record) = only(&etcd, &name);
        assert_eq!(entry.lease, timer(&record), "it is kept: {record}");
        assert!(matches!(holder.tries().await, Verdict::Busy { .. }));
    }
}

/// A renewal that has seen the claim before its release does not move it back to a renewed lease.
#[tokio::test]
async fn a_release_that_meets_a_renewal_leaves_the_claim_on_its_timer() {
    let etcd = Etcd::start().unwrap();
    let first = Bare::new(&etcd.url(), &name(), TTL).await;
    for round in 0..60 {
        let name = name();
        let mut holder = first.another();
        holder.claim.key.name = name.parse().unwrap();
        holder.granted().await;
        holder.keeps(TTL).await;
        let (renewed, withdrawn) = tokio::join!(holder.renew(LiveState::Granted), async {
            tokio::time::sleep(Duration::from_micros(round * 100)).await;
            holder.withdrawn().await
        });
        renewed.unwrap();
        assert_eq!(withdrawn, Withdrawal::Removed);
        let (entry, record) = only(&etcd, &name);
        assert_eq!(entry.lease, timer(&record), "round {round}: {record}");
    }
}

/// The answer to the release is lost: the second release does not end the minimum hold.
#[tokio::test]
async fn a_release_that_is_sent_again_leaves_what_is_kept() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, UNRENEWED).await;
    holder.granted().await;
    holder.keeps(LONG).await;
    let is_released = || only(&etcd, &name).1["keep"]["released"] == true;
    let mut unheard = holder.store.withdraw(&holder.claim.key, None);
    send(&mut unheard, is_released).await;
    drop(unheard);
    // The first one goes on, and may have ended: then the second one finds nothing.
    holder.withdrawn().await;
    assert!(is_released());
    // Neither does another claim of the session, which would get its slot.
    let next = holder.another();
    next.queued().await;
    assert_eq!(line(&etcd, &name).len(), 2);
    assert_eq!(next.withdrawn().await, Withdrawal::Removed);
    assert!(is_released());
}

/// A client that has taken over the session knows of the minimum hold from etcd alone.
#[tokio::test]
async fn who_has_adopted_a_claim_keeps_it_as_long() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let holder = Bare::new(&etcd.url(), &name, TTL).await;
    let mut detached = lockkeeper::store::SessionSpec::new(TTL, Duration::ZERO);
    detached.detached = true;
    let mut holder = holder.another();
    holder.claim.key.session = lockkeeper::store::SessionId::random();
    holder.store.open(&holder.claim.key.session, &detached).await.unwrap();
    holder.granted().await;
    holder.keeps(LONG).await;
    let adopter = Bare { store: store(&etcd.url()).await, claim: holder.claim.clone() };
    let renewal = adopter.renew(LiveState::Granted).await.unwrap();
    assert!(matches!(renewal, Renewal::Held { .. }), "{renewal:?}");
    let (entry, record) = only(&etcd, &name);
    assert_eq!(entry.lease, timer(&record), "it would end with the session");
    assert_eq!(adopter.withdrawn().await, Withdrawal::Removed);
    assert_eq!(adopter.withdrawn().await, Withdrawal::Absent);
    assert_eq!(only(&etcd, &name).1["keep"]["released"], true);
}

/// A holder that is gone has released the lock too, and a break ends the kept claim at once.
#[tokio::test]
async fn a_holder_whose_session_is_gone_is_shown_as_kept() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [holder, next] =
        [Bare::new(&etcd.url(), &name, TTL).await, Bare::new(&etcd.url(), &name, TTL).await];
    holder.granted().await;
    holder.keeps(LONG).await;
    assert!(!next.line().await.entries[0].kept);
    let session = lease_of(&holder.claim.key.session);
    etcd.control().revoke(session).unwrap();
    assert!(next.line().await.entries[0].kept);
    let token = next.line().await.entries[0].token.unwrap();
    let admin = next.store.admin().unwrap();
    let evicted =
        admin.evict(&next.claim.key.name, &Target::Token(token), Evict::Mark, "op", "stuck").await;
    evicted.unwrap();
    assert!(matches!(next.tries().await, Verdict::Granted { .. }));
}

/// A mark moves a claim to the lease of the client that made the mark. A holder that does not know
/// of the mark removes this lease when it leaves.
#[tokio::test]
async fn a_session_that_is_closed_leaves_no_marked_claim() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let [holder, next] =
        [Bare::new(&etcd.url(), &name, TTL).await, Bare::new(&etcd.url(), &name, TTL).await];
    holder.granted().await;
    let token = next.line().await.entries[0].token.unwrap();
    let admin = next.store.admin().unwrap();
    let evicted =
        admin.evict(&next.claim.key.name, &Target::Token(token), Evict::Mark, "op", "stuck").await;
    evicted.unwrap();
    holder.store.close(&holder.claim.key.session, &[]).await.unwrap();
    assert!(matches!(next.tries().await, Verdict::Granted { .. }));
}

/// The copy finds that the timer runs for long enough, and writes its number only. The other one
/// has begun another timer by then, because less was left.
#[tokio::test(flavor = "multi_thread")]
async fn a_minimum_hold_whose_copy_was_faster_ends_no_claim() {
    let (etcd, name) = (Etcd::start().unwrap(), name());
    let proxy = Proxy::raw(etcd.addresses()[0]).unwrap();
    let holder = Bare::new(&etcd.url_through(&[&proxy]), &name, TTL).await;
    holder.granted().await;
    holder.keeps(TTL * 3).await;
    let (mut entry, mut record) = only(&etcd, &name);
    let (first, number) = (timer(&record), 1 << 40);
    assert_eq!(entry.lease, first);
    let leases = || etcd.control().leases().unwrap();
    let before = leases();
    proxy.delay(Way::ToServer, Duration::from_secs(1));
    let (amended, second) =
        tokio::join!(holder.store.amend(&holder.claim.key, number, &Amend::MinHold(LONG)), async {
            let second = loop {
                match leases().into_iter().find(|lease| !before.contains(lease)) {
                    Some(lease) => break lease,
                    None => tokio::time::sleep(Duration::from_millis(2)).await,
                }
            };
            record["change"] = number.into();
            (entry, _) = only(&etcd, &name);
            write(&etcd, &entry, &record);
            second
        });
    assert_eq!(amended.unwrap(), Amended::Done);
    let one_has_ended = || !(leases().contains(&first) && leases().contains(&second));
    while !one_has_ended() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(only(&etcd, &name).0.lease, first);
    assert!(!leases().contains(&second));
}
