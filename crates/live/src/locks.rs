//! What the tests of all stores share: limits of time, names, and how to wait for what clients see.
//!
//! A busy machine causes elections, and no server answers until an election is over. [`patiently`]
//! asks again then, and so does every function that is made of it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper::store::{Store, StoreId};
use lockkeeper::url::StoreUrl;
use lockkeeper::{ErrorKind, Guard, Keeper, Result};
use lockkeeper_testing::unique_prefix;
use tokio::task::{JoinHandle, JoinSet};

/// Longer than a test takes.
pub const LONG: Duration = Duration::from_secs(30);
/// Many times the duration of any step without a delay.
pub const TIME_LIMIT: Duration = Duration::from_secs(20);
/// For locks without renewals, in tests that are slow on a busy machine.
pub const UNRENEWED: Duration = Duration::from_secs(600);

/// A name that no other test uses.
pub fn name() -> String {
    unique_prefix() + "lock"
}

/// What comes within the limit.
///
/// # Panics
/// If nothing comes in time.
pub async fn within<T>(limit: Duration, what: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(limit, what).await.expect("it comes in time")
}

/// Renews a guard until it succeeds: the connection may have to be made again.
///
/// # Panics
/// If the guard is lost, or no renewal succeeds in time.
pub async fn renewed(guard: &Guard) {
    let renew = async {
        while guard.renew_once().await.is_err_and(|error| error.lost_reason().is_none()) {}
    };
    within(TIME_LIMIT, renew).await;
    guard.check().unwrap();
}

/// Asks again while the store is unavailable.
///
/// # Panics
/// On any other error, or if no answer comes in time.
pub async fn patiently<T>(mut ask: impl AsyncFnMut() -> Result<T>) -> T {
    let asking = async {
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(error) if error.kind() == ErrorKind::Unavailable => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    within(TIME_LIMIT * 2, asking).await
}

/// Connects again while the store is unavailable. As [`patiently`], but the future can move between
/// threads.
///
/// # Panics
/// On any other error, or if there is no connection in time.
pub async fn patiently_connected<T, F: Future<Output = Result<T>>>(connect: impl Fn() -> F) -> T {
    let connecting = async {
        loop {
            match connect().await {
                Ok(store) => return store,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
    };
    within(TIME_LIMIT * 2, connecting).await
}

/// A client of the store at this URL. As [`patiently_connected`].
///
/// # Panics
/// If this build has no store for the URL, and as [`patiently_connected`].
pub async fn connected(url: &str) -> Arc<dyn Store> {
    let url: StoreUrl = url.parse().unwrap();
    let mut drivers = lockkeeper::drivers().into_iter();
    let driver = drivers.find(|driver| driver.has_scheme(url.scheme)).expect("a store of this URL");
    patiently_connected(|| driver.open(&url)).await
}

/// Waits until the line has this many waiters.
///
/// # Panics
/// If the line does not have them in time.
pub async fn until_waiting(keeper: &Keeper, name: &str, waiters: usize) {
    let look = async {
        while patiently(async || keeper.inspect(name).await).await.waiters.len() != waiters {
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT * 2, look).await;
}

/// Asserts that the lock is free, and its line is empty.
///
/// # Panics
/// If it is not.
pub async fn is_free(keeper: &Keeper, name: &str) {
    let info = patiently(async || keeper.inspect(name).await).await;
    assert!(info.holders.is_empty() && info.waiters.is_empty(), "{info:?}");
    let mutex = keeper.mutex(name).unwrap();
    let guard = match patiently(async || mutex.try_lock().await).await {
        Some(guard) => guard,
        // One attempt does not wait for a late server of a Redlock, where another one may still
        // have what a client that was cut off has withdrawn.
        None if !keeper.capabilities().queue => within(TIME_LIMIT, mutex.lock()).await.unwrap(),
        None => panic!("it is to be had"),
    };
    guard.release().await.unwrap();
}

/// A waiter in the line of a held lock. Until it is there, it asks again while the store is
/// unavailable.
///
/// # Panics
/// If the waiter is not in the line in time.
pub async fn waiter(keeper: &Keeper, name: &str) -> JoinHandle<Result<Guard>> {
    waiter_until(keeper, name, until_waiting(keeper, name, 1)).await
}

/// As [`waiter`], on a store that shows in another way that the waiter `is_there`.
///
/// # Panics
/// If the waiter is not there in time.
pub async fn waiter_until(
    keeper: &Keeper,
    name: &str,
    is_there: impl Future<Output = ()>,
) -> JoinHandle<Result<Guard>> {
    let (mutex, is_in_line) = (keeper.mutex(name).unwrap(), Arc::new(AtomicBool::new(false)));
    let seen = Arc::clone(&is_in_line);
    let waiting = tokio::spawn(async move {
        loop {
            match mutex.lock().await {
                Err(error)
                    if error.kind() == ErrorKind::Unavailable && !seen.load(Ordering::SeqCst) => {}
                ended => return ended,
            }
        }
    });
    is_there.await;
    is_in_line.store(true, Ordering::SeqCst);
    waiting
}

/// Has all of them ask for the id of their store at the same time, and returns the id that all of
/// them get.
///
/// # Panics
/// If they get several ids, or an error.
pub async fn asked_together(stores: Vec<Arc<dyn Store>>) -> StoreId {
    let mut asking: JoinSet<_> =
        stores.into_iter().map(|store| async move { store.id().await.unwrap() }).collect();
    let first = asking.join_next().await.unwrap().unwrap();
    while let Some(id) = asking.join_next().await {
        assert_eq!(id.unwrap(), first);
    }
    first
}

/// Asserts that the store refuses the data of others in the place of its id.
///
/// # Panics
/// If it does not.
pub async fn has_a_foreign_id(store: &dyn Store, place: &str) {
    let error = store.id().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains(place) && error.remedy().is_some(), "{error}");
}
