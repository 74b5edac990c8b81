//! The contract of a register, on the register in memory, and what holds for every register.

use std::sync::Arc;
use std::thread;

use async_trait::async_trait;
use lockkeeper::optimistic::{
    MemoryRegister, Outcome, Policy, Register, Swap, Version, Versioned, Write, retry, swap,
    try_update, update,
};
use lockkeeper::{Effect, Error, ErrorKind, FileStore, Result};
use lockkeeper_testing::register::{ChaosRegister, MemoryRegisterHarness, RegisterHarness};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::engine::spy::millis;

lockkeeper_testing::register_suite! {
    mod memory_register;
    harness = MemoryRegisterHarness;
}

lockkeeper_testing::register_suite! {
    mod memory_register_through_chaos;
    harness = AtRest;
}

/// The memory register behind a `ChaosRegister` without faults.
struct AtRest(MemoryRegisterHarness);

impl RegisterHarness for AtRest {
    async fn start() -> Self {
        Self(MemoryRegisterHarness::start().await)
    }

    async fn client(&self) -> Arc<dyn Register> {
        Arc::new(ChaosRegister::new(self.0.client().await))
    }
}

#[test]
fn outside_a_runtime_there_is_an_error_and_no_panic() {
    let register = MemoryRegister::new();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut poll =
        |mut future: std::pin::Pin<Box<dyn Future<Output = Result<()>> + '_>>| match future
            .as_mut()
            .poll(&mut cx)
        {
            std::task::Poll::Ready(result) => result.unwrap_err(),
            std::task::Poll::Pending => panic!("it waits"),
        };
    let policy = Policy::default();
    let write = Write::new(Version::ABSENT, "7");
    let errors = [
        poll(Box::pin(async { update(&register, "n", async |_| Vec::new()).await.map(drop) })),
        poll(Box::pin(async { swap(&policy, &register, "n", &write).await.map(drop) })),
        poll(Box::pin(async { retry(&policy, async || Ok(Outcome::Done(()))).await })),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("tokio runtime. Try: "), "{error}");
    }
    let loaded = register.load("n");
    assert!(matches!(std::pin::pin!(loaded).poll(&mut cx), std::task::Poll::Ready(Ok(None))));
    let swapped = register.compare_and_swap("n", &write);
    assert!(matches!(
        std::pin::pin!(swapped).poll(&mut cx),
        std::task::Poll::Ready(Ok(Swap::Done))
    ));
}

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |text| std::str::from_utf8(text).unwrap().parse().unwrap())
}

fn one_more(old: Option<Vec<u8>>) -> Vec<u8> {
    (number(old.as_deref()) + 1).to_string().into_bytes()
}

/// A program without async. Half of the threads share one open register. Each other thread opens a
/// register of its own.
fn count_with_many_threads(runtime: &Runtime, open: impl Fn() -> Arc<dyn Register> + Sync) {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 20;
    let shared = open();
    thread::scope(|threads| {
        for n in 0..THREADS {
            let (shared, open) = (Arc::clone(&shared), &open);
            threads.spawn(move || {
                let register = if n % 2 == 0 { shared } else { open() };
                for _ in 0..ROUNDS {
                    let updated = update(&*register, "n", async |old| one_more(old));
                    runtime.block_on(updated).unwrap();
                }
            });
        }
    });
    let now = runtime.block_on(shared.load("n")).unwrap().unwrap();
    assert_eq!(
        (number(Some(&now.value)), now.version),
        (THREADS * ROUNDS, Version::new(THREADS * ROUNDS))
    );
}

#[test]
fn no_update_of_threads_that_block_on_a_runtime_is_lost_in_memory() {
    let memory = MemoryRegister::new();
    count_with_many_threads(&Runtime::new().unwrap(), || Arc::new(memory.clone()));
}

#[test]
fn no_update_of_threads_that_block_on_a_runtime_is_lost_in_a_file() {
    let (folder, runtime) = (TempDir::new().unwrap(), Runtime::new().unwrap());
    count_with_many_threads(&runtime, || {
        let opening = FileStore::new(folder.path().join("locks.db")).open();
        Arc::new(runtime.block_on(opening).unwrap().register())
    });
}

/// A register that never answers a write.
#[derive(Debug)]
struct Silent;

impl std::fmt::Display for Silent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("silent")
    }
}

#[async_trait]
impl Register for Silent {
    async fn load(&self, _: &str) -> Result<Option<Versioned>> {
        Ok(None)
    }

    async fn compare_and_swap(&self, _: &str, _: &Write) -> Result<Swap> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_register_that_does_not_answer_is_not_waited_for_for_ever() {
    let policy = Policy::default().within(millis(100));
    let start = tokio::time::Instant::now();
    let error = try_update(&policy, &Silent, "n", async |old| Ok::<_, Error>(one_more(old)))
        .await
        .unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
    assert!(error.to_string().contains("silent: no answer came within 100ms"), "{error}");
    assert!(start.elapsed() >= millis(90));
}
