//! The ends of clients and of claims ahead: the waiters that wake, and how soon.

use super::*;

#[tokio::test]
async fn the_end_of_a_client_frees_its_locks_and_wakes_the_next() {
    let machine = Machine::new();
    let (a, b) = (machine.client().await, machine.client().await);
    a.granted(&a.mutex("n")).await;
    let waiting = b.mutex("n");
    b.queued(&waiting).await;
    let end = async {
        tokio::time::sleep(ms(20)).await;
        drop(a);
        clock()
    };
    let (wake, ended) = tokio::join!(b.wait(&waiting, TTL), end);
    assert_eq!(wake, Wake::Changed);
    b.granted(&waiting).await;
    assert!(since(ended) < ms(10_000), "{:?}", since(ended));
}

#[tokio::test]
async fn a_duplicate_of_the_liveness_file_keeps_the_locks() {
    let machine = Machine::new();
    let (a, b) = (machine.client().await, machine.client().await);
    a.granted(&a.mutex("n")).await;
    let guard = a.store.liveness().unwrap();
    drop(a);
    let waiting = b.mutex("n");
    b.queued(&waiting).await;
    assert_eq!(b.wait(&waiting, ms(50)).await, Wake::Elapsed);
    drop(guard);
    assert_eq!(b.wait(&waiting, TTL).await, Wake::Changed);
    b.granted(&waiting).await;
}

#[tokio::test]
async fn the_dead_in_the_middle_of_a_line_wake_their_successor_once() {
    let machine = Machine::new();
    let (a, b, c) = (machine.client().await, machine.client().await, machine.client().await);
    a.granted(&a.mutex("n")).await;
    b.queued(&b.mutex("n")).await;
    let waiting = c.mutex("n");
    assert_eq!(c.queued(&waiting).await.0, 2);
    drop(b);
    assert_eq!(c.wait(&waiting, TTL).await, Wake::Changed);
    assert_eq!(c.queued(&waiting).await.0, 1);
    assert_eq!(c.wait(&waiting, ms(50)).await, Wake::Elapsed);
}

#[tokio::test]
async fn a_crash_waits_for_the_lock_delay_and_a_release_does_not() {
    let machine = Machine::new();
    let delay = ms(3000);
    let crashing = machine.client_with(SessionSpec::new(TTL, delay)).await;
    let (released, b) =
        (machine.client_with(SessionSpec::new(TTL, delay)).await, machine.client().await);
    let clean = released.mutex("clean");
    released.granted(&clean).await;
    released.withdraw(&clean).await;
    b.granted(&b.mutex("clean")).await;

    crashing.granted(&crashing.mutex("n")).await;
    drop(crashing);
    let (waiting, start) = (b.mutex("n"), clock());
    let (_, _, look_again) = b.queued(&waiting).await;
    assert!(look_again <= delay + ms(2), "{look_again:?}");
    assert_eq!(
        b.wait(&waiting, TTL).await,
        Wake::Changed,
        "a death on record is news when its delay is over"
    );
    b.granted(&waiting).await;
    assert!(since(start) >= delay - ms(1), "{:?}", since(start));
}

#[tokio::test]
async fn a_detached_session_outlives_its_client() {
    let machine = Machine::new();
    let spec = SessionSpec { detached: true, ..SessionSpec::new(TTL, Duration::ZERO) };
    let (a, b) = (machine.client_with(spec).await, machine.client().await);
    let held = a.mutex("n");
    a.granted(&held).await;
    drop(a);
    let waiting = b.mutex("n");
    let (_, _, look_again) = b.queued(&waiting).await;
    assert!(look_again > TTL / 2, "{look_again:?}");
    assert_eq!(b.withdraw(&held).await, Withdrawal::Removed, "by the id, from another process");
    b.granted(&waiting).await;
}

