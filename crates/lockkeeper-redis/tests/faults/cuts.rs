//! The connection is cut at every step of an acquire.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper::Keeper;
use lockkeeper_live::{Act, Message, Proxy, Way, redis};

use crate::support::{
    LONG, TIME_LIMIT, hasty_store, is_free, keeper, name, renewed, until_waiting, within,
};

type Cut = fn(&Message<'_>) -> Act;

/// Before a message, in the middle of it, before its last byte, and after it; and with a reset.
const CUTS: [(&str, Cut); 6] = [
    ("before", |_| Act::Cut),
    ("within the first byte", |_| Act::CutWithin(1)),
    ("in the middle", |message| Act::CutWithin(message.bytes.len() / 2)),
    ("before the last byte", |message| Act::CutWithin(message.bytes.len() - 1)),
    ("after", |_| Act::CutAfter),
    ("reset", |_| Act::Reset),
];

/// Cuts at the message with this number, counted from now. The result says whether the cut
/// happened.
fn cut_at(proxy: &Proxy, way: Way, number: u64, cut: Cut) -> Arc<AtomicBool> {
    let happened = Arc::new(AtomicBool::new(false));
    let (mut count, flag) = (0, Arc::clone(&happened));
    let decide = move |message: &Message<'_>| {
        count += 1;
        if count != number {
            return Act::Pass;
        }
        flag.store(true, Ordering::SeqCst);
        cut(message)
    };
    match way {
        Way::ToServer => proxy.on_request(decide),
        _ => proxy.on_reply(decide),
    }
    happened
}

/// A waiter whose connection is cut gets the lock all the same, and its release leaves nothing
/// behind. Returns whether the cut happened.
async fn acquires(holder: &Keeper, way: Way, number: u64, cut: Cut) -> bool {
    let (name, proxy) = (name(), Proxy::resp(redis().unwrap().address()).unwrap());
    let waiter = keeper(proxy.address(), LONG).await;
    let first = holder.mutex(&*name).unwrap().lock().await.unwrap();
    let happened = cut_at(&proxy, way, number, cut);
    let waiting = tokio::spawn(waiter.mutex(&*name).unwrap().lock().into_future());
    until_waiting(holder, &name, 1).await;
    let token = first.token();
    first.release().await.unwrap();
    let second = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    assert!(second.token() > token);
    renewed(&second).await;
    second.release().await.unwrap();
    is_free(holder, &name).await;
    happened.load(Ordering::SeqCst)
}

/// Cuts at the first message of an acquire, at the second, and so on until the acquire ends before
/// the cut; in each direction, in each manner. Each time the waiter gets the lock, its token rises,
/// the release is done, the line is empty, and the lock is free at once.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_cut_at_any_step_succeeds_and_leaves_nothing_behind() {
    let mut rounds = tokio::task::JoinSet::new();
    for way in [Way::ToServer, Way::ToClient] {
        for (manner, cut) in CUTS {
            rounds.spawn(async move {
                let holder = keeper(redis().unwrap().address(), LONG).await;
                let mut number = 1;
                while acquires(&holder, way, number, cut).await {
                    number += 1;
                }
                assert!(
                    number > 3,
                    "{way:?}, {manner}: an acquire and a release have more than {number} messages"
                );
            });
        }
    }
    while let Some(ended) = rounds.join_next().await {
        ended.unwrap();
    }
}

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
