//! The program of docs/library.md, and a test of it.
#![allow(dead_code, reason = "its main function is only compiled")]

use std::error::Error;
use std::time::Duration;

use lockkeeper::{ErrorKind, FencingToken, Keeper};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let keeper = lockkeeper::connect("redis://10.0.0.5").await?;
    stand(&keeper, "10.0.0.7:80").await?;
    keeper.shutdown(Duration::from_secs(5)).await?; // releases are sent before the process ends
    Ok(())
}

async fn stand(keeper: &Keeper, address: &str) -> Result<(), Box<dyn Error>> {
    let mut term = signal(SignalKind::terminate())?;
    loop {
        let leadership = tokio::select! {
            leadership = keeper.election("scheduler")?.campaign(address) => leadership?,
            _ = term.recv() => return Ok(()),
        };
        let goes_on = tokio::select! {
            done = leadership.guard().while_held(work(leadership.token())) => done.is_err(), // the leadership was lost
            request = leadership.release_requested() => {
                eprintln!("{} asks the leader to resign: {}", request.by, request.reason);
                true
            }
            _ = term.recv() => false,
        };
        match leadership.resign().await {
            Err(error) if error.kind() != ErrorKind::Lost => return Err(error.into()),
            _ if goes_on => {} // it stands for election again, behind the other candidates
            _ => return Ok(()),
        }
    }
}

/// Work without an end.
async fn work(_token: FencingToken) {
    std::future::pending().await
}

#[tokio::test]
async fn a_leader_resigns_on_request_and_before_its_process_ends() {
    let store = lockkeeper::MemoryStore::new();
    let operator = Keeper::builder(store.clone()).connect().await.unwrap();
    let leads = async |address: &str| {
        let mut leaders = operator.election("scheduler").unwrap().observe();
        while leaders.next().await.unwrap().is_none_or(|leader| leader.value != address.as_bytes())
        {
        }
    };
    let candidate = |address: &'static str| {
        let store = store.clone();
        tokio::spawn(async move {
            let keeper = Keeper::builder(store).connect().await.unwrap();
            stand(&keeper, address).await.unwrap();
            keeper.shutdown(Duration::from_secs(5)).await.unwrap();
        })
    };
    let first = candidate("a");
    leads("a").await;
    let second = candidate("b");
    while operator.inspect("scheduler").await.unwrap().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(operator.admin().unwrap().request_release("scheduler", "maintenance").await.unwrap());
    leads("b").await;
    // By now both candidates listen for the signal.
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)
        .unwrap();
    first.await.unwrap();
    second.await.unwrap();
    assert!(!operator.inspect("scheduler").await.unwrap().is_held());
}
