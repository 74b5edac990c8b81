//! Requests and replies are lost, doubled, and late.

use std::time::{Duration, Instant};

use lockkeeper::store::{
    Amended, Live, LiveState, Renewal, Store as _, TOMBSTONE_MIN, Verdict, Withdrawal,
};
use lockkeeper::{Effect, ErrorKind, RedisStore, Result};
use lockkeeper_live::{Act, Proxy, redis};

use crate::support::{Claimant, LONG, TIME_LIMIT, hasty_store, keeper, name, store, token, within};

/// After so long a request without a reply is given up.
const HASTE: Duration = Duration::from_millis(1500);
/// Two ways in which a reply is missing: the connection ends, or no event follows.
const NO_REPLY: [Act; 2] = [Act::LoseReply, Act::HoldReply];

/// A client behind a proxy, and two claims on one lock: one by this client, and one by a client
/// without faults.
pub(crate) struct Rig {
    pub(crate) proxy: Proxy,
    pub(crate) a: Claimant,
    pub(crate) b: Claimant,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        let (server, name) = (redis().unwrap().address(), name());
        let proxy = Proxy::resp(server).unwrap();
        // The server has every script before a request is to be the next one.
        let before = Claimant::new(&store(server).await, &format!("{name}-before"), LONG).await;
        before.granted().await;
        before.show("x").await.unwrap();
        before.renew().await.unwrap();
        before.sees(&[&before]).await;
        before.release().await;
        let behind: RedisStore = hasty_store(proxy.address(), HASTE).await;
        let (a, b) = (
            Claimant::new(&behind, &name, LONG).await,
            Claimant::new(&store(server).await, &name, LONG).await,
        );
        Self { proxy, a, b }
    }

    /// Applies this act to the client's next script, and to no other message.
    pub(crate) fn next(&self, act: Act) {
        let mut armed = true;
        self.proxy.on_request(move |request| {
            match request.is("EVALSHA") && std::mem::take(&mut armed) {
                true => act,
                false => Act::Pass,
            }
        });
    }

    /// Lets the held request arrive, and waits until the server has answered it.
    pub(crate) async fn let_it_arrive(&self) {
        let before = self.proxy.seen().replies;
        self.proxy.release();
        self.proxy.until(|seen| seen.replies > before && seen.open == 1).await.unwrap();
    }

    async fn shown(&self) -> String {
        let value = self.b.line().await.entries[0].meta.value.clone().unwrap_or_default();
        String::from_utf8(value.to_vec()).unwrap()
    }
}

/// The request may have taken effect, and the error says so.
pub(crate) fn is_unknown<T: std::fmt::Debug>(answer: Result<T>) {
    let error = answer.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown),
        "{error}"
    );
}

/// The reply to a claim is lost: the claim is granted once, and a repeated claim gets the same
/// grant.
#[tokio::test]
async fn a_claim_whose_reply_is_lost_is_granted_once() {
    for act in NO_REPLY {
        let rig = Rig::new().await;
        rig.next(act);
        is_unknown(rig.a.send().await);
        let line = rig.b.line().await;
        let again = token(rig.a.resend().await);
        assert_eq!((line.entries.len(), line.entries[0].token), (1, Some(again)));
        rig.proxy.release();
        rig.a.sees(&[&rig.a]).await;
        rig.a.release().await;
    }
}

/// The reply to a renewal is lost: its outcome is unknown, the lock is still held, and the next
/// renewal confirms it.
#[tokio::test]
async fn a_renewal_whose_reply_is_lost_is_sent_again() {
    for act in NO_REPLY {
        let rig = Rig::new().await;
        let token = rig.a.granted().await;
        rig.next(act);
        is_unknown(rig.a.renew().await);
        assert_eq!(rig.a.renew().await.unwrap().token(), Some(token));
        rig.a.release().await;
    }
}

/// The reply to a release is lost: the next waiter has got the lock, and a repeated release does
/// not take it away.
#[tokio::test]
async fn a_release_whose_reply_is_lost_is_done_once() {
    for act in NO_REPLY {
        let rig = Rig::new().await;
        rig.a.granted().await;
        rig.b.queued().await;
        rig.next(act);
        is_unknown(rig.a.withdraw(None).await);
        assert_eq!(rig.a.withdraw(None).await.unwrap(), Withdrawal::Absent);
        rig.b.sees(&[&rig.b]).await;
        rig.b.release().await;
    }
}

/// The reply to a change is lost: the change was made, and a repeated change makes it again.
#[tokio::test]
async fn a_change_whose_reply_is_lost_is_made() {
    for act in NO_REPLY {
        let rig = Rig::new().await;
        rig.a.granted().await;
        rig.next(act);
        is_unknown(rig.a.show("x").await);
        assert_eq!(rig.shown().await, "x");
        assert_eq!(rig.a.show("x").await.unwrap(), Amended::Done);
        rig.a.release().await;
    }
}

