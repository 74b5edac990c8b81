//! Clusters that share their slots anew, masters that give way or die, replicas that are gone: what becomes of locks.

mod clusters;
mod crossings;
mod open_slots;
mod openings;
mod replicas;
mod sentinels;
mod silent_places;
mod stale_sentinels;
mod watchers;

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use lockkeeper::{Guard, Keeper, Result};
use lockkeeper_live::Redis;
use tokio::task::JoinHandle;

use crate::faults::{TIME_LIMIT, until_waiting, within};

/// A push comes at once. Without one who waits finds its grant by its first renewal, 1.3 s after its claim at the earliest.
const BY_PUSH: Duration = Duration::from_millis(1200);
/// As often a machine that is slow gets its chance.
const PUSHES: usize = 20;

/// For what is to be held while nothing renews it, or a machine stands still.
pub(crate) const UNRENEWED: Duration = Duration::from_secs(600);

pub(crate) async fn keeper(url: &str, ttl: Duration) -> Keeper {
    Keeper::from_url(url).unwrap().ttl(ttl).connect().await.unwrap()
}

/// Stands in line behind one who holds the lock.
pub(crate) async fn waiter(keeper: &Keeper, name: &str) -> JoinHandle<Result<Guard>> {
    let waiting = keeper.inspect(name).await.unwrap().waiters.len();
    let waiter = tokio::spawn(keeper.mutex(name).unwrap().lock().into_future());
    until_waiting(keeper, name, waiting + 1).await;
    waiter
}

/// The lock goes from one to the next, with a higher token.
pub(crate) async fn handed_over(guard: Guard, waiter: JoinHandle<Result<Guard>>) -> Guard {
    let token = guard.token();
    within(TIME_LIMIT, guard.release()).await.unwrap();
    let next = within(TIME_LIMIT, waiter).await.unwrap().unwrap();
    assert!(next.token() > token, "{} after {token}", next.token());
    next
}

/// Asserts that the server there is now tells those who wait: the lock goes from hand to hand sooner than anybody looks.
pub(crate) async fn pushes_come(keeper: &Keeper, mut guard: Guard) {
    let (name, mut took) = (guard.name().clone(), Vec::new());
    for _ in 0..PUSHES {
        let claimed = Instant::now();
        let waiter = waiter(keeper, name.as_str()).await;
        guard = handed_over(guard, waiter).await;
        took.push(claimed.elapsed());
        if claimed.elapsed() < BY_PUSH {
            guard.release().await.unwrap();
            return;
        }
    }
    panic!("no push has come: {took:?}");
}

/// Renews until it is known whether the lock is held.
async fn is_still_held(guard: &Guard) -> bool {
    let look = async {
        loop {
            match guard.renew_once().await {
                Ok(()) => return true,
                Err(error) if error.lost_reason().is_some() => return false,
                Err(_) => {}
            }
        }
    };
    within(TIME_LIMIT, look).await
}

/// Asserts that nobody else gets it, as far as the store can tell.
async fn nobody_else_gets_it(keeper: &Keeper, name: &str) {
    let tried = within(TIME_LIMIT, keeper.mutex(name).unwrap().try_lock()).await;
    assert!(tried.is_ok_and(|guard| guard.is_none()), "it was given away");
}

/// Waits until a replica has everything that this master has acknowledged; the key of the mark is one that it serves.
pub(crate) fn until_replicated(master: &Redis, mark: &str) {
    let mut connection = master.connect().unwrap();
    ::redis::cmd("SET").arg(mark).arg("").exec(&mut connection).unwrap();
    let replicas: u32 = ::redis::cmd("WAIT").arg(1).arg(9000).query(&mut connection).unwrap();
    assert_eq!(replicas, 1, "the replica does not follow");
}
