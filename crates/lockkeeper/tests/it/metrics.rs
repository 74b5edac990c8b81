//! Waits, holds, renewals and losses each have their own figure, and no label names a lock.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper::layer::{Chaos, Fault, Faults, Operation};
use lockkeeper::store::{Evict, Store, Target};
use lockkeeper::time::Clock;
use lockkeeper::{ErrorKind, Event, Keeper, MemoryStore};
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::time::sleep;

use crate::engine::spy::{Do, World, secs};

/// A name that is easy to find in a label.
const NAME: &str = "unmistakable/lock";

/// Figures by name and labels: `name{key=value,…}`.
#[derive(Debug, Default)]
struct Metrics {
    counted: BTreeMap<String, f64>,
    /// All values that a histogram has recorded.
    given: BTreeMap<String, Vec<f64>>,
}

/// The records since the start. Each snapshot resets the recorder, so this is the sum of the
/// snapshots.
struct Recorded {
    snapshotter: Snapshotter,
    exported: Metrics,
}

impl Recorded {
    fn look(&mut self) -> &Metrics {
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let (kind, key) = key.into_parts();
            let mut labels: Vec<_> =
                key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            labels.sort();
            let name = format!("{}{{{}}}", key.name(), labels.join(","));
            assert!(!name.contains("unmistakable"), "a label names the lock: {name}");
            match value {
                DebugValue::Counter(n) => {
                    *self.exported.counted.entry(name).or_default() += n as f64
                }
                DebugValue::Gauge(n) => *self.exported.counted.entry(name).or_default() += *n,
                DebugValue::Histogram(values) => {
                    assert_eq!(kind, MetricKind::Histogram);
                    self.exported
                        .given
                        .entry(name)
                        .or_default()
                        .extend(values.into_iter().map(|v| *v));
                }
            }
        }
        &self.exported
    }

    fn counted(&mut self, name: &str) -> f64 {
        self.look().counted.get(name).copied().unwrap_or(0.0)
    }

    fn given(&mut self, name: &str) -> Vec<f64> {
        self.look().given.get(name).cloned().unwrap_or_default()
    }

    /// Asserts that only these figures have changed.
    fn only(&mut self, names: &[&str]) {
        let exported = self.look();
        let counted = exported.counted.iter().filter(|(_, n)| **n != 0.0).map(|(name, _)| name);
        let moved: Vec<_> = counted
            .chain(exported.given.keys())
            .filter(|name| !names.contains(&name.as_str()))
            .collect();
        assert!(moved.is_empty(), "moved too: {moved:?}");
    }
}

const WAIT: &str = "lockkeeper_wait_seconds{mode=exclusive,store=memory}";
const HOLD: &str = "lockkeeper_hold_seconds{mode=exclusive,store=memory}";
const WAITERS: &str = "lockkeeper_waiters{store=memory}";
const RENEWED: &str = "lockkeeper_renewals_total{result=acknowledged,store=memory}";
const NOT_RENEWED: &str = "lockkeeper_renewals_total{result=failed,store=memory}";
const HELD: &str = "lockkeeper_held{mode=exclusive,store=memory}";
const SLACK: &str = "lockkeeper_renewal_slack_ratio{store=memory}";
const DROPPED: &str = "lockkeeper_dropped_guards_total{store=memory}";
const RELEASE_FAILURES: &str = "lockkeeper_release_failures_total{store=memory}";

fn attempts(outcome: &str) -> String {
    format!("lockkeeper_attempts_total{{outcome={outcome},store=memory}}")
}

fn lost(reason: &str) -> String {
    format!("lockkeeper_losses_total{{reason={reason},store=memory}}")
}

/// Runs a test with a recorder of its own, on virtual time and one thread.
fn recorded(test: impl AsyncFnOnce(&mut Recorded)) {
    let recorder = DebuggingRecorder::new();
    let mut recorded =
        Recorded { snapshotter: recorder.snapshotter(), exported: Metrics::default() };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(test(&mut recorded)));
}

