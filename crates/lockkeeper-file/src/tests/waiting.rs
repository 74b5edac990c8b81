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
        let waits = async |how: fn(&Waiters) -> bool| {
            b.store.0.reader.ask(move |all| Ok(how(all))).await.unwrap()
        };
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
async fn a_wait_ends_at_its_time_and_one_for_the_past_at_once() {
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
async fn an_observer_sees_every_change() {
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
async fn a_waiter_learns_that_its_claim_was_removed() {
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
async fn a_waiter_without_a_watch_on_its_notify_file_is_woken_all_the_same() {
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
async fn a_notify_file_deleted_since_its_opening_is_made_again() {
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
    assert_eq!(
        tokio::time::timeout(Duration::from_secs(3), waits).await.unwrap().unwrap(),
        Wake::Changed
    );
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

/// Watching is made slow: opening a FIFO waits for a reader. And the file cannot be written to.
#[tokio::test]
async fn what_happens_while_the_watch_is_being_set_is_seen() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    let machine = Machine::new();
    let (a, b) = (machine.client().await, machine.client().await);
    let (held, waiting) = (a.mutex("n"), b.mutex("n"));
    a.granted(&held).await;
    b.queued(&waiting).await;
    let file =
        notify::NotifyFile::of_session(&b.session).path(&machine.0.path().join("locks.db.notify"));
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
async fn an_observer_notices_a_holders_end_whenever_it_began() {
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
        assert_eq!(
            b.store.wait(Interest::Name(&n), line.revision, ms(50)).await.unwrap(),
            Wake::Elapsed
        );
    }
}

#[tokio::test]
async fn an_observer_notices_the_end_of_a_lock_delay_and_of_a_detached_lock() {
    let machine = Machine::new();
    let b = machine.client().await;
    let (delayed, detached) =
        (SessionSpec::new(TTL, ms(1500)), SessionSpec { detached: true, ..short() });
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

/// The renewal of another client of the session comes between the grant and the look of the waiting
/// client.
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
