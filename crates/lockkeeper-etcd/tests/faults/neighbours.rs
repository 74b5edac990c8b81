//! Foreign data near the locks: an application under the same path, and stores with a path inside
//! another store's path.

use std::time::Duration;

use lockkeeper::optimistic::{Register as _, update};
use lockkeeper::{Break, ErrorKind, EtcdStore, Keeper, Target};
use lockkeeper_live::Etcd;

use crate::support::{LONG, TIME_LIMIT, UNRENEWED, keeper, patiently, within};

/// A client with its locks under this path.
async fn under(etcd: &Etcd, path: &str, ttl: Duration) -> Keeper {
    keeper(&format!("{}{path}", etcd.url()), ttl).await
}

/// Asserts that no other client gets the held lock, neither by a try, nor by waiting.
async fn is_closed(keeper: &Keeper, name: &str) {
    let mutex = keeper.mutex(name).unwrap();
    let tried = patiently(async || mutex.try_lock().await).await;
    assert!(tried.is_none(), "a try has got {name}, which is held");
    let waited = mutex.lock().wait(Duration::from_millis(700)).await;
    let kind = waited.map(|guard| guard.token()).unwrap_err().kind();
    // A busy machine answers late.
    assert!(matches!(kind, ErrorKind::Timeout | ErrorKind::Unavailable), "{name}: {kind:?}");
}

