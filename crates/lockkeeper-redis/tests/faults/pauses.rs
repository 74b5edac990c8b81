//! The server holds its clients back for a while. `outages` of the fault suite has the cost of a
//! server that is stopped.

use std::time::{Duration, Instant};

use lockkeeper_live::Redis;

use crate::support::{TIME_LIMIT, keeper, name, renewed, within};

/// `CLIENT PAUSE` delays every command: an attempt during the pause waits and succeeds, and a
/// holder with a longer ttl keeps its lock.
#[tokio::test]
async fn clients_that_are_paused_go_on_where_they_were() {
    let server = Redis::start().unwrap();
    let (name, ttl) = (name(), Duration::from_secs(6));
    let keeper = keeper(server.address(), ttl).await;
    let guard = keeper.mutex(&*name).unwrap().lock().await.unwrap();
    let began = Instant::now();
    server.run(&["CLIENT", "PAUSE", "1500", "ALL"]).unwrap();
    let other = within(TIME_LIMIT, keeper.mutex(format!("{name}2")).unwrap().lock()).await.unwrap();
    assert!(began.elapsed() > Duration::from_secs(1), "the server was not paused");
    guard.check().unwrap();
    renewed(&guard).await;
    other.release().await.unwrap();
    guard.release().await.unwrap();
}
