//! The server of a transaction is a replica now, and another server is the master.

use lockkeeper::optimistic::redis::Transactions;
use lockkeeper::{Guard, RedisStore, Sequencer};
use lockkeeper_live::{Proxy, Redis};

use super::fenced::{is_refused, look};
use crate::support::{Claimant, LONG, TIME_LIMIT, keeper, name, store, within};
use crate::topologies::demotions::follows;

/// The address of a client leads to a new master. A newer holder has looked there, and the old
/// master has no mark of that.
struct Change {
    old: Redis,
    new: Redis,
    clients: Proxy,
    key: String,
    older: Sequencer,
    behind: RedisStore,
    transactions: Transactions,
}

impl Change {
    async fn new() -> Self {
        let (old, new) = (Redis::start().unwrap(), Redis::start().unwrap());
        let clients = Proxy::resp(old.address()).unwrap();
        let (keeper, key) = (keeper(clients.address(), LONG).await, name());
        let behind = store(clients.address()).await;
        let transactions = behind.transactions();
        let guard = keeper.mutex(&*key).unwrap().lock().await.unwrap();
        let older = guard.sequencer();
        // The store keeps this connection for the next transaction.
        look(&transactions, &key, &older).await.unwrap();
        guard.release().await.unwrap();
        follows(&new, &old).await;
        new.run(&["REPLICAOF", "NO", "ONE"]).unwrap();
        old.run(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
        clients.set_target(new.address());
        Self { old, new, clients, key, older, behind, transactions }
    }

    /// A newer holder looks at the new master.
    async fn newer(&self) -> Guard {
        let keeper = keeper(self.new.address(), LONG).await;
        let guard = keeper.mutex(&*self.key).unwrap().lock().await.unwrap();
        let transactions = store(self.new.address()).await.transactions();
        look(&transactions, &self.key, &guard.sequencer()).await.unwrap();
        guard
    }

    /// Asserts that the newer holder shuts out the older one.
    async fn refuses_the_older(&self) {
        let guard = self.newer().await;
        let looked = look(&self.transactions, &self.key, &self.older).await;
        is_refused(looked, &self.older, &guard.sequencer());
        assert_eq!(self.old.info("role").unwrap(), "slave");
        guard.release().await.unwrap();
    }
}

/// The connection of the locks has gone to the new master. An idle connection of the transactions
/// still leads to the old one.
#[tokio::test]
async fn an_idle_connection_to_a_former_server_serves_no_transaction() {
    let change = Change::new().await;
    // The store goes to the new master with its first write.
    let warm = Claimant::new(&change.behind, &name(), LONG).await;
    within(TIME_LIMIT, async { while warm.send().await.is_err() {} }).await;
    warm.release().await;
    change.refuses_the_older().await;
}

/// All connections of the store still lead to the old master, which is a replica.
#[tokio::test]
async fn a_replica_lets_no_holder_pass_that_changes_nothing() {
    let change = Change::new().await;
    assert!(change.clients.seen().open > 0);
    change.refuses_the_older().await;
}