/// Two keepers on one memory store, the second behind injected faults. Their ttl is 9 s.
async fn keepers() -> (MemoryStore, Keeper, Keeper, Arc<Chaos>) {
    let clock = Clock::tokio();
    let store = MemoryStore::with_clock(clock.clone());
    let chaos = Arc::new(Chaos::new(Arc::new(store.clone()), clock.clone()));
    let good =
        Keeper::builder(store.clone()).clock(clock.clone()).ttl(secs(9)).connect().await.unwrap();
    let behind =
        Keeper::builder(Arc::clone(&chaos)).clock(clock).ttl(secs(9)).connect().await.unwrap();
    (store, good, behind, chaos)
}

fn close_to(seconds: f64, expected: f64) {
    assert!((seconds - expected).abs() < 0.2, "{seconds} s instead of {expected} s");
}

#[test]
fn waiting_and_holding_are_timed() {
    recorded(async |exported| {
        let (_, keeper, other, _) = keepers().await;
        let guard = keeper.mutex(NAME).unwrap().lock().await.unwrap();
        exported.only(&[WAIT, HELD, &attempts("acquired")]);
        let waiting = tokio::spawn(other.mutex(NAME).unwrap().lock().into_future());
        sleep(secs(2)).await;
        assert_eq!(exported.counted(WAITERS), 1.0);
        guard.release().await.unwrap();
        let next = waiting.await.unwrap().unwrap();
        assert_eq!(exported.counted(WAITERS), 0.0);
        let waits = exported.given(WAIT);
        assert_eq!(waits.len(), 2);
        close_to(waits[0], 0.0);
        close_to(waits[1], 2.0);
        close_to(exported.given(HOLD)[0], 2.0);
        sleep(secs(1)).await;
        drop(next);
        close_to(exported.given(HOLD)[1], 1.0);
        assert_eq!(exported.counted(DROPPED), 1.0);
        exported.only(&[WAIT, HOLD, DROPPED, RENEWED, SLACK, &attempts("acquired")]);
    });
}

