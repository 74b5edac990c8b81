//! Very many wait for one lock.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockkeeper::store::Renewal;
use lockkeeper::{Keeper, RedisStore};
use lockkeeper_live::Redis;

use crate::support::{Claimant, LONG, is_free, keeper, name, store, until_waiting, within};

const WAITERS: usize = 200;
const CONNECTIONS: usize = 4;

/// 200 waiters, each a client with a session of its own, on four connections: each gets the lock
/// once, in the order of arrival, all within seconds, and with a few commands for each.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_waiters_get_the_lock_in_order_with_few_commands() {
    let server = Redis::start().unwrap();
    let name = name();
    let holder = keeper(server.address(), LONG).await;
    let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
    let mut stores: Vec<RedisStore> = Vec::new();
    for _ in 0..CONNECTIONS {
        stores.push(store(server.address()).await);
    }
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = tokio::task::JoinSet::new();
    for waiter in 0..WAITERS {
        let keeper = Keeper::builder(stores[waiter % CONNECTIONS].clone())
            .ttl(LONG)
            .connect()
            .await
            .unwrap();
        let (mutex, order) = (keeper.mutex(&*name).unwrap(), Arc::clone(&order));
        waiting.spawn(async move {
            let guard = mutex.lock().await.unwrap();
            order.lock().unwrap().push((waiter, guard.token()));
            guard.release().await.unwrap();
        });
        until_waiting(&holder, &name, waiter + 1).await;
    }
    let (before, began) = (calls(&server), Instant::now());
    guard.release().await.unwrap();
    within(Duration::from_secs(30), async {
        while let Some(done) = waiting.join_next().await {
            done.unwrap();
        }
    })
    .await;
    let (took, calls) = (began.elapsed(), calls(&server) - before);
    eprintln!("{WAITERS} waiters in {took:?} with {calls} commands");
    let order = order.lock().unwrap().clone();
    assert_eq!(
        order.iter().map(|(waiter, _)| *waiter).collect::<Vec<_>>(),
        (0..WAITERS).collect::<Vec<_>>()
    );
    assert!(order.windows(2).all(|pair| pair[0].1 < pair[1].1), "tokens rise");
    // A release and a renewal for each hand-off; during the wait, a renewal now and then.
    let renewals = 1 + took.as_secs();
    assert!(calls < WAITERS as u64 * (4 + renewals), "{calls} commands in {took:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
    is_free(&holder, &name).await;
}

/// How many scripts the server has run.
fn calls(server: &Redis) -> u64 {
    let stat = server.info("cmdstat_evalsha").unwrap();
    stat.split(',').find_map(|field| field.strip_prefix("calls=")).unwrap().parse().unwrap()
}

/// The first waiter dies while the lock is held. The waiter behind removes it when it asks, and
/// becomes the first: it has to look for the holder's end.
#[tokio::test]
async fn a_waiter_behind_dead_claims_removes_them_and_becomes_the_first() {
    const WAIT: Duration = Duration::from_millis(300);
    let server = Redis::start().unwrap();
    let store = store(server.address()).await;
    for renews in [false, true] {
        let name = format!("lock-{renews}");
        let holder = Claimant::new(&store, &name, LONG).await;
        holder.granted().await;
        let mut dead = Claimant::new(&store, &name, LONG).await;
        dead.claim.wait_ttl = WAIT;
        dead.queued().await;
        let second = Claimant::new(&store, &name, LONG).await;
        second.queued().await;
        tokio::time::sleep(2 * WAIT).await;
        if renews {
            assert_eq!(second.renew().await.unwrap(), Renewal::Queued);
        } else {
            second.queued().await;
        }
        let waiting: u32 = server.query(&["ZCARD", &format!("lk:{{{name}}}:q")]).unwrap();
        assert_eq!(waiting, 1, "renews: {renews}");
        second.withdraw(None).await.unwrap();
        holder.release().await;
    }
}

/// An administrator deletes the key of a line, and not its side keys: no claim of the old line
/// counts in the new one.
#[tokio::test]
async fn leftovers_of_a_deleted_line_are_not_used() {
    let server = Redis::start().unwrap();
    let store = store(server.address()).await;
    let claimant = async || Claimant::new(&store, "lock", LONG).await;
    let (holder, waiter) = (claimant().await, claimant().await);
    holder.granted().await;
    waiter.queued().await;
    server.run(&["DEL", "lk:{lock}"]).unwrap();
    let (next, after) = (claimant().await, claimant().await);
    next.granted().await;
    after.queued().await;
    next.sees(&[&next, &after]).await;
    assert_eq!(holder.renew().await.unwrap(), Renewal::Lost(None));
    next.release().await;
    next.sees(&[&after]).await;
    after.release().await;
}

/// A renewal does not revive a holder that was alone in its line and has died.
#[tokio::test]
async fn the_renewal_of_one_that_is_alone_and_dead_revives_nothing() {
    const TTL: Duration = Duration::from_millis(300);
    let server = Redis::start().unwrap();
    let store = store(server.address()).await;
    let dead = Claimant::new(&store, "lock", TTL).await;
    dead.granted().await;
    tokio::time::sleep(2 * TTL).await;
    assert_eq!(dead.renew().await.unwrap(), Renewal::Lost(None));
    assert_eq!(dead.renew().await.unwrap(), Renewal::Lost(None));
    Claimant::new(&store, "lock", TTL).await.granted().await;
}
