//! Wake-ups: which waiter, by which event, and how soon.

use super::*;
use crate::wait::waiters::Waiters;

/// Only the file can have woken the waiter: it waits for no time, and does not poll.
#[tokio::test]
async fn a_notify_file_wakes_the_waiter_of_another_store() {
    let machine = Machine::new();
    let (a, b) = (machine.client().await, machine.client().await);
    let (held, waiting) = (a.mutex("n"), b.mutex("n"));
    let token = a.granted(&held).await;
    b.queued(&waiting).await;
    let hand_off = async {
        let waits = async |how: fn(&Waiters) -> bool| b.store.0.reader.ask(move |all| Ok(how(all))).await.unwrap();
        while !waits(|all| all.left().0 == 1).await {
            tokio::task::yield_now().await;
        }
        assert!(!waits(|all| all.next_due().is_some()).await);
        if waits(Waiters::any_polling).await {
            left_out("this user has no watches of inotify left");
        }
        a.withdraw(&held).await;
    };
    let (wake, ()) = tokio::join!(b.wait(&waiting, TTL), hand_off);
    assert!(matches!(wake, Wake::Granted { token: next } if next > token), "{wake:?}");
}

#[tokio::test]
async fn a_wait_ends_when_its_time_is_over_and_one_for_the_past_at_once() {
    let machine = Machine::new();
    let (a, b) = (machine.client().await, machine.client().await);
    let (held, waiting) = (a.mutex("n"), b.mutex("n"));
    assert_eq!(b.wait(&waiting, TTL).await, Wake::Changed, "it is not there");
    let token = a.granted(&held).await;
    assert_eq!(a.wait(&held, TTL).await, Wake::Granted { token });
    b.queued(&waiting).await;
    let start = clock();
    assert_eq!(b.wait(&waiting, ms(50)).await, Wake::Elapsed);
    assert!(since(start) >= ms(50) && since(start) < ms(10_000), "{:?}", since(start));
}

#[tokio::test]
async fn an_observer_hears_of_every_change() {
    let machine = Machine::new();
    let (a, b) = (machine.client().await, machine.client().await);
    let n = name("n");
    let mut seen = Revision::default();
    let claim = a.mutex("n");
    for step in 0..3 {
        let act = async {
            tokio::time::sleep(ms(10)).await;
            match step {
                0 => drop(a.granted(&claim).await),
                1 => drop(a.store.request_release(&n, "me", "why").await.unwrap()),
                _ => drop(a.withdraw(&claim).await),
            }
        };
        let (wake, ()) = tokio::join!(b.store.wait(Interest::Name(&n), seen, TTL), act);
        assert_eq!(wake.unwrap(), Wake::Changed, "{step}");
        let line = b.store.line(&n).await.unwrap();
        assert_ne!(line.revision, seen);
        seen = line.revision;
    }
    assert_eq!(b.store.wait(Interest::Name(&n), seen, ms(30)).await.unwrap(), Wake::Elapsed);
}