#[test]
fn who_waits_is_counted_until_the_wait_ends_in_whatever_way() {
    recorded(async |exported| {
        let (_, keeper, other, _) = keepers().await;
        let guard = keeper.mutex(NAME).unwrap().lock().await.unwrap();
        assert!(other.mutex(NAME).unwrap().try_lock().await.unwrap().is_none());
        exported.only(&[WAIT, HELD, &attempts("acquired"), &attempts("busy")]);
        let here = tokio::spawn(keeper.mutex(NAME).unwrap().lock().into_future());
        let [a, b] =
            [(); 2].map(|()| tokio::spawn(other.mutex(NAME).unwrap().lock().into_future()));
        let short = tokio::spawn(other.mutex(NAME).unwrap().lock().wait(secs(2)).into_future());
        sleep(secs(1)).await;
        assert_eq!(
            exported.counted(WAITERS),
            4.0,
            "in the store's line, and behind a task of the same process"
        );
        b.abort();
        sleep(Duration::from_millis(500)).await;
        assert_eq!(exported.counted(WAITERS), 3.0);
        assert_eq!(short.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
        sleep(Duration::from_millis(500)).await;
        assert_eq!(exported.counted(WAITERS), 2.0);
        other.shutdown(secs(1)).await.unwrap();
        a.await.unwrap().unwrap_err();
        assert_eq!(exported.counted(WAITERS), 1.0);
        guard.release().await.unwrap();
        here.await.unwrap().unwrap().release().await.unwrap();
        assert_eq!(exported.counted(WAITERS), 0.0);
        assert_eq!(exported.given(WAIT).len(), 2, "only those who got it");
    });
}

#[test]
fn renewals_are_counted_with_what_was_left_of_the_lease() {
    recorded(async |exported| {
        let (_, _, keeper, chaos) = keepers().await;
        let guard = keeper.mutex(NAME).unwrap().lock().await.unwrap();
        sleep(secs(7)).await;
        let renewed = exported.counted(RENEWED);
        assert!(renewed >= 2.0);
        assert_eq!(exported.counted(NOT_RENEWED), 0.0);
        let slack = exported.given(SLACK);
        assert_eq!(slack.len() as f64, renewed);
        assert!(
            slack.iter().all(|left| (0.6..0.8).contains(left)),
            "renewed after a third or a bit less: {slack:?}"
        );
        chaos.set(Faults::none().with(Fault::Refused, 1000).only(&[Operation::Renew]));
        sleep(secs(5)).await;
        assert!(exported.counted(NOT_RENEWED) > 0.0);
        assert_eq!(exported.counted(RENEWED), renewed);
        chaos.quiet();
        sleep(secs(1)).await;
        let slack = exported.given(SLACK);
        assert!(slack.iter().any(|left| *left < 0.5), "the lease was nearly over: {slack:?}");
        exported.only(&[WAIT, HELD, RENEWED, NOT_RENEWED, SLACK, &attempts("acquired")]);
        guard.release().await.unwrap();
    });
}

#[test]
fn losses_are_counted_by_reason() {
    recorded(async |exported| {
        let (store, keeper, cut_off, chaos) = keepers().await;
        let guard = keeper.mutex(NAME).unwrap().lock().max_hold(secs(1)).await.unwrap();
        guard.lost().await;
        sleep(secs(1)).await;
        assert_eq!(exported.counted(&lost("max_hold")), 1.0);
        drop(guard);
        let guard = keeper.mutex(NAME).unwrap().lock().await.unwrap();
        let token = Target::Token(guard.token().get());
        store
            .admin()
            .unwrap()
            .evict(guard.name(), &token, Evict::Mark, "me", "test")
            .await
            .unwrap();
        guard.lost().await;
        sleep(secs(1)).await;
        assert_eq!(exported.counted(&lost("broken")), 1.0);
        drop(guard);
        let guard = cut_off.mutex(NAME).unwrap().lock().await.unwrap();
        chaos.set(Faults::cut_off());
        guard.lost().await;
        sleep(secs(1)).await;
        assert_eq!(exported.counted(&lost("expired")), 1.0);
        drop(guard);
        let guard = keeper.mutex("another").unwrap().lock().await.unwrap();
        keeper.shutdown(secs(1)).await.unwrap();
        assert_eq!(exported.counted(&lost("shutdown")), 1.0);
        drop(guard);
        assert_eq!(exported.counted(DROPPED), 0.0, "what is lost is not dropped");
        assert!(exported.given(HOLD).is_empty());
    });
}

#[test]
fn releases_that_fail_are_counted() {
    recorded(async |exported| {
        let (_, _, keeper, chaos) = keepers().await;
        let guard = keeper.mutex(NAME).unwrap().lock().await.unwrap();
        for _ in 0..2 {
            chaos.plan(Operation::Withdraw, Fault::LostRequest);
        }
        guard.release().await.unwrap();
        assert_eq!(exported.counted(RELEASE_FAILURES), 2.0);
        assert_eq!(exported.given(HOLD).len(), 1);
    });
}

#[test]
fn a_clock_that_runs_away_is_an_event_and_is_counted() {
    recorded(async |exported| {
        let world = World::new();
        let test_client = world.test_client(secs(9)).await;
        let _guard = test_client.mutex(NAME).lock().await.unwrap();
        for server in [1000, 1001, 1060] {
            test_client.spy.once(Operation::Renew, Do::Time(secs(server)));
        }
        sleep(secs(12)).await;
        assert_eq!(test_client.count("ClockAnomaly"), 1);
        assert_eq!(exported.counted("lockkeeper_clock_anomalies_total{store=spy}"), 1.0);
    });
}

#[test]
fn a_recorder_may_come_after_the_keeper() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let (_, keeper, other, _) = runtime.block_on(keepers());
    let guard = runtime.block_on(keeper.mutex(NAME).unwrap().lock().into_future()).unwrap();
    let waiting = runtime.spawn(other.mutex(NAME).unwrap().lock().into_future());
    runtime.block_on(async { sleep(secs(1)).await });
    let recorder = DebuggingRecorder::new();
    let mut exported =
        Recorded { snapshotter: recorder.snapshotter(), exported: Metrics::default() };
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            guard.release().await.unwrap();
            drop(waiting.await.unwrap().unwrap());
        });
    });
    assert_eq!(exported.given(HOLD).len(), 2);
    assert_eq!(
        exported.counted(WAITERS),
        0.0,
        "who waited before is not taken off a gauge that has never seen it"
    );
}

