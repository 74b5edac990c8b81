//! An administrator changes users while clients hold locks: every older token is of an old revision
//! then.

use std::time::Duration;

use lockkeeper::Keeper;
use lockkeeper_live::{Etcd, EtcdBuilder};
use serde_json::json;

use crate::support::{LONG, TIME_LIMIT, keeper, name, waiter, within};

/// Each request has to succeed at once, even on a machine that is stopped for a while.
const PATIENT: &str = "?timeout=20s";

/// The same as `etcdctl user add`.
pub(super) fn add_user(etcd: &Etcd, name: &str) {
    etcd.control().call("auth/user/add", &json!({ "name": name, "password": "secret" })).unwrap();
}

/// Tokens that carry the revision of the rights, and live for five minutes.
pub(super) fn with_jwt(folder: &std::path::Path) -> EtcdBuilder {
    let key = folder.join("key");
    std::fs::write(&key, "a secret of etcd's own, which is as long as this").unwrap();
    Etcd::builder()
        .option("auth-token", &format!("jwt,priv-key={},sign-method=HS256", key.display()))
}

/// All requests of a holder: a renewal, a change of its record, a release; and the requests of a
/// waiter.
async fn goes_on(etcd: &Etcd, keeper: &Keeper, user: &str) {
    let name = name();
    let guard = keeper.mutex(&name).unwrap().lock().await.unwrap();
    let waiting = waiter(keeper, &name).await;
    add_user(etcd, &format!("{user}-1"));
    guard.renew_once().await.unwrap();
    add_user(etcd, &format!("{user}-2"));
    assert_eq!(keeper.inspect(&name).await.unwrap().holders.len(), 1);
    add_user(etcd, &format!("{user}-3"));
    guard.release().await.unwrap();
    let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    add_user(etcd, &format!("{user}-4"));
    let free = keeper.mutex(format!("{name}-free")).unwrap().lock().await.unwrap();
    next.check().unwrap();
    next.release().await.unwrap();
    free.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_users_costs_no_lock_with_tokens_of_an_older_revision() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = with_jwt(folder.path()).login("app", "hunter2").start().unwrap();
    goes_on(&etcd, &keeper(&(etcd.url() + PATIENT), LONG).await, "jwt").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_users_between_claim_and_answer_has_no_effect() {
    let etcd = Etcd::builder().login("app", "hunter2").start().unwrap();
    let keeper = keeper(&(etcd.url() + PATIENT), LONG).await;
    goes_on(&etcd, &keeper, "simple").await;
    let changes = async {
        for number in 0..20 {
            add_user(&etcd, &format!("more-{number}"));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let locks = async {
        for _ in 0..40 {
            keeper.mutex(name()).unwrap().lock().await.unwrap().release().await.unwrap();
        }
    };
    tokio::join!(changes, locks);
}
