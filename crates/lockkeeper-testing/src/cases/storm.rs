//! Many clients on a store that loses, doubles, delays and refuses requests: no two holders at
//! once, tokens that rise, and a free lock afterwards.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::{Case, Ttls};
use lockkeeper::layer::{Fault, Faults};
use lockkeeper::time::Instant;
use lockkeeper::{Error, ErrorKind};

/// One hold, with the times at which its guard reported the lock as held.
#[derive(Clone, Copy, Debug)]
struct Held {
    token: u64,
    from: Instant,
    until: Instant,
}

/// Replies are lost, and requests arrive twice, late, and too late.
pub async fn two_never_hold_at_once(case: &Case) {
    let faults = Faults::none()
        .with(Fault::LostReply, 60)
        .with(Fault::LostRequest, 30)
        .with(Fault::Refused, 30)
        .with(Fault::Twice, 60)
        .with(Fault::LateCopy, 60)
        .with(Fault::Overdue, 30)
        .with(Fault::LostWake, 30)
        .with(Fault::FalseWake, 60)
        .slow(150, Duration::from_millis(30))
        .late(Duration::from_millis(1500));
    acquire_under(case, &faults, 4, 12).await;
}

/// Every other request is lost, and answers take as long as a lease.
pub async fn an_outage_breaks_nothing(case: &Case) {
    let faults = Faults::none()
        .with(Fault::LostReply, 250)
        .with(Fault::LostRequest, 250)
        .slow(200, case.short().ttl);
    acquire_under(case, &faults, 3, 2).await;
}

async fn acquire_under(case: &Case, faults: &Faults, clients: u64, rounds: usize) {
    let name = case.name("m");
    let held = Arc::new(Mutex::new(Vec::new()));
    let mut test_clients = Vec::new();
    let mut tasks = Vec::new();
    for seed in 0..clients {
        let test_client = case.test_client(case.short()).await;
        test_client.line.sow(seed + 1);
        test_client.line.set(faults.clone());
        let (mutex, held, clock) =
            (test_client.mutex(&name), Arc::clone(&held), case.clock().clone());
        tasks.push(tokio::spawn(async move {
            let mut done = 0;
            while done < rounds {
                let guard = match mutex.lock().await {
                    Ok(guard) => guard,
                    Err(error) => {
                        survivable(&error);
                        continue;
                    }
                };
                let from = clock.now();
                let mut until = from;
                for _ in 0..3 {
                    clock.sleep(Duration::from_millis(7)).await;
                    let now = clock.now();
                    // The guard reported the lock as held at `now`, even if the hold is lost later.
                    if guard.check().is_ok() {
                        until = now;
                    }
                }
                held.lock().unwrap().push(Held { token: guard.token().get(), from, until });
                if let Err(error) = guard.release().await {
                    survivable(&error);
                }
                done += 1;
            }
        }));
        test_clients.push(test_client);
    }
    for task in tasks {
        task.await.unwrap();
    }
    for test_client in &test_clients {
        test_client.line.quiet();
        test_client.line.settled().await;
    }
    let mut held = held.lock().unwrap().clone();
    assert_eq!(held.len(), usize::try_from(clients).unwrap_or(0) * rounds);
    check(&mut held);
    for test_client in &test_clients {
        case.until("the keeper has let go", async || test_client.keeper.leftovers() == 0).await;
    }
    case.is_free(&name).await;
}

/// In the order of their tokens, no hold began before the hold before it had ended.
fn check(held: &mut [Held]) {
    held.sort_by_key(|h| h.token);
    for pair in held.windows(2) {
        assert!(pair[0].token < pair[1].token, "one token twice: {pair:?}");
        assert!(pair[0].until <= pair[1].from, "two believed at once, or out of order: {pair:?}");
    }
}

fn survivable(error: &Error) {
    assert!(error.is_retryable(), "{error:?}");
    assert_ne!(error.kind(), ErrorKind::Timeout, "nobody limited the wait");
}

/// More faults take more time, but every client gets the lock.
pub async fn everybody_gets_it_in_the_end(case: &Case) {
    let name = case.name("m");
    let faults = Faults::none().with(Fault::LostReply, 250).with(Fault::LostWake, 500);
    let mut tasks = Vec::new();
    for seed in 0..5 {
        let test_client =
            case.test_client(Ttls { ttl: case.short().ttl * 2, ..case.short() }).await;
        test_client.line.sow(100 + seed);
        test_client.line.set(faults.clone());
        let mutex = test_client.mutex(&name);
        tasks.push(tokio::spawn(async move {
            let mut tries = 0;
            loop {
                tries += 1;
                match mutex.lock().await {
                    Ok(guard) => return drop(guard.release().await),
                    Err(error) => survivable(&error),
                }
                assert!(tries < 50, "never got it");
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}