#[tokio::test]
async fn a_waiter_hears_that_its_claim_was_removed() {
    let machine = Machine::new();
    let (a, b) = (machine.client().await, machine.client().await);
    a.granted(&a.mutex("n")).await;
    let waiting = b.mutex("n");
    b.queued(&waiting).await;
    let evict = async {
        tokio::time::sleep(ms(20)).await;
        let target = Target::Id(waiting.key.id.hash());
        a.store.evict(&waiting.key.name, &target, Evict::Now, "", "").await.unwrap()
    };
    let (wake, _) = tokio::join!(b.wait(&waiting, TTL), evict);
    assert_eq!(wake, Wake::Changed);
}

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
    let (released, b) = (machine.client_with(SessionSpec::new(TTL, delay)).await, machine.client().await);
    let clean = released.mutex("clean");
    released.granted(&clean).await;
    released.withdraw(&clean).await;
    b.granted(&b.mutex("clean")).await;

    crashing.granted(&crashing.mutex("n")).await;
    drop(crashing);
    let (waiting, start) = (b.mutex("n"), clock());
    let (_, _, look_again) = b.queued(&waiting).await;
    assert!(look_again <= delay + ms(2), "{look_again:?}");
    assert_eq!(b.wait(&waiting, TTL).await, Wake::Changed, "a death on record is news when its delay is over");
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
async fn a_waiter_that_cannot_watch_its_notify_file_is_woken_all_the_same() {
    let machine = Machine::new();
    let (a, b) = (machine.client().await, machine.client().await);
    let (held, waiting) = (a.mutex("n"), b.mutex("n"));
    a.granted(&held).await;
    b.queued(&waiting).await;
    fs::remove_dir_all(machine.0.path().join("locks.db.notify")).unwrap();
    let release = async {
        tokio::time::sleep(ms(20)).await;
        a.withdraw(&held).await;
    };
    let (wake, ()) = tokio::join!(b.wait(&waiting, Duration::from_secs(2)), release);
    assert!(matches!(wake, Wake::Granted { .. }), "{wake:?}");
}

#[tokio::test]
async fn a_notify_file_that_was_deleted_since_it_was_opened_is_made_again() {
    let machine = Machine::new();
    let (a, b) = (machine.client().await, machine.client().await);
    let (n, held) = (name("n"), a.mutex("n"));
    a.granted(&held).await;
    for file in fs::read_dir(machine.0.path().join("locks.db.notify")).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    let seen = b.store.line(&n).await.unwrap().revision;
    let mut waits = b.store.wait(Interest::Name(&n), seen, TTL);
    assert!(tokio::time::timeout(ms(20), &mut waits).await.is_err());
    // Requests run in order, so the wait has begun now.
    b.store.0.reader.ask(|_| Ok(())).await.unwrap();
    a.withdraw(&held).await;
    assert_eq!(tokio::time::timeout(Duration::from_secs(3), waits).await.unwrap().unwrap(), Wake::Changed);
}

