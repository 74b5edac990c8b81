//! Transactions on the data of a real server: changes by other clients, faults of the network, and
//! moves of the data.

mod clusters;
mod conflicts;
mod cuts;
mod demotions;
mod fenced;
mod refusals;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper::optimistic::Policy;
use lockkeeper::optimistic::redis::{Changes, Reply, Transaction, Watched};
use lockkeeper::{RedisStore, Result};
use lockkeeper_live::{Redis, redis};

/// The store at a URL.
async fn store(url: &str) -> RedisStore {
    RedisStore::from_url(&url.parse().unwrap()).unwrap().connect().await.unwrap()
}

/// One try and no other.
fn once() -> Policy {
    Policy::default().attempts(1)
}

/// Far from any limit.
fn patient() -> Policy {
    Policy::default().within(Duration::from_secs(60))
}

/// Counts the calls of a function.
#[derive(Clone, Debug, Default)]
struct Calls(Arc<AtomicUsize>);

impl Calls {
    /// The number of this call.
    fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn so_far(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// The value of a key on a server.
fn value(server: &Redis, key: &str) -> Option<i64> {
    server.query(&["GET", key]).unwrap()
}

fn put(server: &Redis, key: &str, value: i64) {
    server.run(&["SET", key, &value.to_string()]).unwrap();
}

/// Writes the found value minus one.
async fn less(watched: Watched, key: String) -> Result<Changes> {
    let left = watched.read(&["GET", &key]).await?.number().unwrap_or(0);
    Ok(Changes::none().and(&["SET", &key, &(left - 1).to_string()]))
}

/// Takes one away.
fn take_one(
    transaction: Transaction,
    key: &str,
) -> impl Future<Output = Result<Vec<Reply>>> + Send + use<> {
    let key = key.to_owned();
    transaction.run(move |watched| less(watched, key.clone()))
}

/// The server that tests share, with a key of its own.
fn shared_with(value: i64) -> (&'static Redis, String) {
    let (server, key) = (redis().unwrap(), crate::support::name());
    put(server, &key, value);
    (server, key)
}