#[tokio::test]
async fn a_waiter_that_moves_behind_a_holder_notices_its_end() {
    let machine = Machine::new();
    let (a, b, c) = (machine.client().await, machine.client().await, machine.client().await);
    a.granted(&a.mutex("n")).await;
    let (leaving, waiting) = (b.mutex("n"), c.mutex("n"));
    b.queued(&leaving).await;
    c.queued(&waiting).await;
    let mut waits = std::pin::pin!(c.wait(&waiting, TTL));
    assert!(tokio::time::timeout(ms(20), &mut waits).await.is_err());
    b.withdraw(&leaving).await;
    assert!(tokio::time::timeout(ms(20), &mut waits).await.is_err(), "that alone is no news");
    drop(a);
    assert_eq!(tokio::time::timeout(Duration::from_secs(3), waits).await.unwrap(), Wake::Changed);
    c.granted(&waiting).await;
}

#[tokio::test]
async fn a_new_first_waiter_notices_the_end_of_any_holder() {
    let machine = Machine::new();
    let (a, b, c, d) = (
        machine.client().await,
        machine.client().await,
        machine.client().await,
        machine.client().await,
    );
    let permit = |client: &Client| Claim { weight: 1, capacity: 2, ..client.mutex("n") };
    let (first, second, third, fourth) = (permit(&a), permit(&b), permit(&c), permit(&d));
    a.granted(&first).await;
    b.granted(&second).await;
    c.queued(&third).await;
    d.queued(&fourth).await;
    let mut waits = std::pin::pin!(d.wait(&fourth, TTL));
    assert!(tokio::time::timeout(ms(20), &mut waits).await.is_err());
    // Its predecessor is granted: now it waits for two holders.
    b.withdraw(&second).await;
    c.granted(&third).await;
    assert!(tokio::time::timeout(ms(20), &mut waits).await.is_err(), "that alone is no news");
    drop(a);
    assert_eq!(tokio::time::timeout(Duration::from_secs(3), waits).await.unwrap(), Wake::Changed);
    d.granted(&fourth).await;
}

/// The kernel reports a close before it releases the lock, and on a busy machine long before.
#[tokio::test]
async fn a_lock_released_long_after_the_close_of_its_file_is_noticed() {
    let machine = Machine::new();
    let (a, b) = (machine.client().await, machine.client().await);
    a.granted(&a.mutex("n")).await;
    let path = machine.0.path().join("locks.db.live").join(&*a.store.0.own);
    // Another file in its place: its lock belongs to another descriptor than the one whose close is
    // reported.
    fs::rename(&path, machine.0.path().join("aside")).unwrap();
    let written = File::create(&path).unwrap();
    let locked = File::open(&path).unwrap();
    locked.lock().unwrap();
    let waiting = b.mutex("n");
    b.queued(&waiting).await;
    let mut waits = std::pin::pin!(b.wait(&waiting, TTL));
    assert!(tokio::time::timeout(ms(20), &mut waits).await.is_err());
    // Requests run in order, so the wait has begun now.
    b.store.0.reader.ask(|_| Ok(())).await.unwrap();
    drop(written);
    assert!(tokio::time::timeout(ms(100), &mut waits).await.is_err(), "it is still locked");
    drop(locked);
    assert_eq!(tokio::time::timeout(Duration::from_secs(3), waits).await.unwrap(), Wake::Changed);
    b.granted(&waiting).await;
}

#[tokio::test]
async fn two_simultaneous_tests_of_a_dead_client_both_see_its_death() {
    let machine = Machine::new();
    let (a, b) = (machine.client().await, machine.client().await);
    a.granted(&a.mutex("n")).await;
    let file = File::open(machine.0.path().join("locks.db.live").join(&*a.store.0.own)).unwrap();
    drop(a);
    file.lock_shared().unwrap();
    b.granted(&b.mutex("n")).await;
}

#[tokio::test]
async fn the_dead_behind_a_waiter_wake_their_successor_once() {
    let machine = Machine::new();
    let (a, b, c) = (machine.client().await, machine.client().await, machine.client().await);
    a.granted(&a.mutex("n")).await;
    a.queued(&a.mutex("n")).await;
    b.queued(&b.mutex("n")).await;
    let waiting = c.mutex("n");
    assert_eq!(c.queued(&waiting).await.0, 3);
    drop(b);
    assert_eq!(c.wait(&waiting, TTL).await, Wake::Changed);
    assert_eq!(c.queued(&waiting).await.0, 2);
    assert_eq!(c.wait(&waiting, ms(50)).await, Wake::Elapsed);
}