#[tokio::test]
async fn dropped_waits_leave_no_watch() {
    let machine = Machine::new();
    let (a, b) = (machine.client().await, machine.client().await);
    a.granted(&a.mutex("n")).await;
    let waiting = b.mutex("n");
    b.queued(&waiting).await;
    for _ in 0..3 {
        assert_eq!(b.wait(&waiting, ms(1)).await, Wake::Elapsed);
    }
    let left = b.store.0.reader.ask(|waiters| Ok(waiters.left())).await.unwrap();
    assert_eq!(left, (0, 0));
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
    let (a, b, c, d) = (machine.client().await, machine.client().await, machine.client().await, machine.client().await);
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

/// Watching is made slow: opening a FIFO waits for a reader. And the file cannot be written to.
#[tokio::test]
async fn what_happens_while_the_watch_is_being_set_is_seen() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    let machine = Machine::new();
    let (a, b) = (machine.client().await, machine.client().await);
    let (held, waiting) = (a.mutex("n"), b.mutex("n"));
    a.granted(&held).await;
    b.queued(&waiting).await;
    let file = notify::NotifyFile::of_session(&b.session).path(&machine.0.path().join("locks.db.notify"));
    let _ = fs::remove_file(&file);
    mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut waits = std::pin::pin!(b.wait(&waiting, TTL));
    assert!(tokio::time::timeout(ms(50), &mut waits).await.is_err());
    let release = a.withdraw(&held);
    let read = async {
        while a.store.line(&name("n")).await.unwrap().entries.len() > 1 {
            tokio::task::yield_now().await;
        }
        fs::OpenOptions::new().read(true).write(true).open(&file).unwrap()
    };
    let (_, _reading) = tokio::join!(release, read);
    let wake = tokio::time::timeout(Duration::from_secs(3), waits).await.unwrap();
    assert!(matches!(wake, Wake::Granted { .. }), "{wake:?}");
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

#[tokio::test]
async fn an_observer_hears_of_the_end_of_a_holder_whenever_it_began_to_wait() {
    for early in [true, false] {
        let machine = Machine::new();
        let (a, b) = (machine.client().await, machine.client().await);
        let (n, held) = (name("n"), a.mutex("n"));
        a.granted(&held).await;
        let seen = b.store.line(&n).await.unwrap().revision;
        let mut a = Some(a);
        drop(if early { None } else { a.take() });
        let mut waits = b.store.wait(Interest::Name(&n), seen, TTL / 2);
        let early_news = tokio::time::timeout(ms(20), &mut waits).await;
        assert!(!early || early_news.is_err());
        drop(a);
        let wake = match early_news {
            Ok(wake) => wake,
            Err(_) => waits.await,
        };
        assert_eq!(wake.unwrap(), Wake::Changed);
        let line = b.store.line(&n).await.unwrap();
        assert!(line.entries.is_empty() && line.revision != seen, "{line:?}");
        assert_eq!(b.store.wait(Interest::Name(&n), line.revision, ms(50)).await.unwrap(), Wake::Elapsed);
    }
}

#[tokio::test]
async fn an_observer_hears_of_the_end_of_a_lock_delay_and_of_a_detached_lock() {
    let machine = Machine::new();
    let b = machine.client().await;
    let (delayed, detached) = (SessionSpec::new(TTL, ms(1500)), SessionSpec { detached: true, ..short() });
    for spec in [delayed, detached] {
        let a = machine.client_with(spec).await;
        let (n, began) = (name("n"), clock());
        a.granted(&a.mutex("n")).await;
        let seen = b.store.line(&n).await.unwrap().revision;
        drop(a);
        assert_eq!(b.store.wait(Interest::Name(&n), seen, TTL / 2).await.unwrap(), Wake::Changed);
        assert!(since(began) >= ms(1400) && since(began) < TTL / 3, "{:?}", since(began));
        assert!(b.store.line(&n).await.unwrap().entries.is_empty());
    }
}

/// Its process lives, so the kernel reports nothing.
#[tokio::test]
async fn who_waits_behind_one_that_does_nothing_any_more_gets_the_lock_by_its_own_renewal() {
    for is_killed in [false, true] {
        let machine = Machine::new();
        let (a, b, c) = (machine.client().await, machine.client_with(short()).await, machine.client().await);
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

/// The renewal of another client of the session comes between the grant and the look of the waiting client.
#[tokio::test]
async fn a_renewal_through_another_client_does_not_take_the_wake_up_away() {
    let machine = Machine::new();
    let spec = SessionSpec { detached: true, ..SessionSpec::new(TTL, Duration::ZERO) };
    let first = machine.client_with(spec.clone()).await;
    let second = Client { store: machine.open().await, session: first.session.clone(), spec };
    let held = second.mutex("n");
    second.granted(&held).await;
    let waiter = first.mutex("n");
    first.queued(&waiter).await;
    let waits = first.wait(&waiter, TTL);
    // Both in one transaction, so that the waiting client sees only their end.
    let (release, name) = (held.key.clone(), waiter.key.clone());
    let grants = async {
        while first.store.0.reader.ask(|all| Ok(all.left().0)).await.unwrap() < 1 {
            tokio::task::yield_now().await;
        }
        let both = second.store.write(move |txn| {
            txn.withdraw(&release, None)?;
            txn.renew(&name.session, &[Live { key: name.clone(), state: LiveState::Queued }])
        });
        both.await.unwrap()
    };
    let start = clock();
    let (woken, renewed) = tokio::join!(waits, grants);
    assert!(matches!(renewed.claims[..], [Renewal::Held { .. }]), "{renewed:?}");
    assert!(matches!(woken, Wake::Granted { .. } | Wake::Changed), "{woken:?}");
    assert!(since(start) < TTL / 2, "{:?}", since(start));
}
