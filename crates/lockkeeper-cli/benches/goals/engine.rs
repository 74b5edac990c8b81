//! The cost of the engine beside the memory store's own two calls.

use std::time::Instant;

use lockkeeper::{Keeper, Mutex};

use crate::Effort;
use crate::bare::Bare;
use crate::figures::{Rounds, Row, micros};

/// The goal: this many microseconds more for one lock and its release.
const GOAL: f64 = 5.0;

pub(crate) fn measure(effort: Effort) -> Vec<Row> {
    let (rounds, pairs) = (effort.choose(200, 3), effort.choose(2000, 20));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut engine, mut store, mut added) =
        (Rounds::default(), Rounds::default(), Rounds::default());
    runtime.block_on(async {
        let (mutex, bare) = (Keeper::memory().mutex("n").unwrap(), Bare::open().await);
        // The first round opens a session and fills caches.
        for round in 0..=rounds {
            let (by_engine, by_store) = (locks(&mutex, pairs).await, claims(&bare, pairs).await);
            if round > 0 {
                engine.add(by_engine);
                store.add(by_store);
                added.add(by_engine - by_store);
            }
        }
    });
    vec![Row {
        what: "engine, memory store: lock + release",
        measured: format!("{} µs", engine.spread(2)),
        against: format!("claim + withdraw: {} µs", store.spread(2)),
        result: format!("{} µs more", added.spread(2)),
        goal: "at most 5 µs more",
        is_met: added.median() <= GOAL,
    }]
}

/// Microseconds a pair.
async fn locks(mutex: &Mutex, pairs: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..pairs {
        mutex.lock().await.unwrap().release().await.unwrap();
    }
    micros(start.elapsed() / pairs)
}

/// Microseconds a pair. The engine makes the claims, so they are made before.
async fn claims(bare: &Bare, pairs: u32) -> f64 {
    let claims: Vec<_> = (0..pairs).map(|_| bare.claim()).collect();
    let start = Instant::now();
    for claim in &claims {
        bare.pair(claim).await;
    }
    micros(start.elapsed() / pairs)
}
