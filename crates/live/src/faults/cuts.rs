//! The connection is cut at every step of an acquire.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockkeeper::Keeper;
use tokio::task::{JoinSet, LocalSet};

use super::{keeper, lock};
use crate::locks::{LONG, TIME_LIMIT, is_free, name, renewed, within};
use crate::proxy::{Act, Message, Proxy, Way};
use crate::server::Server;

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
async fn acquires<S: Server>(
    server: &S,
    holder: &Keeper,
    way: Way,
    (number, cut): (u64, Cut),
) -> bool {
    let (name, proxy) = (name(), &server.proxies()[0]);
    let waiter = keeper(&server.url_through_proxies(), LONG).await;
    let first = lock(holder, &name).await;
    let happened = cut_at(proxy, way, number, cut);
    let waiting = tokio::spawn(waiter.mutex(&*name).unwrap().lock().into_future());
    server.until_waiting(holder, &name, 1).await;
    let token = first.token();
    first.release().await.unwrap();
    let second = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    assert!(second.token() > token);
    renewed(&second).await;
    second.release().await.unwrap();
    is_free(holder, &name).await;
    proxy.on_nothing();
    happened.load(Ordering::SeqCst)
}

/// Cuts at the first message of an acquire, at the second, and so on until the acquire ends before
/// the cut; in each direction, in each manner. Each time the waiter gets the lock, its token rises,
/// the release is done, the line is empty, and the lock is free at once.
pub async fn an_acquire_that_is_cut_at_any_step_succeeds_and_leaves_nothing_behind<S: Server>() {
    let mut rounds = JoinSet::new();
    let all = async {
        for way in [Way::ToServer, Way::ToClient] {
            for (manner, cut) in CUTS {
                rounds.spawn_local(is_cut_at_each_step::<S>(way, manner, cut));
            }
        }
        while let Some(ended) = rounds.join_next().await {
            ended.unwrap();
        }
    };
    LocalSet::new().run_until(all).await;
}

async fn is_cut_at_each_step<S: Server>(way: Way, manner: &'static str, cut: Cut) {
    let server = S::start().unwrap();
    let holder = keeper(&server.url(), LONG).await;
    let mut number = 1;
    while acquires(&server, &holder, way, (number, cut)).await {
        number += 1;
    }
    eprintln!("{way:?}, {manner}: {} cuts", number - 1);
    assert!(
        number > 3,
        "{way:?}, {manner}: an acquire and a release have more than {number} messages"
    );
}
