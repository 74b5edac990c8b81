//! Work that only the leader does.

use std::time::Duration;

use lockkeeper::testing::{Op, TestStore};
use lockkeeper::{Break, Error, ErrorKind, Keeper, Target, blocking};
use tokio::sync::mpsc;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(60);

#[derive(Debug)]
enum Own {
    Lock,
    Mine,
}

impl From<Error> for Own {
    fn from(_: Error) -> Self {
        Self::Lock
    }
}

#[tokio::test]
async fn the_work_of_a_leader_ends_its_leadership() {
    let keeper = Keeper::memory();
    let jobs = keeper.election("jobs").unwrap();
    let done = jobs.lead("me").run(async |leadership| {
        assert_eq!(jobs.leader().await?.unwrap().value, b"me");
        leadership.proclaim("ready").await?;
        Ok::<_, lockkeeper::Error>(7)
    });
    assert_eq!(done.await.unwrap(), 7);
    assert!(jobs.leader().await.unwrap().is_none());
    let failed: Result<(), Own> = jobs.lead("me").run(async |_| Err(Own::Mine)).await;
    assert!(matches!(failed, Err(Own::Mine)));
    assert!(jobs.leader().await.unwrap().is_none());
}

#[tokio::test]
async fn a_leader_that_was_broken_campaigns_again() {
    let keeper = Keeper::memory();
    let jobs = keeper.election("jobs").unwrap();
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let leading = jobs.lead("me");
    let candidate = tokio::spawn(async move {
        let mut terms = 0;
        let run = leading.run(async move |leadership| {
            terms += 1;
            sender.send(leadership.token()).unwrap();
            if terms == 1 {
                std::future::pending::<()>().await;
            }
            Ok::<_, lockkeeper::Error>(terms)
        });
        run.await
    });
    let first = receiver.recv().await.unwrap();
    keeper
        .admin()
        .unwrap()
        .break_lock("jobs", Target::Token(first), "stuck", Break::Now)
        .await
        .unwrap();
    let second = timeout(LONG, receiver.recv()).await.unwrap().unwrap();
    assert!(second > first);
    assert_eq!(candidate.await.unwrap().unwrap(), 2);
}

/// The work may have changed something, so it is not repeated after a loss of the leadership.
#[tokio::test(start_paused = true)]
async fn finished_work_is_not_repeated_though_the_leadership_was_lost() {
    let store = TestStore::new();
    let keeper = Keeper::builder(store.clone()).connect().await.unwrap();
    let jobs = keeper.election("jobs").unwrap();
    let mut calls = 0;
    let done: Result<u32, Error> = jobs
        .lead("me")
        .run(async |_| {
            calls += 1;
            store.expire("jobs");
            Ok(calls)
        })
        .await;
    assert_eq!(done.unwrap_err().kind(), ErrorKind::Lost);
    // An error may come from the loss.
    let failed: Result<(), Own> = jobs
        .lead("me")
        .run(async |_| {
            calls += 1;
            if calls == 2 {
                store.expire("jobs");
            }
            Err(Own::Mine)
        })
        .await;
    assert!(matches!(failed, Err(Own::Mine)), "{failed:?}");
    assert_eq!(calls, 3);
}

#[tokio::test(start_paused = true)]
async fn a_candidacy_that_fails_is_repeated_unless_it_never_can_succeed() {
    let store = TestStore::new();
    let keeper = Keeper::builder(store.clone()).connect().await.unwrap();
    let jobs = keeper.election("jobs").unwrap();
    store.fail_next(Op::Claim, ErrorKind::QueueFull);
    assert_eq!(jobs.lead("me").run(async |_| Ok::<_, lockkeeper::Error>(7)).await.unwrap(), 7);
    store.fail_next(Op::Claim, ErrorKind::Denied);
    let refused = jobs.lead("me").run(async |_| Ok::<_, lockkeeper::Error>(())).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    let too_long =
        jobs.lead(vec![0; 65_537]).run(async |_| Ok::<_, lockkeeper::Error>(())).await.unwrap_err();
    assert_eq!(too_long.kind(), ErrorKind::Invalid);
}

#[test]
fn a_leader_without_async_campaigns_again_after_a_loss() {
    let keeper = blocking::Keeper::memory();
    let jobs = keeper.election("jobs").unwrap();
    let mut terms = 0;
    let done = jobs.lead("me", |leadership| {
        terms += 1;
        if terms == 1 {
            let token = Target::Token(leadership.token());
            assert!(keeper.admin()?.break_lock("jobs", token, "stuck", Break::Now)?);
            assert!(leadership.lost().wait()?.is_some());
        }
        Ok::<_, lockkeeper::Error>(terms)
    });
    assert_eq!(done.unwrap(), 2);
    assert!(jobs.leader().unwrap().is_none());
}
