//! A process that performs given operations on a store, and that a test can stop and kill.
//!
//! The test program starts itself again with one test, which then reads commands from its standard
//! input instead of testing.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::optimistic::{Register, update};
use lockkeeper::{Keeper, Result};
use lockkeeper_testing::worker::{Hand, Worker, millis, work};

use super::keeper;
use crate::locks::{LONG, name};
use crate::server::LiveStore;

const TEST: &str = "worker::a_worker_does_as_it_is_ordered";

/// A process with a client of the store at this URL.
pub(super) fn start<S: LiveStore>(url: &str) -> Worker {
    Worker::start(&format!("{}::{TEST}", S::SUITE), url)
}

/// A worker holds a lock and lets it go.
pub async fn a_worker_does_as_it_is_ordered<S: LiveStore>() {
    if let Some(url) = Worker::here() {
        return obey::<S>(&url).await;
    }
    let store = S::start().unwrap();
    let mut worker = start::<S>(&store.url());
    assert!(worker.lock(&name(), Duration::from_secs(5)) > 0);
    assert_eq!(worker.ask("check"), "held");
    assert_eq!(worker.ask("release"), "released");
    assert!(worker.end().success());
}

/// The worker's side.
async fn obey<S: LiveStore>(url: &str) {
    let keeper = keeper(url, LONG).await;
    let mut hand = Hand::new(keeper.clone());
    let mut register: Option<Arc<dyn Register>> = None;
    work(async |words| match *words {
        ["add", key, times] => {
            if register.is_none() {
                register = Some(S::register(url).await);
            }
            let register = register.as_ref().unwrap();
            for _ in 0..times.parse::<u32>().unwrap() {
                add_one(register, key).await;
            }
            "added".to_owned()
        }
        ["detach", name, ttl] => {
            keeper.mutex(name).unwrap().lock().detached(millis(ttl)).await.unwrap().expose()
        }
        ["renew", handle] => named("held", renew(&keeper, handle).await),
        ["release", handle] => named("released", release(&keeper, handle).await),
        _ => hand.does(words).await.unwrap_or_else(|| panic!("what is {words:?}?")),
    })
    .await;
    drop(hand);
    keeper.shutdown(Duration::from_secs(10)).await.unwrap();
}

async fn renew(keeper: &Keeper, handle: &str) -> Result<()> {
    keeper.adopt(handle.parse().unwrap())?.renew_once().await
}

async fn release(keeper: &Keeper, handle: &str) -> Result<()> {
    keeper.adopt(handle.parse().unwrap())?.release().await
}

/// The word for success, or the kind of the error.
fn named(done: &str, result: Result<()>) -> String {
    result.map_or_else(|error| format!("{:?}", error.kind()), |()| done.to_owned())
}

/// The number in a register; 0 for a key that was never written.
pub(super) fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |text| String::from_utf8(text).unwrap().parse().unwrap())
}

async fn add_one(register: &dyn Register, key: &str) {
    let next = async |old| (number(old) + 1).to_string().into_bytes();
    update(register, key, next).await.unwrap();
}
