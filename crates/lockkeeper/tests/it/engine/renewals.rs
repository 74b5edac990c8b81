//! The times of renewals, and the meaning of their answers.

use std::collections::HashMap;
use std::future::IntoFuture;
use std::sync::{Arc, OnceLock};

use lockkeeper::layer::Operation;
use lockkeeper::store::{Broken, LiveState, Renewal, Store};
use lockkeeper::{Error, ErrorKind, LockName, LostReason, SessionState};
use tokio::time::{sleep, timeout};

use super::spy::{Do, World, millis, secs};

#[tokio::test(start_paused = true)]
async fn a_failed_renewal_is_repeated_within_the_lease() {
    let world = World::new();
    let test_client = world.test_client(secs(9)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    for _ in 0..3 {
        test_client.spy.once(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    }
    sleep(millis(5500)).await;
    assert!(guard.remaining() > secs(4), "{:?}", guard.remaining());
    assert!(test_client.spy.asked(Operation::Renew).len() >= 4);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_is_repeated_and_holds_up_nobody() {
    let world = World::new();
    let test_client = world.test_client(secs(9)).await;
    let hung = test_client.mutex("hung").lock().await.unwrap();
    test_client.spy.once(Operation::Renew, Do::Hang);
    sleep(secs(2)).await;
    let other = test_client.mutex("other").lock().await.unwrap();
    sleep(secs(12)).await;
    hung.check().unwrap();
    other.check().unwrap();
}

/// The slow server takes a third of the ttl for each answer. The store answers for the other claims
/// before.
#[tokio::test(start_paused = true)]
async fn a_slow_servers_claim_beside_many_of_a_quick_one_is_renewed() {
    let world = World::new();
    let test_client = world.test_client(secs(9)).await;
    let slow = test_client.mutex("slow").lock().await.unwrap();
    let mut quick = Vec::new();
    for i in 0..50 {
        quick.push(test_client.mutex(&format!("quick/{i}")).lock().await.unwrap());
        sleep(millis(60)).await;
    }
    let tokens: HashMap<_, _> =
        quick.iter().map(|guard| (guard.name().clone(), guard.token().raw())).collect();
    test_client.spy.rule(move |asked| {
        let held = |name| {
            tokens
                .get(name)
                .map_or(Renewal::Unknown, |token| Renewal::Held { token: *token, ttl: secs(30) })
        };
        let answers: Vec<_> = asked.names.iter().map(held).collect();
        match (asked.operation, answers.contains(&Renewal::Unknown), answers.len()) {
            (Operation::Renew, true, 1) => Some(Do::Late(secs(3))),
            (Operation::Renew, true, _) => Some(Do::Answer(answers)),
            _ => None,
        }
    });
    sleep(secs(60)).await;
    slow.check().unwrap();
    quick.iter().for_each(|guard| guard.check().unwrap());
}

/// An event reports the failure of this claim. The session is in jeopardy until the claim is
/// renewed.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_failed_for_one_claim_is_reported_for_that_claim() {
    let world = World::new();
    let test_client = world.test_client(secs(9)).await;
    let (bad, good) = (
        test_client.mutex("bad").lock().await.unwrap(),
        test_client.mutex("good").lock().await.unwrap(),
    );
    let token = good.token().raw();
    test_client.spy.rule(move |asked| {
        let answer = |name: &LockName| match name.as_str() {
            "bad" => {
                Renewal::Failed(Error::new(ErrorKind::Unsupported, "somebody has written there"))
            }
            _ => Renewal::Held { token, ttl: secs(9) },
        };
        (asked.operation == Operation::Renew)
            .then(|| Do::Answer(asked.names.iter().map(answer).collect()))
    });
    while test_client.count("RenewalFailed { name: \"bad\"") == 0 {
        sleep(millis(100)).await;
    }
    // The claim of `good` is renewed meanwhile.
    sleep(secs(4)).await;
    assert_eq!(test_client.count("RenewalFailed { name: \"good\""), 0);
    bad.check().unwrap();
    assert_eq!((test_client.count("recovered"), test_client.count("jeopardy")), (0, 1));
    test_client.spy.no_rules();
    sleep(secs(9)).await;
    bad.check().unwrap();
    assert_eq!((test_client.count("recovered"), test_client.count("jeopardy")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn batches_that_hang_do_not_hold_up_the_last_one() {
    let world = World::new();
    let test_client = world.test_client(secs(6)).await;
    let mut others = Vec::new();
    for i in 0..2000 {
        others.push(test_client.mutex(&format!("n/{i}")).lock().await.unwrap());
    }
    let answered = test_client.mutex("answered").lock().await.unwrap();
    let wanted = "answered".parse().unwrap();
    test_client.spy.rule(move |asked| {
        (asked.operation == Operation::Renew && !asked.names.contains(&wanted)).then_some(Do::Hang)
    });
    sleep(secs(12)).await;
    assert!(
        others.iter().filter(|guard| guard.check().is_err()).count() > 1000,
        "most were in batches that hang"
    );
    answered.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_in_line_survives_a_failed_renewal() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(60)).await, world.test_client(secs(60)).await);
    let guard = holder.mutex("n").lock().await.unwrap();
    let waiting = tokio::spawn(test_client.mutex("n").lock().lease(secs(30)).into_future());
    sleep(millis(100)).await;
    let line = world.line("n").await;
    test_client.spy.once(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    sleep(secs(10)).await;
    assert_eq!(world.line("n").await, line, "it has lost its place");
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_is_never_renewed_after_the_grant() {
    let world = World::new();
    let test_client = world.test_client(secs(60)).await;
    let guard = test_client.mutex("n").lock().lease(secs(9)).await.unwrap();
    sleep(secs(20)).await;
    assert_eq!(test_client.spy.asked(Operation::Renew).len(), 0);
    assert_eq!(guard.check().unwrap_err().lost_reason(), Some(&LostReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_missing_neither_renews_nor_kills() {
    let world = World::new();
    let test_client = world.test_client(secs(9)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    let until = world.now() + guard.remaining();
    test_client.spy.always(Operation::Renew, Do::Answer(Vec::new()));
    sleep(secs(5)).await;
    guard.check().unwrap();
    assert_eq!(world.now() + guard.remaining(), until);
    sleep(secs(5)).await;
    assert_eq!(guard.check().unwrap_err().lost_reason(), Some(&LostReason::Expired));
}

/// The reason of the loss that a holder makes of the answer to its next renewal.
async fn reason_of(renewal: Renewal) -> LostReason {
    let world = World::new();
    let test_client = world.test_client(secs(9)).await;
    let guard = test_client.mutex("n").lock().await.unwrap();
    let start = world.now();
    test_client.spy.always(Operation::Renew, Do::Answer(vec![renewal]));
    let reason = guard.lost().await;
    assert!(world.now().saturating_since(start) < secs(4), "it was told at the first renewal");
    assert_eq!(test_client.count("lost"), 1);
    reason
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_said_to_wait_has_lost() {
    assert_eq!(reason_of(Renewal::Queued).await, LostReason::Forgotten);
}

#[tokio::test(start_paused = true)]
async fn a_holder_with_another_token_has_lost() {
    assert_eq!(
        reason_of(Renewal::Held { token: 4711, ttl: secs(30) }).await,
        LostReason::Forgotten
    );
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_the_store_forgot_learns_that_and_not_an_expiry() {
    let reason = reason_of(Renewal::Lost(None)).await;
    assert_eq!(reason, LostReason::Forgotten);
    let text = "the store no longer knows this lock: it was restarted without its data, or the lock was deleted";
    assert_eq!(reason.to_string(), text);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_was_broken_has_lost() {
    let broken = Broken { by: "me".into(), reason: "stuck".into(), removed: false };
    let removed = Broken { removed: true, ..broken.clone() };
    assert!(matches!(reason_of(Renewal::Lost(Some(broken))).await, LostReason::Broken { .. }));
    assert!(matches!(reason_of(Renewal::Lost(Some(removed))).await, LostReason::Removed { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_of_a_session_lists_all_its_claims() {
    let world = World::new();
    let holder = world.test_client(secs(60)).await;
    let test_client = world.test_client_by_session(secs(30), 0).await;
    let taken = holder.mutex("taken").lock().await.unwrap();
    let _held = test_client.mutex("held").lock().await.unwrap();
    let waiting = tokio::spawn(test_client.mutex("taken").lock().into_future());
    sleep(secs(4)).await;
    // The waiting claim is due every few seconds, and the held claim is not. The list has the held
    // claim all the same, since it would be a leftover otherwise.
    assert!(!test_client.spy.asked(Operation::Renew).is_empty());
    for asked in test_client.spy.asked(Operation::Renew) {
        assert_eq!(asked.ids.len(), 2);
        assert!(
            asked.states.contains(&LiveState::Granted) && asked.states.contains(&LiveState::Queued)
        );
    }
    taken.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// A store may remove a claim that a renewal does not list. So no claim may come between the making
/// of the list and the sending of the renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_claim_is_in_the_list_of_every_renewal_sent_after_it() {
    let world = World::real();
    let test_client = world.test_client_by_session(secs(3), 0).await;
    let first = test_client.mutex("first").lock().await.unwrap();
    let (mutex, runtime) = (test_client.mutex("second"), tokio::runtime::Handle::current());
    let overtaken = Arc::new(OnceLock::new());
    let seen = Arc::clone(&overtaken);
    let meanwhile = move || {
        // The list is made, and not yet sent. Another thread has half a second to get a claim in
        // between.
        let (done, answered) = std::sync::mpsc::channel();
        let lock = mutex.lock().into_future();
        let runtime = runtime.clone();
        std::thread::spawn(move || {
            let guard = runtime.block_on(lock);
            let _ = done.send(());
            drop(guard);
        });
        let _ = seen.set(answered.recv_timeout(millis(500)).is_ok());
    };
    test_client.spy.once(Operation::Renew, Do::First(Arc::new(meanwhile)));
    while overtaken.get().is_none() {
        sleep(millis(20)).await;
    }
    assert_eq!(
        overtaken.get(),
        Some(&false),
        "a claim was answered before a renewal that does not list it"
    );
    first.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_clock_that_runs_away_is_a_danger_until_the_next_renewal() {
    let world = World::new();
    let test_client = world.test_client(secs(9)).await;
    let _guard = test_client.mutex("n").lock().await.unwrap();
    let mut session = test_client.keeper.session();
    for server in [1000, 1001, 1060] {
        test_client.spy.once(Operation::Renew, Do::Time(secs(server)));
    }
    assert_eq!(session.changed().await, SessionState::Jeopardy);
    assert_eq!(test_client.spy.asked(Operation::Renew).len(), 3);
    assert_eq!(session.changed().await, SessionState::Valid);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_panics_takes_no_renewal_with_it() {
    let world = World::new();
    let keeper =
        lockkeeper::Keeper::builder(world.store.clone()).clock(world.clock.clone()).ttl(secs(3));
    let keeper = keeper.on_event(|_| panic!("in a callback")).connect().await.unwrap();
    let guard = keeper.mutex("n").unwrap().lock().await.unwrap();
    sleep(secs(10)).await;
    guard.check().unwrap();
    assert_eq!(world.store.line(guard.name()).await.unwrap().entries.len(), 1);
}

/// No lock is held whose renewal could fail. The waiter's lifetime of 5 s is renewed in its thirds.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_renewed_in_thirds_and_a_failure_is_no_event() {
    let world = World::new();
    let (holder, test_client) =
        (world.test_client(secs(30)).await, world.test_client(secs(30)).await);
    let held = holder.mutex("n").lock().await.unwrap();
    let waiting = tokio::spawn(test_client.mutex("n").lock().into_future());
    sleep(secs(60)).await;
    let renewals = test_client.spy.asked(Operation::Renew).len();
    assert!((30..=50).contains(&renewals), "{renewals} in a minute");
    test_client.spy.once(Operation::Renew, Do::Fail(ErrorKind::Unavailable));
    sleep(secs(5)).await;
    assert_eq!(test_client.count("RenewalFailed"), 0);
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// A fixed lease begins with a renewal in two cases: for several locks when all are held, and for a
/// lock that was granted to a waiter.
#[tokio::test(start_paused = true)]
async fn a_fixed_lease_whose_start_is_refused_for_good_is_given_up_at_once() {
    for (kind, by_session) in [
        (ErrorKind::Denied, false),
        (ErrorKind::Internal, true),
        (ErrorKind::Closed, false),
        (ErrorKind::Closed, true),
    ] {
        let world = World::new();
        let holder = world.test_client(secs(60)).await;
        let test_client = if by_session {
            world.test_client_by_session(secs(60), 0).await
        } else {
            world.test_client(secs(60)).await
        };
        test_client.spy.always(Operation::Renew, Do::Fail(kind));
        let start = world.now();
        let several = test_client.keeper.multi().lock("a").lock("b").build().unwrap();
        let all = timeout(secs(60), several.lock().lease(secs(3600)).into_future()).await;
        let error = all.expect("it gives up").unwrap_err();
        assert_eq!((error.kind(), error.name().is_some()), (kind, true), "{error}");
        let held = holder.mutex("a").lock().await.unwrap();
        let hand_over = async {
            sleep(millis(1)).await;
            held.release().await.unwrap();
        };
        let (one, _) =
            tokio::join!(test_client.mutex("a").lock().lease(secs(3600)).into_future(), hand_over);
        assert_eq!(one.unwrap_err().kind(), kind);
        assert!(world.now().saturating_since(start) < secs(60));
        for name in ["a", "b"] {
            holder.mutex(name).lock().wait(secs(2)).await.unwrap().release().await.unwrap();
        }
    }
}

/// If claims live as long as their session: a renewal that is acknowledged while a claim is under
/// way has not found the claim. When the store judged the claim, it had not seen that renewal.
#[tokio::test(start_paused = true)]
async fn a_grant_promises_what_was_proven_when_its_claim_was_sent() {
    let test_client = World::new().test_client_by_session(secs(30), 0).await;
    let first = test_client.mutex("a").lock().await.unwrap();
    sleep(secs(5)).await;
    test_client.spy.once(Operation::Claim, Do::Slow(secs(2)));
    let renewing = async {
        sleep(secs(1)).await;
        first.renew_once().await.unwrap();
    };
    let second = test_client.mutex("b");
    let (second, ()) = tokio::join!(second.lock().into_future(), renewing);
    let second = second.unwrap();
    assert!(first.remaining() > secs(28), "it was renewed: {:?}", first.remaining());
    assert!(second.remaining() < secs(23), "{:?}", second.remaining());
}

/// A later renewal has not found the claim, and is acknowledged before.
#[tokio::test(start_paused = true)]
async fn a_late_answer_to_a_renewal_counts_from_its_sending() {
    let test_client = World::new().test_client_by_session(secs(30), 0).await;
    let guard = test_client.mutex("a").lock().await.unwrap();
    sleep(secs(5)).await;
    test_client.spy.once(Operation::Renew, Do::Late(secs(3)));
    test_client.spy.once(Operation::Renew, Do::Answer(vec![Renewal::Unknown]));
    let later = async {
        sleep(secs(1)).await;
        guard.renew_once().await.unwrap_err();
    };
    let (_, ()) = tokio::join!(guard.renew_once(), later);
    assert!(
        guard.remaining() > secs(26) && guard.remaining() < secs(27),
        "{:?}",
        guard.remaining()
    );
}
