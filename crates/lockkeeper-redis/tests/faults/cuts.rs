//! The caller of an acquire goes away while its claim is under way.

use std::future::IntoFuture;
use std::time::Duration;

use lockkeeper::Keeper;
use lockkeeper_live::{Act, Proxy, redis};

use crate::support::{LONG, TIME_LIMIT, hasty_store, is_free, name, within};

/// The claim is sent, no reply comes, and the caller goes away. The claim is withdrawn after it; a
/// claim that is still under way then is refused when it arrives.
#[tokio::test]
async fn a_claim_whose_caller_has_gone_leaves_nothing_behind() {
    let server = redis().unwrap().address();
    for act in [Act::LoseReply, Act::HoldReply, Act::Hold, Act::CutWithin(1)] {
        let (name, proxy) = (name(), Proxy::resp(server).unwrap());
        let store = hasty_store(proxy.address(), Duration::from_millis(400)).await;
        let keeper = Keeper::builder(store).ttl(LONG).connect().await.unwrap();
        let mut armed = true;
        let (sent, was_sent) = tokio::sync::oneshot::channel();
        let mut sent = Some(sent);
        proxy.on_request(move |request| {
            if request.is("EVALSHA") && std::mem::take(&mut armed) {
                let _ = sent.take().map(|sent| sent.send(()));
                return act;
            }
            Act::Pass
        });
        let calling = tokio::spawn(keeper.mutex(&*name).unwrap().lock().into_future());
        within(TIME_LIMIT, was_sent).await.unwrap();
        calling.abort();
        assert!(calling.await.unwrap_err().is_cancelled());
        keeper.shutdown(TIME_LIMIT).await.unwrap();
        proxy.release();
        proxy.until(|seen| seen.open == 0).await.unwrap();
        is_free(&crate::support::keeper(server, LONG).await, &name).await;
    }
}
