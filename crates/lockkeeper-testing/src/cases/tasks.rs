//! Tasks of one process that want the same lock.

use std::future::IntoFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::{Case, Ttls};

/// One task of a process waits in the store's line for all its tasks, and the tasks get the lock in
/// their order.
pub async fn one_of_them_waits_in_line(case: &Case) {
    let (name, holder) = (case.name("m"), case.keeper().await);
    let guard = holder.mutex(&name).unwrap().lock().await.unwrap();
    let test_client = case.test_client(Ttls::long()).await;
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for i in 0..5 {
        let (mutex, served) = (test_client.mutex(&name), Arc::clone(&served));
        tasks.push(tokio::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            served.lock().unwrap().push((i, guard.token()));
            guard.release().await.unwrap();
        }));
        // The order of the tasks is known: each task is in the queue before the next task begins.
        case.until("the task waits", async || {
            let entries = test_client.event_log.entries();
            entries.iter().filter(|e| *e == "contended").count() == i
                && test_client.event_log.has("queued")
        })
        .await;
    }
    assert_eq!(holder.inspect(&name).await.unwrap().waiters.len(), 1);
    guard.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let served = served.lock().unwrap().clone();
    assert_eq!(served.iter().map(|(i, _)| *i).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(served.windows(2).all(|pair| pair[0].1 < pair[1].1), "{served:?}");
}

/// A task that gives up leaves its place to the next task of its process, not to another process.
pub async fn a_place_in_line_is_inherited(case: &Case) {
    let (name, holder) = (case.name("m"), case.keeper().await);
    let guard = holder.mutex(&name).unwrap().lock().await.unwrap();
    let (early, late) =
        (case.test_client(Ttls::long()).await, case.test_client(Ttls::long()).await);
    let first = tokio::spawn(early.mutex(&name).lock().into_future());
    case.until_waiting(&holder, &name, 1).await;
    let heir = tokio::spawn(early.mutex(&name).lock().reason("heir").into_future());
    case.until("the heir waits behind the first", async || early.event_log.has("contended")).await;
    let other = tokio::spawn(late.mutex(&name).lock().into_future());
    case.until_waiting(&holder, &name, 2).await;
    let ahead = holder.inspect(&name).await.unwrap().waiters[0].id;
    first.abort();
    case.until("the place shows the heir's reason", async || {
        let waiters = holder.inspect(&name).await.unwrap().waiters;
        waiters.len() == 2 && waiters[0].reason.as_deref() == Some("heir")
    })
    .await;
    assert_eq!(
        holder.inspect(&name).await.unwrap().waiters[0].id,
        ahead,
        "the place is the same one"
    );
    guard.release().await.unwrap();
    let heir = heir.await.unwrap().unwrap();
    let (token, heir_token) = (heir.token(), heir.token());
    heir.release().await.unwrap();
    let other = other.await.unwrap().unwrap();
    assert!(other.token() > token && heir_token == token);
    other.release().await.unwrap();
}

/// When all tasks give up, no claim is left in line.
pub async fn nobody_is_left_when_all_give_up(case: &Case) {
    let (name, holder) = (case.name("m"), case.keeper().await);
    let guard = holder.mutex(&name).unwrap().lock().await.unwrap();
    let test_client = case.test_client(Ttls::long()).await;
    let tasks: Vec<_> =
        (0..4).map(|_| tokio::spawn(test_client.mutex(&name).lock().into_future())).collect();
    case.until_waiting(&holder, &name, 1).await;
    // The tasks give up from the front, so each task inherits the place before it gives up.
    for task in tasks {
        task.abort();
        let _ = task.await;
    }
    case.until_waiting(&holder, &name, 0).await;
    guard.release().await.unwrap();
    case.is_free(&name).await;
}

/// A task that stops waiting does not delay the tasks behind it.
pub async fn a_timeout_in_the_queue_holds_up_nobody(case: &Case) {
    let name = case.name("m");
    let test_client = case.test_client(Ttls::long()).await;
    let guard = test_client.mutex(&name).lock().await.unwrap();
    let impatient =
        tokio::spawn(test_client.mutex(&name).lock().wait(Duration::from_millis(50)).into_future());
    let patient = tokio::spawn(test_client.mutex(&name).lock().into_future());
    assert!(impatient.await.unwrap().is_err());
    guard.release().await.unwrap();
    patient.await.unwrap().unwrap().release().await.unwrap();
    case.is_free(&name).await;
}

/// A process that holds the lock and waits for it again takes its turn behind other processes.
pub async fn a_process_does_not_keep_the_lock_to_itself(case: &Case) {
    let (name, busy) = (case.name("m"), case.test_client(Ttls::long()).await);
    let other = case.test_client(Ttls::long()).await;
    let first = busy.mutex(&name).lock().await.unwrap();
    let stranger = tokio::spawn(other.mutex(&name).lock().into_future());
    case.until_waiting(&busy.keeper, &name, 1).await;
    let again = tokio::spawn(busy.mutex(&name).lock().into_future());
    case.until_waiting(&busy.keeper, &name, 2).await;
    first.release().await.unwrap();
    let stranger = stranger.await.unwrap().unwrap();
    let between = stranger.token();
    stranger.release().await.unwrap();
    let again = again.await.unwrap().unwrap();
    assert!(again.token() > between);
    again.release().await.unwrap();
}
