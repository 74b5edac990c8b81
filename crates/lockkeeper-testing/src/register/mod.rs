//! The contract of a [`Register`] as tests, for authors of a register.
//!
//! ```
//! lockkeeper_testing::register_suite! {
//!     mod memory_register;
//!     harness = lockkeeper_testing::register::MemoryRegisterHarness;
//! }
//! ```

pub mod cases;
mod chaos;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;

pub use chaos::ChaosRegister;

use lockkeeper::optimistic::MemoryRegister;
use lockkeeper_core::registers::Register;

/// No case takes longer than this. A write that never ends is a failure, not a hang.
const LIMIT: Duration = Duration::from_secs(120);

/// A register under test: one state, and any number of clients of it.
pub trait RegisterHarness: Sized + Send + Sync + 'static {
    /// An empty register for one case.
    fn start() -> impl Future<Output = Self> + Send;

    /// Another client of the register, as if in a process of its own.
    fn client(&self) -> impl Future<Output = Arc<dyn Register>> + Send;
}

/// The memory register.
#[derive(Debug)]
pub struct MemoryRegisterHarness(MemoryRegister);

impl RegisterHarness for MemoryRegisterHarness {
    async fn start() -> Self {
        Self(MemoryRegister::new())
    }

    async fn client(&self) -> Arc<dyn Register> {
        Arc::new(self.0.clone())
    }
}

/// Runs one case on a register and a runtime of its own.
pub fn run<H: RegisterHarness>(name: &str, body: impl AsyncFn(&H)) {
    let runtime =
        Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let harness = H::start().await;
        let ended = tokio::time::timeout(LIMIT, body(&harness)).await;
        assert!(ended.is_ok(), "{name} did not end within {LIMIT:?}");
    });
}

/// Makes a module of tests for one register: one test for each case of [`cases`], with the case's
/// name.
///
/// `harness` is a type that implements [`RegisterHarness`].
#[macro_export]
macro_rules! register_suite {
    (mod $module:ident; harness = $harness:ty;) => {
        $crate::__register_cases! { $module $harness;
            a_key_that_was_never_written_is_absent
            versions_count_the_writes
            a_write_on_another_version_changes_nothing
            a_key_is_made_once
            of_writes_on_one_version_one_is_done
            keys_are_distinguished
            every_value_comes_back
            what_does_not_fit_is_refused
            the_last_writers_are_remembered
            a_copy_of_a_write_does_nothing
            a_late_copy_does_nothing_to_what_others_wrote
            no_increment_is_lost
            a_conflict_learns_when_the_tries_are_used_up
            a_lost_answer_is_read_back
            a_lost_request_is_sent_again
            a_write_that_was_not_sent_is_sent_again
            a_request_that_the_network_doubled_counts_once
            a_late_request_does_not_count_twice
            what_stays_open_is_settled_later
            what_was_forgotten_stays_unknown
            a_dropped_update_is_done_once_at_most
            nothing_is_done_twice_in_a_storm
        }
    };
}

/// Every case, as a test.
#[doc(hidden)]
#[macro_export]
macro_rules! __register_cases {
    ($module:ident $harness:ty; $($case:ident)*) => {
        mod $module {
            #[allow(unused_imports, reason = "the harness may be named by a path")]
            use super::*;

            $(
                #[test]
                fn $case() {
                    $crate::register::run::<$harness>(
                        stringify!($case),
                        async |harness| $crate::register::cases::$case(harness).await,
                    );
                }
            )*
        }
    };
}
