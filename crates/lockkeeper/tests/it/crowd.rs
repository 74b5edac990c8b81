//! When the data of others are put around a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockkeeper::LockName;
use lockkeeper::layer::Faults;
use lockkeeper::store::Store;
use lockkeeper::time::Clock;
use lockkeeper_testing::{Case, Crash, Crowded, Harness, MemoryHarness, Time, Ttls, run};

/// The number of rounds in the one case on [`Counting`].
static ROUNDS: AtomicUsize = AtomicUsize::new(0);

/// Counts the rounds.
struct Counting(MemoryHarness);

impl Harness for Counting {
    const TIME: Time = Time::Virtual;
    const ON_CRASH: Crash = Crash::Silent;
    const WAITERS_DIE_FIRST: bool = true;

    async fn start() -> Self {
        Self(MemoryHarness::start().await)
    }

    async fn client(&self) -> Arc<dyn Store> {
        self.0.client().await
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        drop(client);
    }

    async fn crowd(&self, _name: &LockName, round: usize) {
        assert_eq!(ROUNDS.fetch_add(1, Ordering::SeqCst), round, "the rounds come in order");
    }

    fn clock(&self) -> Clock {
        self.0.clock()
    }

    fn prefix(&self) -> String {
        String::new()
    }

    fn short(&self) -> Ttls {
        Ttls::quick()
    }

    fn fault_profile(&self) -> Faults {
        Faults::none()
    }
}

#[test]
fn the_crowd_comes_before_the_first_claim_and_after_each_that_joined() {
    run::<Crowded<Counting>>("crowd", &[], async |case: &Case| {
        let rounds = || ROUNDS.load(Ordering::SeqCst);
        let [a, b, c] = case.mutexes("lock").await;
        assert_eq!(rounds(), 0);
        a.granted().await;
        assert_eq!(rounds(), 2, "once before it, and once after it");
        b.queued().await;
        assert_eq!(rounds(), 3);
        b.resend().await;
        c.trying().busy().await;
        assert_eq!(rounds(), 3, "a claim that joined before, or did not join, brings nobody");
    });
}
