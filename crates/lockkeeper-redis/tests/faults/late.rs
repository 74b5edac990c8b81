//! Requests that arrive late, when the line is another one.

use lockkeeper::store::{Live, LiveState, Store as _};
use lockkeeper_live::Act;

use crate::replies::{Rig, is_unknown};

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
