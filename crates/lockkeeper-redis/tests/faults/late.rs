//! Requests that arrive late, when the line is another one.

use lockkeeper::store::{Live, LiveState, Store as _};
use lockkeeper::{Effect, ErrorKind};
use lockkeeper_live::Act;

use crate::replies::{Rig, is_unknown};
use crate::support::{Claimant, LONG};

/// The answer to a claim is lost, and the claim arrives after the end of its session. The engine
/// closes a session without a list of claims.
#[tokio::test]
async fn a_claim_that_arrives_after_a_close_without_a_list_is_refused() {
    let rig = Rig::new().await;
    rig.next(Act::Hold);
    is_unknown(rig.a.send().await);
    rig.a.store.close(&rig.a.claim.key.session, &[]).await.unwrap();
    rig.let_it_arrive().await;
    assert_eq!(rig.b.line().await.entries.len(), 0, "nobody holds it for a ttl");
}

/// The same after another copy of the claim was answered.
#[tokio::test]
async fn a_late_copy_of_an_answered_claim_is_refused_after_a_close() {
    let rig = Rig::new().await;
    rig.next(Act::Hold);
    is_unknown(rig.a.send().await);
    rig.a.resend().await.unwrap();
    let live = [Live { key: rig.a.claim.key.clone(), state: LiveState::Granted }];
    rig.a.store.close(&rig.a.claim.key.session, &live).await.unwrap();
    rig.let_it_arrive().await;
    assert_eq!(rig.b.line().await.entries.len(), 0, "nobody holds it for a ttl");
}

/// A request to let go arrives late, when its holder has let go and the next one holds. The
/// administrator has asked the holders of that time, and no later claim.
#[tokio::test]
async fn a_request_to_let_go_that_arrives_late_asks_nobody_else() {
    let rig = Rig::new().await;
    rig.b.granted().await;
    let (store, key) = (&rig.a.store, &rig.a.claim.key);
    assert!(store.admin().unwrap().request_release(&key.name, "ops", "before").await.unwrap());
    let mut armed = true;
    rig.proxy.on_request(move |request| {
        match request.contains("a deploy") && std::mem::take(&mut armed) {
            true => Act::Hold,
            false => Act::Pass,
        }
    });
    is_unknown(store.admin().unwrap().request_release(&key.name, "ops", "a deploy").await);
    rig.b.release().await;
    let next = Claimant::new(&rig.b.store, rig.b.claim.key.name.as_str(), LONG).await;
    next.granted().await;
    rig.let_it_arrive().await;
    let live = [Live { key: next.claim.key.clone(), state: LiveState::Granted }];
    let renewed = next.store.renew(&next.claim.key.session, &live).await.unwrap();
    assert!(renewed.requests.is_empty(), "{:?}", renewed.requests);
    next.release().await;
}

/// The holders change between each look at them and the request to them. The administrator gets no
/// answer that the present holder was asked.
#[tokio::test]
async fn a_request_that_has_asked_no_holder_does_not_say_that_it_has() {
    let rig = Rig::new().await;
    rig.b.granted().await;
    let key = format!("lk:{{{}}}", rig.b.claim.key.name.as_str().replace('/', "%2F"));
    let server = lockkeeper_live::redis().unwrap();
    let mut id = 0;
    rig.proxy.on_request(move |request| {
        if request.contains("a deploy") {
            // Bytes 18 to 33 of a lock with one holder are the id of its claim: the next one holds.
            id += 1;
            server.run(&["SETRANGE", &key, "17", &format!("{id:016}")]).unwrap();
        }
        Act::Pass
    });
    let name = &rig.a.claim.key.name;
    let asked = rig.a.store.admin().unwrap().request_release(name, "ops", "a deploy").await;
    let error = asked.expect_err("nobody was asked, and the lock is held");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
}
