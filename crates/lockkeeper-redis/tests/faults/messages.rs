//! A message that the server pushes is lost: a subscription, a grant, a break.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use lockkeeper::store::Wake;
use lockkeeper::{Break, Keeper, LostReason, Target};
use lockkeeper_live::{Act, Message, Proxy, Redis, redis};
use tokio::sync::oneshot;

use crate::support::{
    Claimant, LONG, TIME_LIMIT, hasty_store, keeper, name, renewed, store, token, until_waiting,
    within,
};

fn is_message(message: &Message<'_>) -> bool {
    message.is_push() && message.is("message")
}

/// A proxy before the shared server that loses every message to a channel.
fn without_messages() -> Proxy {
    let proxy = Proxy::resp(redis().unwrap().address()).unwrap();
    proxy.on_reply(|reply| if is_message(reply) { Act::Drop } else { Act::Pass });
    proxy
}

/// A push reports the grant to a waiter without a request.
#[tokio::test]
async fn a_waiter_learns_that_it_was_granted() {
    let (server, name) = (redis().unwrap().address(), name());
    let (a, b) = (
        Claimant::new(&store(server).await, &name, LONG).await,
        Claimant::new(&store(server).await, &name, LONG).await,
    );
    a.granted().await;
    let (seen, _) = b.queued().await;
    a.release().await;
    let Wake::Granted { token } = b.wait(seen, TIME_LIMIT).await else { panic!("nobody told it") };
    assert_eq!(b.granted().await, token);
    b.release().await;
}

/// The connection is gone when the grant is pushed, and the push with it. As soon as the
/// subscription is there again, the waiter looks, and finds its grant.
#[tokio::test]
async fn a_waiter_looks_again_when_its_subscription_was_lost() {
    let (server, name) = (redis().unwrap().address(), name());
    let proxy = Proxy::resp(server).unwrap();
    let a = Claimant::new(&store(server).await, &name, LONG).await;
    let b = Claimant::new(&store(proxy.address()).await, &name, LONG).await;
    a.granted().await;
    let (seen, _) = b.queued().await;
    let waiting = tokio::spawn({
        let b = b.clone();
        async move { b.wait(seen, TIME_LIMIT).await }
    });
    proxy.refuse();
    proxy.cut();
    proxy.until(|seen| seen.open == 0).await.unwrap();
    a.release().await;
    proxy.accept().unwrap();
    let Wake::Granted { token } = waiting.await.unwrap() else { panic!("it did not look") };
    assert_eq!(b.granted().await, token);
    b.release().await;
}