/// Three keys two levels below the old folder of a name, and one directly in it.
fn stock_up(etcd: &Etcd, folder: &str) {
    for key in ["41/qty", "42/qty", "43/qty", "total"] {
        etcd.control().put(format!("{folder}/{key}"), "7").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_below_a_locks_name_do_not_hide_its_holder() {
    let etcd = Etcd::start().unwrap();
    let (holder, other) =
        (under(&etcd, "/shop", UNRENEWED).await, under(&etcd, "/shop", LONG).await);
    let guard = holder.mutex("stock").unwrap().lock().await.unwrap();
    stock_up(&etcd, "/shop/stock");
    is_closed(&other, "stock").await;
    // Also between a holder and its waiter: a look, a renewal, and the end of the wait.
    let mutex = other.mutex("stock").unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    crate::support::until_waiting(&holder, "stock", 1).await;
    stock_up(&etcd, "/shop/stock/more");
    let third = under(&etcd, "/shop", LONG).await;
    is_closed(&third, "stock").await;
    assert!(!waiting.is_finished());
    guard.check().unwrap();
    guard.release().await.unwrap();
    let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
    is_closed(&third, "stock").await;
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_whose_path_lies_in_anothers_hides_no_holder_of_that() {
    let etcd = Etcd::start().unwrap();
    let (outer, inner) =
        (under(&etcd, "/shop", UNRENEWED).await, under(&etcd, "/shop/eu", LONG).await);
    let guard = outer.mutex("eu").unwrap().lock().await.unwrap();
    let mut others = Vec::new();
    for name in ["a", "b", "c", "eu", ".lock"] {
        others.push(inner.mutex(name).unwrap().lock().await.unwrap());
    }
    is_closed(&under(&etcd, "/shop", LONG).await, "eu").await;
    // The foreign data do not hinder the next claim when that lock is free, and the list does not
    // show them.
    guard.release().await.unwrap();
    let again = within(TIME_LIMIT, outer.mutex("eu").unwrap().lock()).await.unwrap();
    assert_eq!(outer.admin().unwrap().list("", 100).await.unwrap().len(), 1);
    assert_eq!(inner.admin().unwrap().list("", 100).await.unwrap().len(), others.len());
    again.release().await.unwrap();
    for guard in others {
        guard.check().unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrades_sweeps_and_registers_work_beside_foreign_data() {
    let etcd = Etcd::start().unwrap();
    stock_up(&etcd, "/shop/stock");
    let (store, keeper) = (
        EtcdStore::new(etcd.addresses().iter().map(ToString::to_string))
            .prefix("/shop")
            .connect()
            .await
            .unwrap(),
        under(&etcd, "/shop", LONG).await,
    );
    let reader = keeper.rw_lock("stock").unwrap().read().await.unwrap();
    let writer = reader.try_upgrade().await.unwrap();
    assert!(
        under(&etcd, "/shop", LONG)
            .await
            .rw_lock("stock")
            .unwrap()
            .try_read()
            .await
            .unwrap()
            .is_none()
    );
    let reader = writer.downgrade().await.unwrap();
    let register = store.register();
    update(&register, "stock", async |_| b"1".to_vec()).await.unwrap();
    assert!(register.load("stock").await.unwrap().is_some());
    // A key directly in the old folder of the lock, from older versions, hinders no claim.
    reader.release().await.unwrap();
    within(TIME_LIMIT, keeper.mutex("stock").unwrap().lock())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let here = etcd.control().keys("/shop/stock/").unwrap();
    assert_eq!(here.len(), 4, "what others keep is left alone: {here:?}");
}

/// A foreign key in the line itself keeps the lock closed, since a claim might be behind a skipped
/// key. The error names the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_key_in_a_line_is_named_and_can_be_broken() {
    let etcd = Etcd::start().unwrap();
    let keeper = under(&etcd, "", LONG).await;
    for key in ["/lockkeeper/.lock/stock/qty", "/lockkeeper/.lock/deep/a/b"] {
        etcd.control().put(key, "7").unwrap();
        let name = key.split('/').nth(3).unwrap();
        is_closed(&keeper, name).await;
        let info = keeper.inspect(name).await.unwrap();
        assert_eq!(info.holders[0].owner, format!("no claim, but the key {key}"));
        let target = Target::IdHash(info.holders[0].id);
        assert!(
            keeper
                .admin()
                .unwrap()
                .break_lock(name, target, "a mistake", Break::Now)
                .await
                .unwrap()
        );
        keeper
            .mutex(name)
            .unwrap()
            .try_lock()
            .await
            .unwrap()
            .expect("it is free")
            .release()
            .await
            .unwrap();
        assert!(etcd.control().get(key).unwrap().is_none());
    }
}

/// A claim in the place of older versions, on this lease.
fn put_old_claim(etcd: &Etcd, name: &str, lease: i64) {
    let record = r#"{"lockkeeper":1,"id":"abababababababababababababababab","owner":"old","lease_ms":30000,"client":"c"}"#;
    etcd.control().put_with_lease(format!("/shop/{name}/{lease:x}-0"), record, lease).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefix_of_an_older_version_is_refused_and_its_leftovers_are_harmless() {
    let etcd = Etcd::start().unwrap();
    let url = format!("{}/shop", etcd.url());
    let open =
        async |url: &str| EtcdStore::from_url(&url.parse().unwrap()).unwrap().connect().await;
    // Keys that only look like a claim, from the application or from a store with an inner path, do
    // not matter.
    let lease = etcd.control().grant(600).unwrap();
    etcd.control().put_with_lease("/shop/cafe/abba-7", "coffee", lease).unwrap();
    etcd.control().put("/shop/stock/6c0ffee-0", "no lease").unwrap();
    drop(open(&url).await.unwrap());
    put_old_claim(&etcd, "stock", lease);
    let refused = open(&url).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    let (printed, remedy) = (refused.to_string(), refused.remedy().unwrap());
    assert!(
        printed.contains("/shop/stock/") && !printed.contains(&format!("{lease:x}")),
        "{printed}"
    );
    assert!(remedy.ends_with("or unsafe=layout to go without this check"), "{remedy}");
    let waiving = open(&format!("{url}?unsafe=layout")).await.unwrap();
    drop(waiving);
    etcd.control().revoke(lease).unwrap();
    let keeper = under(&etcd, "/shop", LONG).await;
    assert!(etcd.control().get("/shop/.layout").unwrap().is_none(), "nobody has had a lock");
    let guard = keeper.mutex("stock").unwrap().lock().await.unwrap();
    assert_eq!(etcd.control().get("/shop/.layout").unwrap().unwrap().value, b"4");
    guard.release().await.unwrap();
    etcd.control().put("/shop/.layout", "5").unwrap();
    let refused = open(&url).await.unwrap_err();
    assert!(refused.to_string().contains("\"5\""), "{refused}");
}
