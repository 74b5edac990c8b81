//! The one clock. All code that reads the time or sleeps uses this module.
//!
//! Deadlines use `CLOCK_BOOTTIME` where the system has it. This clock goes on while the machine is
//! suspended, so leases that expired during the suspension are lost when the machine wakes up.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod alarm;
mod clock;
mod later;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod looking;
mod machine;

use std::time::Duration;

#[cfg(any(target_os = "linux", target_os = "android"))]
#[doc(hidden)]
pub use self::alarm::{Alarm, WallAlarm};
pub use self::clock::{Clock, Instant};
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[doc(hidden)]
pub use self::looking::{Alarm, WallAlarm};
#[doc(hidden)]
pub use self::machine::wall_micros;

/// The allowed difference between two clocks with slightly different rates, over one lease: 0.5 %
/// each way.
const DRIFT_PER_MILLE: u32 = 5;
/// The allowance for the granularity of timers and clocks.
const GRANULARITY: Duration = Duration::from_millis(5);

/// Makes one timer of each kind that the engine uses, and drops it.
///
/// # Panics
/// As tokio does in a runtime that cannot have such a timer.
#[doc(hidden)]
pub fn probe() {
    drop((Alarm::new(Clock::boot()), tokio::time::sleep(Duration::ZERO)));
}

/// Blocks the thread for `d`. Only for threads of our own, never on a runtime.
#[doc(hidden)]
pub fn pause(d: Duration) {
    std::thread::sleep(d);
}

/// How long a guard may report a lock with a lease of `lease` as held, counted from the instant
/// *before* the holder sent the request that the store acknowledged:
/// `lease · (1 − ρ)/(1 + ρ) − 5 ms`, ρ = 0.5 %. The store's clock may run fast by ρ, and the clock
/// of this process slow by ρ.
pub fn believed(lease: Duration) -> Duration {
    let nanos =
        lease.as_nanos() * u128::from(1000 - DRIFT_PER_MILLE) / u128::from(1000 + DRIFT_PER_MILLE);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).saturating_sub(GRANULARITY)
}

/// The longest apparent duration of a lease of `lease`, counted from an instant *after* the store's
/// grant: the store's clock may go slowly and ours fast by ρ.
#[doc(hidden)]
pub fn lasts_at_most(lease: Duration) -> Duration {
    let nanos =
        lease.as_nanos() * u128::from(1000 + DRIFT_PER_MILLE) / u128::from(1000 - DRIFT_PER_MILLE);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)) + GRANULARITY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holders_deadline_comes_before_the_end_of_the_lease() {
        let ttl = Duration::from_secs(30);
        // The slowest store clock and the fastest holder: the store keeps ttl/(1+ρ) of real time,
        // the holder's lock is valid for at most believed(ttl)/(1−ρ).
        let kept = ttl.as_secs_f64() / 1.005;
        let real = believed(ttl).as_secs_f64() / 0.995;
        assert!(real < kept);
        assert_eq!(believed(Duration::from_millis(5)), Duration::ZERO);
    }

    #[test]
    fn the_clock_of_a_holder_is_never_behind_that_of_the_machine() {
        let (boot, holder) = (Clock::boot(), Clock::holder());
        let first = (boot.now(), holder.now());
        for _ in 0..100_000 {
            let (boot, holder) = (boot.now(), holder.now());
            assert!(holder >= boot, "{holder:?} {boot:?}");
        }
        std::thread::sleep(Duration::from_millis(1500));
        let (boot, holder) =
            (boot.now().saturating_since(first.0), holder.now().saturating_since(first.1));
        assert!(holder < boot + Duration::from_millis(20), "{holder:?} {boot:?}");
    }

    #[tokio::test]
    async fn an_alarm_completes_at_its_time_and_can_be_set_again() {
        for (clock, ms) in [Clock::boot(), Clock::holder()]
            .into_iter()
            .flat_map(|c| [20, 1, 0].map(|ms| (c.clone(), ms)))
        {
            let alarm = Alarm::new(clock.clone());
            let when = clock.now() + Duration::from_millis(ms);
            alarm.at(when).await;
            assert!(clock.now() >= when);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn virtual_time_moves_only_when_it_is_awaited() {
        let clock = Clock::tokio();
        let start = clock.now();
        Alarm::new(clock.clone()).at(start + Duration::from_secs(3600)).await;
        assert_eq!(clock.now().saturating_since(start), Duration::from_secs(3600));
    }
}