/// Two figures that count the same events agree with the events.
#[test]
fn figures_and_events_are_the_same_things() {
    recorded(async |exported| {
        let clock = Clock::tokio();
        let renewals = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&renewals);
        let keeper =
            Keeper::builder(MemoryStore::with_clock(clock.clone())).clock(clock).ttl(secs(3));
        let keeper = keeper.on_event(move |event| {
            if let Event::Renewed { left, ttl, remaining, .. } = event {
                assert!(left < remaining && remaining < ttl);
                seen.fetch_add(1, Ordering::Relaxed);
            }
        });
        let guard = keeper.connect().await.unwrap().mutex(NAME).unwrap().lock().await.unwrap();
        sleep(secs(30)).await;
        guard.release().await.unwrap();
        let events = renewals.load(Ordering::Relaxed);
        assert!(events >= 25, "one in each second or a bit less: {events}");
        assert_eq!(exported.counted(RENEWED), events as f64);
    });
}

#[test]
fn a_failed_attempt_is_an_event_and_counted_by_its_outcome() {
    recorded(async |exported| {
        let (_, keeper, cut_off, chaos) = keepers().await;
        let guard = keeper.mutex(NAME).unwrap().lock().await.unwrap();
        assert_eq!(exported.counted(&attempts("acquired")), 1.0);
        assert!(keeper.mutex(NAME).unwrap().try_lock().await.unwrap().is_none());
        assert_eq!(exported.counted(&attempts("busy")), 1.0);
        keeper.mutex(NAME).unwrap().lock().wait(secs(1)).await.unwrap_err();
        assert_eq!(exported.counted(&attempts("timed_out")), 1.0);
        let waiting = tokio::spawn(keeper.mutex(NAME).unwrap().lock().into_future());
        sleep(secs(1)).await;
        waiting.abort();
        sleep(secs(1)).await;
        assert_eq!(exported.counted(&attempts("cancelled")), 1.0);
        keeper.semaphore(NAME, 2).unwrap().try_acquire().await.unwrap_err();
        assert_eq!(exported.counted(&attempts("refused")), 1.0);
        chaos.set(Faults::cut_off());
        cut_off.mutex("other").unwrap().lock().wait(secs(9)).await.unwrap_err();
        assert_eq!(exported.counted(&attempts("unavailable")), 1.0);
        // An attempt that no task polls does not count.
        drop(keeper.mutex(NAME).unwrap().lock().into_future());
        assert_eq!(exported.counted(&attempts("cancelled")), 1.0);
        guard.release().await.unwrap();
    });
}

#[test]
fn what_is_held_is_counted_until_it_is_released_dropped_or_lost() {
    recorded(async |exported| {
        let (_, keeper, cut_off, chaos) = keepers().await;
        let mutex = |name: &str| keeper.mutex(name).unwrap();
        let (a, b) = (mutex("a").lock().await.unwrap(), mutex("b").lock().await.unwrap());
        let c = cut_off.mutex("c").unwrap().lock().await.unwrap();
        assert_eq!(exported.counted(HELD), 3.0);
        a.release().await.unwrap();
        assert_eq!(exported.counted(HELD), 2.0);
        drop(b);
        assert_eq!(exported.counted(HELD), 1.0);
        chaos.set(Faults::cut_off());
        c.lost().await;
        sleep(secs(1)).await;
        assert_eq!(exported.counted(HELD), 0.0, "its guard is still there");
        drop(c);
        assert_eq!(exported.counted(HELD), 0.0);
    });
}

