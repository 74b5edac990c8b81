//! A process of its own that performs given operations on locks of a server, and can be stopped and
//! killed.

use std::time::Duration;

use ::redis::{Client, Connection};
use lockkeeper::Keeper;
use lockkeeper::fence::redis::{Answer, FencedKey};
use lockkeeper_live::redis;
use lockkeeper_testing::worker::{Hand, Worker, work};

use crate::fences;

/// A worker on the store of this URL.
pub(crate) fn start(url: &str) -> Worker {
    Worker::start("worker::a_worker_does_as_it_is_ordered", url)
}

#[test]
fn a_worker_does_as_it_is_ordered() {
    if let Some(url) = Worker::here() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(obey(&url));
    }
    let mut worker = start(&redis().unwrap().url());
    assert!(worker.lock(&crate::support::name(), Duration::from_secs(5)) > 0);
    assert_eq!(worker.ask("check"), "held");
    assert_eq!(worker.ask("release"), "released");
}

/// The worker's side.
async fn obey(url: &str) {
    let mut hand =
        Hand::new(Keeper::from_url(url).unwrap().owner("worker").connect().await.unwrap());
    let mut data: Option<Connection> = None;
    work(async |words| match *words {
        ["write", key, value] => {
            let holder = hand.guard.as_ref().unwrap().sequencer();
            let call = FencedKey::new(key).unwrap().write(&holder, &["SET", value]).unwrap();
            match fences::send(data.get_or_insert_with(|| open(url)), &call).0 {
                Answer::Stale { seen } => format!("stale, seen {seen}"),
                _ => "written".to_owned(),
            }
        }
        _ => hand.does(words).await.unwrap_or_else(|| panic!("what is {words:?}?")),
    })
    .await;
}

/// A plain client for the data.
fn open(url: &str) -> Connection {
    Client::open(url).unwrap().get_connection().unwrap()
}
