//! Requests and replies are lost, doubled, and late.

use std::pin::pin;
use std::time::Duration;

use lockkeeper::backend::redis_foreign::{ForeignRedisStore, Layout};
use lockkeeper::store::{
    Admin as _, Claim, ClaimKey, Evict, Evicted, MAX, Renewal, Store as _, TOMBSTONE_MIN, Target,
    Verdict, Withdrawal,
};
use lockkeeper::{Effect, ErrorKind, Result};
use lockkeeper_live::{Act, Proxy, redis};

use crate::support::{Claimant, JAVA, LONG, name, store};

/// After so long a request without a reply is given up.
const HASTE: Duration = Duration::from_millis(1500);

/// A claim by a client behind a proxy, and a client without faults.
struct Rig {
    proxy: Proxy,
    claim: Claimant,
    other: Claimant,
}

impl Rig {
    async fn new(layout: Layout) -> Self {
        let (server, name) = (redis().unwrap(), name());
        let (weight, capacity) =
            if layout == Layout::RedissonSemaphore { (1, 1) } else { (MAX, MAX) };
        let near = store(server, layout).await;
        // The server has every script before a request is to be the next one.
        let before =
            Claimant::new(&near, &format!("{name}-before"), LONG).await.of(weight, capacity);
        before.granted().await;
        before.release().await;
        let proxy = Proxy::resp(server.address()).unwrap();
        let builder =
            ForeignRedisStore::standalone(proxy.address().to_string(), layout).timeout(HASTE);
        let connect = || builder.clone().connect();
        let behind = lockkeeper_live::locks::patiently_connected(connect).await;
        let claim = Claimant::new(&behind, &name, LONG).await.of(weight, capacity);
        let other = Claimant::new(&near, &name, LONG).await.of(weight, capacity);
        Self { proxy, claim, other }
    }

    /// Applies this act to the client's next script, and to no other message.
    fn next(&self, act: Act) {
        let mut armed = true;
        self.proxy.on_request(move |request| {
            match request.is("EVALSHA") && std::mem::take(&mut armed) {
                true => act,
                false => Act::Pass,
            }
        });
    }

    async fn let_it_arrive(&self) {
        let before = self.proxy.seen().replies;
        self.proxy.release();
        self.proxy.until(|seen| seen.replies > before && seen.open == 1).await.unwrap();
    }

    async fn holders(&self) -> usize {
        self.other.store.line(&self.other.claim.key.name).await.unwrap().entries.len()
    }
}

fn is_unknown<T: std::fmt::Debug>(answer: Result<T>) {
    let error = answer.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown),
        "{error}"
    );
}

/// Redisson would enter the lock a second time.
#[tokio::test]
async fn a_claim_whose_reply_is_lost_or_that_arrives_twice_is_granted_once() {
    for layout in Layout::ALL {
        for act in [Act::LoseReply, Act::Twice] {
            let rig = Rig::new(layout).await;
            rig.next(act);
            let first = rig.claim.send().await;
            if act == Act::LoseReply {
                is_unknown(first);
            }
            let token = rig.claim.granted().await;
            assert_eq!(rig.claim.granted().await, token, "{layout:?}");
            assert_eq!(rig.holders().await, 1, "{layout:?}");
            rig.claim.release().await;
            rig.other.granted().await;
        }
    }
}

/// The claim reaches the server after its client has given it up.
#[tokio::test]
async fn a_claim_that_arrives_after_its_withdrawal_gets_nothing() {
    for layout in Layout::ALL {
        let rig = Rig::new(layout).await;
        rig.next(Act::Hold);
        is_unknown(rig.claim.send().await);
        let key = &rig.claim.claim.key;
        let withdrawn = rig.claim.store.withdraw(key, Some(TOMBSTONE_MIN)).await.unwrap();
        assert_eq!(withdrawn, Withdrawal::Absent, "{layout:?}");
        rig.let_it_arrive().await;
        assert_eq!(rig.holders().await, 0, "{layout:?}: nobody holds it for a ttl");
        assert!(matches!(rig.claim.send().await, Ok(Verdict::Gone)), "{layout:?}");
        rig.other.granted().await;
    }
}

/// The release reaches the server twice, when another client holds the lock.
#[tokio::test]
async fn a_late_copy_of_a_release_takes_the_lock_from_nobody() {
    for layout in Layout::ALL {
        let rig = Rig::new(layout).await;
        rig.claim.granted().await;
        rig.next(Act::LoseReply);
        is_unknown(rig.claim.store.withdraw(&rig.claim.claim.key, None).await);
        let token = rig.other.granted().await;
        let again = rig.claim.store.withdraw(&rig.claim.claim.key, None).await.unwrap();
        assert_eq!(again, Withdrawal::Absent, "{layout:?}");
        assert_eq!(rig.other.renewed().await.token(), Some(token), "{layout:?}");
    }
}

/// The holder has lost it, so its next request must not make its life longer.
#[tokio::test]
async fn a_late_copy_of_a_claim_that_is_marked_or_has_no_record_is_not_granted() {
    for layout in Layout::ALL {
        let rig = Rig::new(layout).await;
        let (claim, of) = (&rig.claim, &rig.claim.claim.key.name);
        claim.granted().await;
        let target = Target::Id(claim.claim.key.id.hash());
        let marked = claim.store.evict(of, &target, Evict::Mark, "ops", "stuck").await.unwrap();
        assert_eq!(marked, Evicted::Done, "{layout:?}");
        assert!(matches!(claim.send().await, Ok(Verdict::Gone)), "{layout:?}: marked");
        redis().unwrap().run(&["DEL", &format!("lkf:{{{of}}}")]).unwrap();
        assert!(matches!(claim.send().await, Ok(Verdict::Gone)), "{layout:?}: no record");
        assert_eq!(claim.renewed().await, Renewal::Lost(None), "{layout:?}");
    }
}

/// A writer that was refused removes the readers that have died, and claims again.
#[tokio::test]
async fn nothing_is_claimed_behind_a_close_while_dead_readers_are_removed() {
    let (rig, server) = (Rig::new(Layout::RedissonRw).await, redis().unwrap());
    let Claim { key: ClaimKey { name, session, .. }, .. } = &rig.claim.claim;
    // The key of the reader's life is gone, and that of the lock is still there.
    server.run(&["HSET", name.as_str(), "mode", "read", JAVA, "1"]).unwrap();
    server.run(&["PEXPIRE", name.as_str(), "30000"]).unwrap();
    let mut scripts = 0;
    rig.proxy.on_request(move |request| {
        scripts += usize::from(request.is("EVALSHA"));
        if request.is("EVALSHA") && scripts == 2 { Act::HoldReply } else { Act::Pass }
    });
    let closed = async {
        rig.proxy.until(|seen| seen.held > 0).await.unwrap();
        let mut closing = pin!(rig.claim.store.close(session, &[]));
        // The request to withdraw goes out, and its answer waits behind the other one.
        let early = tokio::time::timeout(Duration::ZERO, &mut closing).await;
        rig.proxy.release();
        match early {
            Ok(closed) => closed,
            Err(_) => closing.await,
        }
    };
    let (claimed, closed) = tokio::join!(rig.claim.send(), closed);
    closed.unwrap();
    assert_eq!(rig.holders().await, 0, "{claimed:?}");
}
