//! What one lock and its release cost on the memory store, with nobody watching: no subscriber, no recorder.
//!
//! Prints the best and the median of many short rounds, since whatever else the machine does can only add to them.
#![allow(clippy::unwrap_used, reason = "a failing measurement panics")]

use std::time::{Duration, Instant};

use lockkeeper::Keeper;

const ROUNDS: usize = 200;
const LOCKS: u32 = 1000;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut rounds: Vec<Duration> = runtime.block_on(async {
        let keeper = Keeper::memory();
        let mutex = keeper.mutex("stock/42").unwrap();
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for _ in 0..LOCKS {
                mutex.lock().await.unwrap().release().await.unwrap();
            }
            rounds.push(start.elapsed() / LOCKS);
        }
        rounds
    });
    rounds.sort();
    println!("lock and release, memory store: best {:?}, median {:?}", rounds[0], rounds[ROUNDS / 2]);
}
