//! Re-entry asks nobody.

use std::future::IntoFuture;

use lockkeeper::layer::Operation;
use lockkeeper::{ErrorKind, Owner};
use tokio::time::sleep;

use super::spy::{Do, World, millis, secs};

#[tokio::test(start_paused = true)]
async fn a_depth_of_eight_is_one_acquire_and_one_release() {
    let party = World::new().party(secs(30)).await;
    let (ledger, me) = (party.keeper.reentrant_mutex("n").unwrap(), Owner::new());
    let mut guards = Vec::new();
    for _ in 0..8 {
        guards.push(ledger.lock(&me).await.unwrap());
    }
    while let Some(guard) = guards.pop() {
        guard.release().await.unwrap();
    }
    let asked = [Operation::Claim, Operation::Withdraw].map(|operation| party.spy.asked(operation).len());
    assert_eq!(asked, [1, 1]);
    assert_eq!((party.count("acquired"), party.count("released")), (1, 1));
    assert_eq!(party.keeper.leftovers(), 0);
}

/// A share that nobody took is given back, and the claim goes with the last.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_dropped_leaves_the_others_their_claim() {
    let party = World::new().party(secs(30)).await;
    let (ledger, me) = (party.keeper.reentrant_mutex("n").unwrap(), Owner::new());
    party.spy.once(Operation::Claim, Do::Late(millis(100)));
    let first = tokio::spawn(ledger.lock(&me).into_future());
    sleep(millis(10)).await;
    let second = tokio::spawn(ledger.lock(&me).into_future());
    sleep(millis(10)).await;
    first.abort();
    let guard = second.await.unwrap().unwrap();
    sleep(secs(1)).await;
    guard.check().unwrap();
    assert_eq!(party.spy.asked(Operation::Claim).len() - party.spy.asked(Operation::Withdraw).len(), 1);
    guard.release().await.unwrap();
    assert_eq!(party.keeper.leftovers(), 0);
}

/// When the first attempt fails, the one behind it asks for itself.
#[tokio::test(start_paused = true)]
async fn a_failure_is_not_shared() {
    let party = World::new().party(secs(30)).await;
    let (ledger, me) = (party.keeper.reentrant_mutex("n").unwrap(), Owner::new());
    let mut refusals = 1;
    party.spy.rule(move |asked| {
        let refused = asked.operation == Operation::Claim && refusals > 0;
        refusals -= i32::from(refused);
        refused.then_some(Do::Fail(ErrorKind::Denied))
    });
    let (first, second) = tokio::join!(ledger.lock(&me), ledger.lock(&me));
    assert_eq!(first.unwrap_err().kind(), ErrorKind::Denied);
    second.unwrap().release().await.unwrap();
    assert_eq!(party.keeper.leftovers(), 0);
}
