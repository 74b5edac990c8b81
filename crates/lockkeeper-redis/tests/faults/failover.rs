//! The master is gone, and a replica takes over.

use std::time::{Duration, Instant};

use lockkeeper::fence::FenceGate;
use lockkeeper::{ErrorKind, LostReason};
use lockkeeper_live::{Proxy, Redis, Way};

use crate::support::{LONG, TIME_LIMIT, keeper, name, renewed, within};

/// A master and its replica, and the address that the clients use for the master.
struct Pair {
    master: Redis,
    replica: Redis,
    /// Between master and replica.
    copying: Proxy,
    /// Between the clients and the present master.
    clients: Proxy,
}

impl Pair {
    fn start() -> Self {
        let master = Redis::start().unwrap();
        let replica = Redis::builder().replica_of(&master).start().unwrap();
        let copying = Proxy::raw(master.address()).unwrap();
        replica.run(&["REPLICAOF", "127.0.0.1", &copying.port().to_string()]).unwrap();
        let clients = Proxy::resp(master.address()).unwrap();
        let pair = Self { master, replica, copying, clients };
        pair.wait_until(|pair| pair.replica.info("master_link_status").unwrap() == "up");
        pair
    }

    /// Waits until the replica has all acknowledged writes of the master.
    fn catch_up(&self) {
        self.wait_until(|pair| {
            let offset = pair.master.info("master_repl_offset").unwrap();
            pair.replica.info("slave_repl_offset").unwrap() == offset
        });
    }

    fn wait_until(&self, what: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !what(self) {
            assert!(began.elapsed() < TIME_LIMIT, "the replica does not follow");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// From now on the replica receives nothing.
    fn fall_behind(&self) {
        self.copying.hold(Way::Both);
    }

    fn fail_over(&mut self) {
        self.master.kill().unwrap();
        self.replica.run(&["REPLICAOF", "NO", "ONE"]).unwrap();
        self.clients.set_target(self.replica.address());
        self.clients.cut();
    }
}

/// A failover loses the last writes, and the grant with them: a second holder gets the lock while
/// the first holder, which is cut off, still takes it for valid. Exclusion fails, and this test
/// shows it. The tokens rise all the same, also above the lost one, so a fence that has seen the
/// second holder refuses the first. The first holder learns of the loss when it is connected again.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_without_the_grant_is_caught_by_the_fence() {
    let (mut pair, name) = (Pair::start(), name());
    let way = Proxy::resp(pair.clients.address()).unwrap();
    let (holder, other) =
        (keeper(way.address(), LONG).await, keeper(pair.clients.address(), LONG).await);
    let before = holder.mutex(&*name).unwrap().lock().await.unwrap();
    before.release().await.unwrap();
    pair.catch_up();
    pair.fall_behind();
    let older = holder.mutex(&*name).unwrap().lock().await.unwrap();
    let gate = FenceGate::new(older.name().clone());
    gate.admit(&older.sequencer()).unwrap();
    way.refuse();
    way.cut();
    pair.fail_over();
    let newer = within(TIME_LIMIT, other.mutex(&*name).unwrap().lock()).await.unwrap();
    older.check().expect("two believe in it at the same time: only the fence helps");
    assert!(newer.token() > older.token());
    gate.admit(&newer.sequencer()).unwrap();
    gate.admit(&older.sequencer()).unwrap_err();
    way.accept().unwrap();
    assert_eq!(within(TIME_LIMIT, older.lost()).await, LostReason::Forgotten);
    assert!(older.check().is_err());
    assert_eq!(older.release().await.unwrap_err().kind(), ErrorKind::Lost);
    renewed(&newer).await;
    newer.release().await.unwrap();
}

/// A failover to a complete replica: the holder keeps the lock with its token, and no other client
/// gets it before its release.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_loses_nothing_keeps_the_lock() {
    let (mut pair, name) = (Pair::start(), name());
    let (holder, other) =
        (keeper(pair.clients.address(), LONG).await, keeper(pair.clients.address(), LONG).await);
    let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
    pair.catch_up();
    pair.fail_over();
    renewed(&guard).await;
    assert!(other.mutex(&*name).unwrap().try_lock().await.unwrap().is_none(), "it was given away");
    let token = guard.token();
    guard.release().await.unwrap();
    let next = other.mutex(&*name).unwrap().try_lock().await.unwrap().expect("it is free");
    assert!(next.token() > token);
    next.release().await.unwrap();
}

/// A failover that loses a release: the lock stays held for the rest of its ttl, and not longer.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_loses_a_release_costs_the_rest_of_the_ttl() {
    let (mut pair, name, ttl) = (Pair::start(), name(), Duration::from_secs(3));
    let (holder, other) =
        (keeper(pair.clients.address(), ttl).await, keeper(pair.clients.address(), LONG).await);
    let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
    pair.catch_up();
    pair.fall_behind();
    let token = guard.token();
    guard.release().await.unwrap();
    pair.fail_over();
    let began = Instant::now();
    let next = within(TIME_LIMIT, other.mutex(&*name).unwrap().lock()).await.unwrap();
    assert!(next.token() > token);
    assert!(began.elapsed() < ttl + Duration::from_secs(15), "{:?}", began.elapsed());
    next.release().await.unwrap();
}

/// The master hands over to its replica and becomes a replica itself (`FAILOVER`); the clients'
/// address leads to the new master. No connection ends by that: a client with renewals, and a
/// client without, leave the old master by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn clients_of_one_address_leave_a_server_that_has_become_a_replica() {
    let (pair, name) = (Pair::start(), name());
    let (holder, other) =
        (keeper(pair.clients.address(), LONG).await, keeper(pair.clients.address(), LONG).await);
    let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
    pair.catch_up();
    pair.clients.set_target(pair.replica.address());
    pair.replica.run(&["REPLICAOF", "NO", "ONE"]).unwrap();
    pair.master.run(&["REPLICAOF", "127.0.0.1", &pair.replica.port().to_string()]).unwrap();
    renewed(&guard).await;
    assert!(other.mutex(&*name).unwrap().try_lock().await.unwrap().is_none(), "it was given away");
    guard.release().await.unwrap();
    other
        .mutex(&*name)
        .unwrap()
        .try_lock()
        .await
        .unwrap()
        .expect("it is free")
        .release()
        .await
        .unwrap();
}
