//! A release keeps its place before the next claim on a server that lacks the scripts.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use lockkeeper_live::Redis;

/// A dropped guard posts its release, and nothing waits for the answer. A server that lacked the
/// script of the release alone would take the next claim of the same task first.
#[tokio::test]
async fn a_release_keeps_its_place_on_a_server_without_scripts() {
    let redis = Redis::start().unwrap();
    for _ in 0..20 {
        redis.run(&["SCRIPT", "FLUSH"]).unwrap();
        let keeper = lockkeeper::connect(&redis.url()).await.unwrap();
        drop(keeper.mutex("stock").unwrap().lock().await.unwrap());
        let again = keeper.mutex("stock").unwrap().try_lock().await.unwrap();
        again.expect("the release came first").release().await.unwrap();
    }
}

/// Both requests are on their way when the server says that it has no script. The task of the
/// release is not polled meanwhile, and the task of the claim is.
#[tokio::test]
async fn a_release_under_way_keeps_its_place_before_a_claim_on_a_server_that_lost_its_scripts() {
    let redis = Redis::start().unwrap();
    let keeper = lockkeeper::connect(&redis.url()).await.unwrap();
    for _ in 0..20 {
        let held = keeper.mutex("stock").unwrap().lock().await.unwrap();
        redis.run(&["SCRIPT", "FLUSH"]).unwrap();
        let mut release = pin!(held.release());
        assert!(poll_fn(|cx| Poll::Ready(release.as_mut().poll(cx).is_pending())).await);
        let next = keeper.mutex("stock").unwrap().try_lock().await.unwrap();
        next.expect("the release came first").release().await.unwrap();
        release.await.unwrap();
    }
}
