//! Clusters that redistribute their slots, masters that hand over or die, replicas that are gone:
//! the effect on locks.

mod clusters;
mod crossings;
pub(crate) mod demotions;
mod many_names;
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

use crate::support::{TIME_LIMIT, until_waiting, within};

/// A push comes at once. Without a push, a waiter finds its grant by its first renewal, 1.3 s after
/// its claim at the earliest.
const BY_PUSH: Duration = Duration::from_millis(1200);
/// A slow machine gets this many chances.
const PUSHES: usize = 20;

pub(crate) async fn keeper(url: &str, ttl: Duration) -> Keeper {
    Keeper::from_url(url).unwrap().ttl(ttl).connect().await.unwrap()
}

/// A waiter in line behind the holder.
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

/// Asserts that the present server pushes messages to waiters: the lock passes on sooner than any
/// waiter looks.
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

/// Renews until the state of the lock is known.
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

/// Asserts that no other client gets the lock, as far as the store knows.
async fn nobody_else_gets_it(keeper: &Keeper, name: &str) {
    let tried = within(TIME_LIMIT, keeper.mutex(name).unwrap().try_lock()).await;
    assert!(tried.is_ok_and(|guard| guard.is_none()), "it was given away");
}

/// Waits until a replica has all acknowledged writes of this master, which must serve the key of
/// the mark.
pub(crate) fn until_replicated(master: &Redis, mark: &str) {
    let mut connection = master.connect().unwrap();
    ::redis::cmd("SET").arg(mark).arg("").exec(&mut connection).unwrap();
    let replicas: u32 = ::redis::cmd("WAIT").arg(1).arg(9000).query(&mut connection).unwrap();
    assert_eq!(replicas, 1, "the replica does not follow");
}