#[test]
fn upgrades_and_downgrades_end_one_mode_and_begin_another() {
    recorded(async |exported| {
        let shared = "lockkeeper_held{mode=shared,store=memory}";
        let (_, keeper, other, _) = keepers().await;
        let lock = keeper.rw_lock(NAME).unwrap();
        let reader = lock.read().await.unwrap();
        sleep(secs(1)).await;
        let writer = reader.try_upgrade().await.unwrap();
        assert_eq!((exported.counted(shared), exported.counted(HELD)), (0.0, 1.0));
        close_to(exported.given("lockkeeper_hold_seconds{mode=shared,store=memory}")[0], 1.0);
        sleep(secs(2)).await;
        let reader = writer.downgrade().await.unwrap();
        assert_eq!((exported.counted(shared), exported.counted(HELD)), (1.0, 0.0));
        close_to(exported.given(HOLD)[0], 2.0);
        let beside = other.rw_lock(NAME).unwrap().read().await.unwrap();
        let reader = reader.try_upgrade().await.unwrap_err().into_guard().unwrap();
        assert_eq!(exported.counted(&attempts("busy")), 1.0);
        sleep(secs(3)).await;
        reader.release().await.unwrap();
        close_to(exported.given("lockkeeper_hold_seconds{mode=shared,store=memory}")[1], 3.0);
        drop(beside);
        assert_eq!(exported.counted(shared), 0.0);
    });
}

#[test]
fn groups_of_locks_have_a_label_and_there_are_at_most_a_hundred() {
    recorded(async |exported| {
        let clock = Clock::tokio();
        let keeper = Keeper::builder(MemoryStore::with_clock(clock.clone())).clock(clock);
        let group = |name: &lockkeeper::LockName| {
            name.as_str().split('/').next().unwrap_or_default().to_owned()
        };
        let keeper = keeper.metrics_group(group).connect().await.unwrap();
        for i in 0..101 {
            keeper.mutex(format!("g{i}/a")).unwrap().lock().await.unwrap().release().await.unwrap();
        }
        let guard = keeper.mutex("g0/b").unwrap().lock().await.unwrap();
        let of = |group: &str| {
            format!("lockkeeper_attempts_total{{group={group},outcome=acquired,store=memory}}")
        };
        assert_eq!(exported.counted(&of("g0")), 2.0);
        assert_eq!(exported.counted(&of("g99")), 1.0);
        assert_eq!(exported.counted(&of("g100")), 0.0);
        assert_eq!(exported.counted(&of("other")), 1.0);
        assert_eq!(exported.counted("lockkeeper_held{group=g0,mode=exclusive,store=memory}"), 1.0);
        guard.release().await.unwrap();
    });
}

#[test]
fn the_counters_are_there_before_anything_is_counted() {
    let group = |name: &lockkeeper::LockName| {
        name.as_str().split('/').next().unwrap_or_default().to_owned()
    };
    recorded(async |exported| {
        let _keepers = keepers().await;
        let counted = &exported.look().counted;
        for name in [
            &lost("expired"),
            &lost("broken"),
            &attempts("unavailable"),
            NOT_RENEWED,
            RELEASE_FAILURES,
            DROPPED,
        ] {
            assert_eq!(counted.get(name), Some(&0.0), "{name}: {counted:?}");
        }
    });
    // The figures of a group exist when the group is used.
    recorded(async |exported| {
        let keeper =
            Keeper::builder(MemoryStore::new()).metrics_group(group).connect().await.unwrap();
        assert!(exported.look().counted.is_empty());
        let guard = keeper.mutex("nightly/a").unwrap().lock().await.unwrap();
        let lost = "lockkeeper_losses_total{group=nightly,reason=expired,store=memory}";
        assert_eq!(exported.look().counted.get(lost), Some(&0.0));
        guard.release().await.unwrap();
    });
    // A later recorder gets the figures with the next lock.
    let keeper = Keeper::memory();
    recorded(async |exported| {
        keeper.mutex(NAME).unwrap().lock().await.unwrap().release().await.unwrap();
        assert_eq!(exported.look().counted.get(&lost("expired")), Some(&0.0));
    });
}