/// `a` holds two locks and ends. Its end is recorded in the line of one lock before `c` waits in
/// the line of the other.
async fn ended_on_record(machine: &Machine, delay: Duration) -> (Client, Claim, Instant) {
    let a = machine.client_with(SessionSpec::new(TTL, delay)).await;
    let (b, c) = (machine.client().await, machine.client().await);
    a.granted(&a.mutex("x")).await;
    a.granted(&a.mutex("y")).await;
    let (other, waiting) = (b.mutex("x"), c.mutex("y"));
    b.queued(&other).await;
    let (_, _, look_again) = c.queued(&waiting).await;
    assert!(look_again > TTL / 2, "{look_again:?}");
    let ended = clock();
    drop(a);
    assert_eq!(b.wait(&other, TTL).await, Wake::Changed);
    b.store.claim(&Claim { resend: true, ..other }).await.unwrap();
    (c, waiting, ended)
}

#[tokio::test]
async fn a_wait_that_begins_after_a_death_recorded_elsewhere_ends_at_once() {
    let machine = Machine::new();
    let (c, waiting, ended) = ended_on_record(&machine, Duration::ZERO).await;
    assert_eq!(c.wait(&waiting, TTL / 2).await, Wake::Changed);
    assert!(since(ended) < TTL / 3, "{:?}", since(ended));
    c.granted(&waiting).await;
}

#[tokio::test]
async fn a_wait_that_begins_during_a_lock_delay_ends_with_it() {
    let machine = Machine::new();
    let delay = ms(1500);
    let (c, waiting, ended) = ended_on_record(&machine, delay).await;
    assert_eq!(c.wait(&waiting, TTL / 2).await, Wake::Changed);
    assert!(since(ended) >= delay && since(ended) < TTL / 3, "{:?}", since(ended));
    c.granted(&waiting).await;
}

#[tokio::test]
async fn a_waiter_that_cannot_watch_the_client_ahead_notices_its_end() {
    let machine = Machine::new();
    let (a, b) = (machine.client().await, machine.client().await);
    a.granted(&a.mutex("n")).await;
    let waiting = b.mutex("n");
    b.queued(&waiting).await;
    let path = machine.0.path().join("locks.db.live").join(&*a.store.0.own);
    let aside = machine.0.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    let mut waits = std::pin::pin!(b.wait(&waiting, TTL / 2));
    assert!(tokio::time::timeout(ms(20), &mut waits).await.is_err());
    // Requests run in order, so the wait has begun now.
    b.store.0.reader.ask(|_| Ok(())).await.unwrap();
    fs::rename(&aside, &path).unwrap();
    drop(a);
    assert_eq!(waits.await, Wake::Changed);
    b.granted(&waiting).await;
}

/// Its process lives, so the kernel reports nothing.
#[tokio::test]
async fn a_waiter_behind_an_idle_client_gets_the_lock_by_its_own_renewal() {
    for is_killed in [false, true] {
        let machine = Machine::new();
        let (a, b, c) =
            (machine.client().await, machine.client_with(short()).await, machine.client().await);
        let (held, still, waiting) = (a.mutex("n"), b.mutex("n"), c.mutex("n"));
        a.granted(&held).await;
        b.queued(&still).await;
        c.queued(&waiting).await;
        let renewed = async || c.renew(&[(&waiting, LiveState::Queued)]).await.unwrap().remove(0);
        if is_killed {
            while c.store.line(&name("n")).await.unwrap().entries.len() > 2 {
                assert_eq!(renewed().await, Renewal::Queued);
                tokio::time::sleep(ms(50)).await;
            }
            drop(a);
        } else {
            a.withdraw(&held).await;
        }
        let granted = async {
            while renewed().await == Renewal::Queued {
                tokio::time::sleep(ms(50)).await;
            }
            renewed().await
        };
        let granted = tokio::time::timeout(TTL, granted).await.unwrap();
        assert!(matches!(granted, Renewal::Held { .. }), "{is_killed}: {granted:?}");
    }
}
