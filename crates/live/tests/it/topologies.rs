//! Clusters that share their slots anew, masters that give way or die, replicas that are gone: what becomes of locks.

mod clusters;
mod open_slots;
mod replicas;
mod sentinels;
mod watchers;

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use lockkeeper::{Guard, Keeper, Release, Result};
use lockkeeper_live::Redis;
use tokio::task::JoinHandle;

use crate::faults::{PATIENCE, until_waiting, within};

/// A push comes at once; without one the first in line looks again after 5 s at the earliest.
const BY_PUSH: Duration = Duration::from_millis(3500);

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
    assert_eq!(within(PATIENCE, guard.release()).await.unwrap(), Release::Done);
    let next = within(PATIENCE, waiter).await.unwrap().unwrap();
    assert!(next.token() > token, "{} after {token}", next.token());
    next
}

/// Asserts that the server there is now tells those who wait: the lock goes from hand to hand without a look.
pub(crate) async fn pushes_come(keeper: &Keeper, guard: Guard) {
    let name = guard.name().clone();
    let waiter = waiter(keeper, name.as_str()).await;
    let released = Instant::now();
    let next = handed_over(guard, waiter).await;
    assert!(released.elapsed() < BY_PUSH, "{:?}", released.elapsed());
    next.release().await.unwrap();
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
    within(PATIENCE, look).await
}

/// Asserts that nobody else gets it, as far as the store can tell.
async fn nobody_else_gets_it(keeper: &Keeper, name: &str) {
    let tried = within(PATIENCE, keeper.mutex(name).unwrap().try_lock()).await;
    assert!(tried.is_ok_and(|guard| guard.is_none()), "it was given away");
}

/// Waits until a replica has everything that this master has acknowledged; the key of the mark is one that it serves.
pub(crate) fn until_replicated(master: &Redis, mark: &str) {
    let mut connection = master.connect().unwrap();
    ::redis::cmd("SET").arg(mark).arg("").exec(&mut connection).unwrap();
    let replicas: u32 = ::redis::cmd("WAIT").arg(1).arg(9000).query(&mut connection).unwrap();
    assert_eq!(replicas, 1, "the replica does not follow");
}
