//! The cost of the engine beside that of a store: a lock and its release on the memory store, and
//! the store's own two calls.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a failing measurement panics; nobody calls it"
)]

#[path = "support/bare.rs"]
mod bare;

use bare::Bare;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use lockkeeper::Keeper;
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn store(c: &mut Criterion) {
    let runtime = runtime();
    let bare = runtime.block_on(Bare::open());
    c.bench_function("memory/claim+withdraw", |b| {
        b.to_async(&runtime).iter_batched(
            || bare.claim(),
            |claim| {
                let bare = &bare;
                async move { bare.pair(&claim).await }
            },
            BatchSize::SmallInput,
        );
    });
}

fn engine(c: &mut Criterion) {
    let runtime = runtime();
    // The mutex is made inside the runtime, so the engine runs in it, as in a program that uses
    // tokio already.
    let mutex = runtime.block_on(async { Keeper::memory().mutex("n").unwrap() });
    c.bench_function("memory/lock+release", |b| {
        b.to_async(&runtime).iter(async || mutex.lock().await.unwrap().release().await.unwrap());
    });
    let guard = runtime.block_on(async { mutex.lock().await.unwrap() });
    c.bench_function("memory/check", |b| b.iter(|| guard.check().unwrap()));
}

criterion_group!(benches, store, engine);
criterion_main!(benches);
