//! The reentrant mutex in the public interface.

use std::future::IntoFuture;
use std::time::Duration;

use crate::{Case, TestClient, Ttls};
use lockkeeper::{ErrorKind, Owner, ReentrantMutex};

fn lock(case: &Case, test_client: &TestClient) -> ReentrantMutex {
    test_client.keeper.reentrant_mutex(case.name("lock")).unwrap()
}

async fn others(case: &Case) -> ReentrantMutex {
    case.keeper().await.reentrant_mutex(case.name("lock")).unwrap()
}

/// The owner acquires the lock any number of times, with one token. Other owners wait until the
/// last guard is gone, in any order of the guards.
pub async fn its_owner_takes_it_again(case: &Case) {
    let test_client = case.test_client(Ttls::long()).await;
    let (mine, theirs) = (lock(case, &test_client), others(case).await);
    let (me, they) = (Owner::new(), Owner::new());
    let mut guards = Vec::new();
    for depth in 0..8 {
        let guard = if depth % 2 == 0 {
            mine.lock(&me).await.unwrap()
        } else {
            mine.clone().try_lock(&me).await.unwrap().expect("it is mine")
        };
        guards.push(guard);
    }
    assert!(guards.iter().all(|guard| guard.token() == guards[0].token()));
    assert!(theirs.try_lock(&they).await.unwrap().is_none());
    assert!(
        mine.try_lock(&they).await.unwrap().is_none(),
        "another owner of the same process is another"
    );
    assert_eq!(case.keeper().await.inspect(case.name("lock")).await.unwrap().holders.len(), 1);
    let waiting = tokio::spawn(theirs.lock(&they).into_future());
    case.until_waiting(&test_client.keeper, &case.name("lock"), 1).await;
    guards.swap(0, 5);
    for guard in guards.drain(..7) {
        guard.release().await.unwrap();
        assert!(!waiting.is_finished());
    }
    let last = guards.remove(0);
    last.check().unwrap();
    let token = last.token();
    last.release().await.unwrap();
    let theirs = waiting.await.unwrap().unwrap();
    assert!(theirs.token() > token);
    theirs.release().await.unwrap();
    case.is_free(&case.name("lock")).await;
    case.until("nothing is left", async || test_client.keeper.leftovers() == 0).await;
}

/// Tasks that share an owner acquire the lock once together, even if they start together.
pub async fn tasks_of_one_owner_share_one_claim(case: &Case) {
    let test_client = case.test_client(Ttls::long()).await;
    let (mine, me) = (lock(case, &test_client), Owner::new());
    let blocker = others(case).await.lock(&Owner::new()).await.unwrap();
    let tasks: Vec<_> = (0..4).map(|_| tokio::spawn(mine.lock(&me).into_future())).collect();
    case.until_waiting(&test_client.keeper, &case.name("lock"), 1).await;
    assert!(mine.try_lock(&me).await.unwrap().is_none());
    assert_eq!(
        mine.lock(&me).wait(Duration::from_millis(50)).await.unwrap_err().kind(),
        ErrorKind::Timeout
    );
    blocker.release().await.unwrap();
    let mut guards = Vec::new();
    for task in tasks {
        guards.push(task.await.unwrap().unwrap());
    }
    assert!(guards.iter().all(|guard| guard.token() == guards[0].token()));
    // A dropped guard leaves the lock to the other guards.
    drop(guards.pop());
    guards[0].check().unwrap();
    drop(guards);
    case.is_free(&case.name("lock")).await;
    case.until("nothing is left", async || test_client.keeper.leftovers() == 0).await;
}

/// The guards of the lock are lost together. While one of them exists, its owner gets no further
/// guard.
pub async fn its_guards_are_lost_together(case: &Case) {
    let test_client = case.test_client(case.short()).await;
    let (mine, me) = (lock(case, &test_client), Owner::new());
    let (outer, inner) = (mine.lock(&me).await.unwrap(), mine.lock(&me).await.unwrap());
    test_client.cut_off(true);
    assert_eq!(outer.lost().await, inner.lost().await);
    test_client.cut_off(false);
    assert_eq!(mine.lock(&me).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(mine.try_lock(&me).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(inner.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(mine.lock(&me).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(outer.release().await.unwrap_err().kind(), ErrorKind::Lost);
    mine.lock(&me).await.unwrap().release().await.unwrap();
    case.is_free(&case.name("lock")).await;
    case.until("nothing is left", async || test_client.keeper.leftovers() == 0).await;
}

/// A reentrant attempt does not join a plain mutex that the owner holds: a wait for it is refused.
pub async fn a_plain_guard_is_not_joined(case: &Case) {
    let test_client = case.test_client(Ttls::long()).await;
    let (mine, me) = (lock(case, &test_client), Owner::new());
    let plain = test_client.mutex(&case.name("lock"));
    let held = plain.lock().owner(&me).await.unwrap();
    assert_eq!(mine.lock(&me).await.unwrap_err().kind(), ErrorKind::WouldDeadlock);
    held.release().await.unwrap();
    let held = mine.lock(&me).await.unwrap();
    assert_eq!(plain.lock().owner(&me).await.unwrap_err().kind(), ErrorKind::WouldDeadlock);
    held.release().await.unwrap();
    let again = mine.lock(&me).await.unwrap();
    let (again, error) = again.downgrade().await.unwrap_err().into_parts();
    let again = again.unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    again.release().await.unwrap();
    let detached = mine.lock(&me).detached(Duration::from_secs(60)).await;
    assert_eq!(detached.unwrap_err().kind(), ErrorKind::Invalid);
    case.is_free(&case.name("lock")).await;
}

/// The keeper renews the lock while any of its guards exists.
pub async fn it_is_renewed_for_its_last_guard(case: &Case) {
    let test_client = case.test_client(case.short()).await;
    let (mine, me) = (lock(case, &test_client), Owner::new());
    let (outer, inner) = (mine.lock(&me).await.unwrap(), mine.lock(&me).await.unwrap());
    outer.release().await.unwrap();
    case.pass(case.short().ttl * 3).await;
    inner.check().unwrap();
    inner.release().await.unwrap();
    let mut entries = test_client.event_log.entries();
    // A busy machine may hold up a renewal until it counts as failed.
    entries.retain(|entry| !["renewal failed", "jeopardy", "recovered"].contains(&entry.as_str()));
    assert_eq!(entries, ["acquired", "released"], "a share is no event");
}
