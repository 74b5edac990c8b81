use super::*;
use crate::LostReason;
use crate::store::{ClaimId, SessionId, SessionSpec};

fn hold(clock: &Clock) -> Hold {
    let spec = SessionSpec::new(Duration::from_secs(9), Duration::ZERO);
    let session =
        Session::new(spec, SessionId::random(), Duration::from_secs(9), None, clock.now());
    let key =
        ClaimKey { name: "n".parse().unwrap(), session: session.id.clone(), id: ClaimId::random() };
    Hold::new(key, Arc::new(session), clock.clone())
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_passed_is_never_raised() {
    let clock = Clock::tokio();
    let hold = hold(&clock);
    let sent = clock.now();
    assert!(hold.granted(7, sent + Duration::from_secs(1)));
    tokio::time::advance(Duration::from_secs(6)).await;
    assert!(hold.check().is_err());
    assert!(!hold.granted(7, clock.now() + Duration::from_secs(60)));
    assert_eq!(hold.check().unwrap_err().lost_reason(), Some(&LostReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn nothing_revives_it_though_nobody_has_looked_since_the_deadline() {
    let clock = Clock::tokio();
    let (answered, pushed) = (hold(&clock), hold(&clock));
    tokio::time::advance(Duration::from_secs(6)).await;
    assert!(!answered.granted(7, clock.now() + Duration::from_secs(60)));
    assert!(!pushed.pushed(7));
    assert_eq!((answered.remaining(), answered.stage()), (Duration::ZERO, Stage::InFlight));
}

#[tokio::test(start_paused = true)]
async fn what_was_collected_is_offered_by_no_late_answer() {
    let clock = Clock::tokio();
    let hold = hold(&clock);
    assert!(hold.offered().is_none());
    hold.pushed(7);
    assert_eq!(hold.offered(), Some(clock.now()));
    tokio::time::advance(Duration::from_secs(1)).await;
    hold.granted(7, clock.now() + Duration::from_secs(9));
    assert_eq!(
        hold.offered(),
        Some(clock.now() - Duration::from_secs(1)),
        "since the first answer"
    );
    hold.collect();
    hold.granted(7, clock.now() + Duration::from_secs(10));
    assert!(hold.offered().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_forked_child_learns_that_it_holds_nothing() {
    let clock = Clock::tokio();
    let spec = SessionSpec::new(Duration::from_secs(9), Duration::ZERO);
    let mut session =
        Session::new(spec, SessionId::random(), Duration::from_secs(9), None, clock.now());
    session.process = lockkeeper_core::kit::Process::of(std::process::id() + 1);
    let key =
        ClaimKey { name: "n".parse().unwrap(), session: session.id.clone(), id: ClaimId::random() };
    let hold = Hold::new(key, Arc::new(session), clock.clone());
    let received = clock.timeout(Duration::from_secs(60), hold.lost()).await;
    assert_eq!(received, Some(LostReason::Forked));
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_has_no_time_left_whatever_its_deadline() {
    let clock = Clock::tokio();
    let hold = hold(&clock);
    hold.granted(7, clock.now() + Duration::from_secs(9));
    hold.lose(LostReason::Shutdown);
    assert_eq!(hold.remaining(), Duration::ZERO);
    assert!(hold.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn what_the_clock_has_ended_is_lost_for_no_other_reason() {
    let clock = Clock::tokio();
    let [early, late] = [hold(&clock), hold(&clock)];
    early.granted(7, clock.now() + Duration::from_secs(9));
    late.granted(7, clock.now() + Duration::from_secs(7));
    tokio::time::advance(Duration::from_secs(8)).await;
    for hold in [&early, &late] {
        hold.lose(LostReason::SessionExpired);
    }
    assert_eq!(
        (early.loss(), late.loss()),
        (Some(&LostReason::SessionExpired), Some(&LostReason::Expired))
    );
}

#[tokio::test(start_paused = true)]
async fn the_deadline_only_rises() {
    let clock = Clock::tokio();
    let hold = hold(&clock);
    hold.granted(7, clock.now() + Duration::from_secs(9));
    hold.raise(clock.now() + Duration::from_secs(1));
    assert_eq!(hold.remaining(), Duration::from_secs(9));
}

#[tokio::test(start_paused = true)]
async fn a_late_queued_reply_does_not_take_a_grant_back() {
    let clock = Clock::tokio();
    let hold = hold(&clock);
    hold.pushed(7);
    hold.queued(clock.now());
    assert_eq!(hold.stage(), Stage::Granted);
}

#[tokio::test(start_paused = true)]
async fn a_push_gives_no_new_time() {
    let clock = Clock::tokio();
    let hold = hold(&clock);
    hold.queued(clock.now());
    let before = hold.deadline();
    tokio::time::advance(Duration::from_secs(2)).await;
    hold.pushed(7);
    assert_eq!(hold.deadline(), before);
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_what_is_renewed() {
    let clock = Clock::tokio();
    let hold = hold(&clock);
    hold.granted(7, clock.now() + Duration::from_secs(100));
    hold.end_at(clock.now() + Duration::from_secs(3));
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(hold.loss(), Some(&LostReason::MaxHold));
}
