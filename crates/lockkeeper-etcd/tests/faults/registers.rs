//! The contract of a register, on etcd; and the check of a lock in a transaction of the user's own.

use std::sync::Arc;

use data_encoding::BASE64;
use lockkeeper::optimistic::{Register, Version, Write};
use lockkeeper::{ErrorKind, Keeper};
use lockkeeper_live::{Etcd, etcd};
use lockkeeper_testing::register::RegisterHarness;
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard};

use crate::support::{LONG, keeper, store};

lockkeeper_testing::register_suite! {
    mod etcd_register;
    harness = One;
}

/// All cases use the same few keys, so they take turns.
pub(crate) struct One {
    _turn: MutexGuard<'static, ()>,
}

impl RegisterHarness for One {
    async fn start() -> Self {
        static TURNS: Mutex<()> = Mutex::const_new(());
        let turn = TURNS.lock().await;
        etcd().unwrap().control().delete_all("/lockkeeper/.register/").unwrap();
        Self { _turn: turn }
    }

    async fn client(&self) -> Arc<dyn Register> {
        Arc::new(store(&etcd().unwrap().url()).await.register())
    }
}

/// The transaction of a former holder fails at etcd itself; the transaction of the next holder
/// succeeds.
#[tokio::test]
async fn a_stale_holders_transaction_is_refused_by_etcd() {
    let etcd = Etcd::start().unwrap();
    let (first, second) = (keeper(&etcd.url(), LONG).await, keeper(&etcd.url(), LONG).await);
    let guard = first.mutex("stock/42").unwrap().lock().await.unwrap();
    let holds = lockkeeper::etcd::compare(&guard).unwrap();
    assert!(put_if(&etcd, &holds, "stock", "6"));
    etcd.control().delete(&holds.key).unwrap();
    // The lock has no holder now, and then another one.
    assert!(!put_if(&etcd, &holds, "stock", "5"));
    let next = second.mutex("stock/42").unwrap().lock().await.unwrap();
    assert!(!put_if(&etcd, &holds, "stock", "5"));
    assert!(put_if(&etcd, &lockkeeper::etcd::compare(&next).unwrap(), "stock", "4"));
    assert_eq!(etcd.control().get("stock").unwrap().unwrap().value, b"4");
}

/// A holder that has waited, and a holder with a prefix, compare the right key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_was_waited_for_can_be_compared_too() {
    let etcd = Etcd::start().unwrap();
    let store = lockkeeper::layer::Prefix::new(store(&etcd.url()).await, "blue/").unwrap();
    let inside = Keeper::builder(store).connect().await.unwrap();
    let mutex = inside.mutex("stock").unwrap();
    let before = mutex.lock().await.unwrap();
    let waiting = tokio::spawn(std::future::IntoFuture::into_future(mutex.lock()));
    before.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(put_if(&etcd, &lockkeeper::etcd::compare(&guard).unwrap(), "stock", "1"));
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_elsewhere_cannot_be_compared_in_etcd() {
    let guard = Keeper::memory().mutex("m").unwrap().lock().await.unwrap();
    let error = lockkeeper::etcd::compare(&guard).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("not kept in etcd"), "{error}");
}

/// A client that does not know versions changes the key of a register: a write on the old version
/// is refused.
#[tokio::test]
async fn a_change_by_other_means_is_noticed() {
    let etcd = Etcd::start().unwrap();
    let register = store(&etcd.url()).await.register();
    register.compare_and_swap("a", &Write::new(Version::ABSENT, "1")).await.unwrap();
    etcd.control().put("/lockkeeper/.register/a", "by hand").unwrap();
    let error =
        register.compare_and_swap("a", &Write::new(Version::new(1), "2")).await.unwrap_err();
    assert!(error.to_string().contains("not a register of lockkeeper"), "{error}");
    assert_eq!(etcd.control().get("/lockkeeper/.register/a").unwrap().unwrap().value, b"by hand");
}

/// A transaction of another client of etcd: puts if the comparison holds.
fn put_if(etcd: &Etcd, holds: &lockkeeper::etcd::EtcdCompare, key: &str, value: &str) -> bool {
    let compare = json!({
        "key": BASE64.encode(&holds.key),
        "target": "CREATE",
        "result": "EQUAL",
        "create_revision": holds.create_revision.to_string(),
    });
    let put = json!({"request_put": {"key": BASE64.encode(key.as_bytes()), "value": BASE64.encode(value.as_bytes())}});
    let answer =
        etcd.control().call("kv/txn", &json!({"compare": [compare], "success": [put]})).unwrap();
    answer["succeeded"].as_bool().unwrap_or(false)
}