/// The server kills every client that listens, again and again, and the lock goes from hand to hand
/// all the same.
#[tokio::test]
async fn clients_with_killed_subscriptions_still_learn_of_their_grants() {
    let server = Redis::start().unwrap();
    let name = name();
    let (one, two) = (keeper(server.address(), LONG).await, keeper(server.address(), LONG).await);
    let mut guard = one.mutex(&*name).unwrap().lock().await.unwrap();
    for round in 0..6 {
        let next = if round % 2 == 0 { &two } else { &one };
        let waiting = tokio::spawn(next.mutex(&*name).unwrap().lock().into_future());
        let looks_on = if round % 2 == 0 { &one } else { &two };
        until_waiting(looks_on, &name, 1).await;
        let killed: u32 = server.query(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
        assert_eq!(killed, 2);
        let token = guard.token();
        guard.release().await.unwrap();
        guard = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
        assert!(guard.token() > token);
    }
    guard.release().await.unwrap();
}

/// The push of a grant is lost, and the connection stays. The first waiter has to look again when
/// the holder's ttl is over at the latest, and finds its grant then.
#[tokio::test]
async fn a_waiter_with_an_unreported_grant_finds_it_at_its_next_look() {
    let (server, name, ttl) = (redis().unwrap().address(), name(), Duration::from_millis(2500));
    let proxy = without_messages();
    let a = Claimant::new(&store(server).await, &name, ttl).await;
    let b = Claimant::new(&store(proxy.address()).await, &name, LONG).await;
    a.granted().await;
    let (seen, look_again) = b.queued().await;
    assert!(look_again <= ttl + Duration::from_millis(2), "{look_again:?}");
    a.release().await;
    assert_eq!(b.wait(seen, look_again).await, Wake::Elapsed);
    token(b.resend().await);
    b.release().await;
}

/// Every push is lost: waiters of a keeper get the lock all the same, since they renew their places
/// and look again.
#[tokio::test]
async fn a_keeper_that_gets_no_report_gets_the_lock_all_the_same() {
    let (server, name) = (redis().unwrap().address(), name());
    let proxy = without_messages();
    let (holder, cut_off) = (keeper(server, LONG).await, keeper(proxy.address(), LONG).await);
    let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
    let waiting = tokio::spawn(cut_off.mutex(&*name).unwrap().lock().into_future());
    until_waiting(&holder, &name, 1).await;
    let token = guard.token();
    guard.release().await.unwrap();
    let released = Instant::now();
    let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    assert!(next.token() > token && proxy.seen().lost > 0);
    assert!(released.elapsed() < Duration::from_secs(12), "{:?}", released.elapsed());
    next.release().await.unwrap();
}

/// A holder whose lock is broken learns of it at once, long before its next renewal.
#[tokio::test]
async fn a_holder_learns_that_its_lock_was_broken() {
    let (server, name) = (redis().unwrap().address(), name());
    let (holder, admin) = (keeper(server, LONG).await, keeper(server, LONG).await);
    let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
    let broken = Instant::now();
    let target = Target::Token(guard.token());
    assert!(
        admin
            .admin()
            .unwrap()
            .break_lock(&*name, target, "maintenance", Break::Mark)
            .await
            .unwrap()
    );
    let reason = within(TIME_LIMIT, guard.lost()).await;
    assert!(
        matches!(&reason, LostReason::Broken { reason, .. } if reason == "maintenance"),
        "{reason:?}"
    );
    assert!(broken.elapsed() < LONG / 4, "{:?}", broken.elapsed());
}

/// The same with a lost push: the next renewal finds the mark, before another client has the lock.
#[tokio::test]
async fn a_break_that_was_not_reported_is_found_at_the_next_renewal() {
    let (server, name, ttl) = (redis().unwrap().address(), name(), Duration::from_secs(9));
    let proxy = without_messages();
    let (holder, admin) = (keeper(proxy.address(), ttl).await, keeper(server, ttl).await);
    let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
    let target = Target::Token(guard.token());
    assert!(
        admin
            .admin()
            .unwrap()
            .break_lock(&*name, target, "maintenance", Break::Mark)
            .await
            .unwrap()
    );
    let next = admin.mutex(&*name).unwrap();
    let (reason, next) = within(TIME_LIMIT, async {
        let lost = async {
            let reason = guard.lost().await;
            assert!(
                admin.inspect(&*name).await.unwrap().holders[0].broken.is_some(),
                "it was given away before"
            );
            reason
        };
        tokio::join!(lost, next.lock().into_future())
    })
    .await;
    assert!(
        matches!(&reason, LostReason::Broken { reason, .. } if reason == "maintenance"),
        "{reason:?}"
    );
    assert!(proxy.seen().lost > 0, "no push was lost");
    let next = next.unwrap();
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
}

/// A script keeps the server busy for longer than the client waits for an answer, so that the
/// client connects again while the server refuses everything. Afterwards the client gets the
/// server's pushes, as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_connects_to_a_busy_server_receives_later_pushes() {
    let server = Redis::builder().config("lua-time-limit", "5000").start().unwrap();
    let proxy = Proxy::resp(server.address()).unwrap();
    let store = hasty_store(proxy.address(), Duration::from_millis(1500)).await;
    let client = Keeper::builder(store).ttl(LONG).connect().await.unwrap();
    let guard = client.mutex("busy").unwrap().lock().await.unwrap();
    let (refused, is_refused) = oneshot::channel();
    let mut refused = Some(refused);
    proxy.on_reply(move |message| {
        if let Some(refused) = refused.take_if(|_| message.bytes.starts_with(b"-BUSY")) {
            refused.send(()).unwrap();
        }
        Act::Pass
    });
    let mut connection = server.connect().unwrap();
    let script = std::thread::spawn(move || {
        ::redis::cmd("EVAL").arg("while true do end").arg(0).exec(&mut connection)
    });
    while guard.renew_once().await.is_ok() {}
    within(TIME_LIMIT, is_refused).await.unwrap();
    server.run(&["SCRIPT", "KILL"]).unwrap();
    script.join().unwrap().expect_err("it was killed");
    let listens = async {
        while server.query::<Vec<String>>(&["PUBSUB", "CHANNELS", "lk:w:*"]).unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT, listens).await;
    renewed(&guard).await;
    guard.release().await.unwrap();
}
