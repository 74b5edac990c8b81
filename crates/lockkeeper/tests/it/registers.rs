//! The contract of a register, on the register in memory, and what holds for every register.

use std::sync::Arc;

use lockkeeper::ErrorKind;
use lockkeeper::optimistic::{
    Outcome, Policy, Register, Swap, Version, Write, retry, swap, update,
};
use lockkeeper_testing::register::{ChaosRegister, MemoryRegisterHarness, RegisterHarness};

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
    let register = lockkeeper::optimistic::MemoryRegister::new();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut poll = |mut future: std::pin::Pin<
        Box<dyn Future<Output = lockkeeper::Result<()>> + '_>,
    >| match future.as_mut().poll(&mut cx) {
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