/// Every request comes twice, one right behind the other: each has the effect and the answer of
/// one.
#[tokio::test]
async fn whatever_comes_twice_counts_once() {
    let rig = Rig::new().await;
    rig.proxy.on_request(|_| Act::Twice);
    let first = rig.a.granted().await;
    rig.a.sees(&[&rig.a]).await;
    assert_eq!(rig.a.renew().await.unwrap().token(), Some(first));
    assert_eq!(rig.a.show("x").await.unwrap(), Amended::Done);
    assert_eq!(rig.shown().await, "x");
    rig.b.queued().await;
    rig.a.release().await;
    rig.b.sees(&[&rig.b]).await;
    assert!(rig.b.granted().await > first);
    rig.b.release().await;
    assert_eq!(rig.b.line().await.entries.len(), 0);
}

/// A claim arrives after it was given up and withdrawn: the tombstone refuses it, and the lock
/// stays free. Without a tombstone the lock would be granted to a claim without a client, which
/// this test shows too.
#[tokio::test]
async fn a_claim_that_arrives_late_is_refused_by_its_tombstone() {
    for tombstone in [Some(TOMBSTONE_MIN), None] {
        let rig = Rig::new().await;
        rig.next(Act::Hold);
        is_unknown(rig.a.send().await);
        assert_eq!(rig.a.withdraw(tombstone).await.unwrap(), Withdrawal::Absent);
        rig.let_it_arrive().await;
        assert_eq!(rig.b.line().await.entries.len(), usize::from(tombstone.is_none()));
        if tombstone.is_some() {
            assert_eq!(rig.a.resend().await.unwrap(), Verdict::Gone);
            rig.b.granted().await;
            rig.b.release().await;
        }
    }
}

/// The same at the end of the session, which names the claims under way: its tombstone refuses a
/// later arrival.
#[tokio::test]
async fn a_claim_that_arrives_after_the_end_of_its_session_is_refused() {
    let rig = Rig::new().await;
    rig.next(Act::Hold);
    is_unknown(rig.a.send().await);
    let under_way = Live { key: rig.a.claim.key.clone(), state: LiveState::InFlight };
    rig.a.store.close(&rig.a.claim.key.session, &[under_way]).await.unwrap();
    rig.let_it_arrive().await;
    assert_eq!(rig.b.line().await.entries.len(), 0);
    rig.b.granted().await;
    rig.b.release().await;
}

/// A renewal arrives after the release: it revives nothing, and the next holder has the lock.
#[tokio::test]
async fn a_renewal_that_arrives_late_revives_nothing() {
    let rig = Rig::new().await;
    rig.a.granted().await;
    rig.next(Act::Hold);
    is_unknown(rig.a.renew().await);
    rig.b.queued().await;
    rig.a.release().await;
    rig.let_it_arrive().await;
    rig.b.sees(&[&rig.b]).await;
    assert_eq!(rig.a.renew().await.unwrap(), Renewal::Lost(None));
    rig.b.release().await;
}

/// A release arrives a second time, when the next holder has the lock: that holder keeps it.
#[tokio::test]
async fn a_release_that_arrives_late_takes_nothing_from_the_next() {
    let rig = Rig::new().await;
    let first = rig.a.granted().await;
    rig.next(Act::Hold);
    is_unknown(rig.a.withdraw(None).await);
    rig.a.release().await;
    let next = rig.b.granted().await;
    assert!(next > first);
    rig.let_it_arrive().await;
    assert_eq!(rig.b.renew().await.unwrap().token(), Some(next));
    rig.b.release().await;
}

/// A change arrives behind a later one of the same client: the later one stays.
#[tokio::test]
async fn a_change_that_arrives_late_does_not_bring_the_older_value_back() {
    let rig = Rig::new().await;
    rig.a.granted().await;
    rig.next(Act::Hold);
    is_unknown(rig.a.show("older").await);
    assert_eq!(rig.a.show("newer").await.unwrap(), Amended::Done);
    rig.let_it_arrive().await;
    assert_eq!(rig.shown().await, "newer");
    rig.a.release().await;
}

/// The reply to a renewal comes late: the holder may take the lock for valid for a ttl from the
/// sending of the request, not from the arrival of the reply.
#[tokio::test]
async fn a_late_reply_counts_from_the_sending_of_its_request() {
    let proxy = Proxy::resp(redis().unwrap().address()).unwrap();
    let keeper = keeper(proxy.address(), LONG).await;
    let guard = keeper.mutex(name()).unwrap().lock().await.unwrap();
    proxy.on_request(|request| if request.is("EVALSHA") { Act::HoldReply } else { Act::Pass });
    let renewing = guard.renew_once();
    let late = async {
        proxy.until(|seen| seen.held == 1).await.unwrap();
        let held = Instant::now();
        tokio::time::sleep(Duration::from_millis(1300)).await;
        proxy.on_nothing();
        proxy.release();
        held
    };
    let (renewed, held) = within(TIME_LIMIT, async { tokio::join!(renewing, late) }).await;
    renewed.unwrap();
    let (left, since) = (guard.remaining(), held.elapsed());
    assert!(left + since <= LONG, "{left:?} are left {since:?} after the request was sent");
    assert!(left > LONG / 2, "it was renewed");
    guard.release().await.unwrap();
}
