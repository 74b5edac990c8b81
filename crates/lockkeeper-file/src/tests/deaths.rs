//! The ends of clients and of claims ahead: whom they wake, and how soon.

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
async fn a_crash_lets_the_lock_delay_run_out_and_a_release_does_not() {
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
async fn who_comes_to_stand_behind_a_holder_hears_of_its_end() {
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
async fn who_comes_to_be_the_first_that_waits_hears_of_the_end_of_any_holder() {
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
async fn a_lock_that_is_let_go_of_long_after_its_file_was_closed_is_noticed() {
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
async fn two_who_test_a_dead_client_at_once_both_see_that_it_is_dead() {
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
async fn who_begins_to_wait_after_a_death_was_put_on_record_elsewhere_is_woken_at_once() {
    let machine = Machine::new();
    let (c, waiting, ended) = ended_on_record(&machine, Duration::ZERO).await;
    assert_eq!(c.wait(&waiting, TTL / 2).await, Wake::Changed);
    assert!(since(ended) < TTL / 3, "{:?}", since(ended));
    c.granted(&waiting).await;
}

#[tokio::test]
async fn who_begins_to_wait_during_a_lock_delay_is_woken_at_its_end() {
    let machine = Machine::new();
    let delay = ms(1500);
    let (c, waiting, ended) = ended_on_record(&machine, delay).await;
    assert_eq!(c.wait(&waiting, TTL / 2).await, Wake::Changed);
    assert!(since(ended) >= delay && since(ended) < TTL / 3, "{:?}", since(ended));
    c.granted(&waiting).await;
}

#[tokio::test]
async fn who_cannot_watch_the_client_ahead_hears_of_its_end_all_the_same() {
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
async fn who_waits_behind_one_that_does_nothing_any_more_gets_the_lock_by_its_own_renewal() {
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
