//! Sentinels choose another master.

use std::future::IntoFuture;
use std::time::Duration;

use lockkeeper::{ErrorKind, FencingToken, Guard, Result};
use lockkeeper_live::Sentinel;
use tokio::task::JoinHandle;

use super::{is_still_held, keeper, nobody_else_gets_it, pushes_come, until_replicated, waiter};
use crate::support::{LONG, TIME_LIMIT, within};

/// Sentinels on a busy machine mistake a pause for a changed clock, and then do nothing for 30 s
/// (TILT).
const LEASE: Duration = Duration::from_secs(300);

/// One holds, one waits, and the master is another one now.
struct After {
    url: String,
    guard: Guard,
    waiting: JoinHandle<Result<Guard>>,
    name: &'static str,
}

impl After {
    /// If the holder still holds, no other client gets the lock until the release; else its guard
    /// knows of the loss. In either case the waiter gets the lock in the end, with a higher token,
    /// and the new master pushes messages to waiters.
    async fn it_goes_on(self) -> bool {
        let Self { url, guard, waiting, name } = self;
        let third = keeper(&url, LEASE).await;
        let (token, held) = (guard.token(), is_still_held(&guard).await);
        if held {
            guard.check().unwrap();
            let holders = third.inspect(name).await.unwrap().holders;
            assert_eq!(
                holders.iter().map(|holder| holder.token).collect::<Vec<_>>(),
                [Some(token)]
            );
            nobody_else_gets_it(&third, name).await;
            assert!(!waiting.is_finished(), "two have it");
            within(TIME_LIMIT, guard.release()).await.unwrap();
        } else {
            guard.check().unwrap_err();
            assert_eq!(
                within(TIME_LIMIT, guard.release()).await.unwrap_err().kind(),
                ErrorKind::Lost
            );
        }
        let next = within(TIME_LIMIT, waiting).await.unwrap().unwrap();
        assert!(next.token() > token, "{} after {token}", next.token());
        assert!(is_still_held(&next).await);
        pushes_come(&third, next).await;
        held
    }
}

/// The Sentinels have to elect another master, while the old one lives: twice, so that clients go
/// there and back. For a while there are two masters; the old master's late writes are lost, and
/// nothing depends on them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failover_by_command_keeps_the_lock_and_the_line() {
    let (sentinel, name) = (Sentinel::builder().down_after(LONG).start().unwrap(), "a-lock");
    let url = sentinel.url();
    let (holder, other) = (keeper(&url, LEASE).await, keeper(&url, LEASE).await);
    let mut last: Option<FencingToken> = None;
    for round in 0..2 {
        let guard =
            within(TIME_LIMIT, holder.mutex(name).unwrap().lock().into_future()).await.unwrap();
        assert!(last.is_none_or(|last| guard.token() > last), "tokens rise");
        last = Some(guard.token());
        let waiting = waiter(&other, name).await;
        until_replicated(&sentinel.servers()[round], "mark");
        assert_eq!(sentinel.fail_over().unwrap(), 1 - round);
        assert!(
            After { url: url.clone(), guard, waiting, name }.it_goes_on().await,
            "the replica had it"
        );
        sentinel.wait_until_settled().unwrap();
    }
}

/// The master is killed when its replica has everything: the holder keeps the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failover_after_a_kill_keeps_what_the_replica_has() {
    let (mut sentinel, name) = (Sentinel::start().unwrap(), "a-lock");
    let url = sentinel.url();
    let (holder, other) = (keeper(&url, LEASE).await, keeper(&url, LEASE).await);
    let guard = holder.mutex(name).unwrap().lock().await.unwrap();
    let waiting = waiter(&other, name).await;
    until_replicated(&sentinel.servers()[0], "mark");
    sentinel.server(0).kill().unwrap();
    sentinel.wait_for_other_master(0).unwrap();
    assert!(After { url, guard, waiting, name }.it_goes_on().await, "the replica had it");
}

/// The replica receives none of the changes, the grant and the line, and then the master is killed:
/// both are gone with it. The waiter joins the line again and gets the lock; the holder learns that
/// it has lost the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failover_that_loses_the_line_still_lets_the_waiter_in() {
    let (mut sentinel, name) = (Sentinel::start().unwrap(), "a-lock");
    let url = sentinel.url();
    let (holder, other) = (keeper(&url, LEASE).await, keeper(&url, LEASE).await);
    let before = holder.mutex(name).unwrap().lock().await.unwrap();
    before.release().await.unwrap();
    until_replicated(&sentinel.servers()[0], "mark");
    // The server is stopped, so that it does not come back at once when its connection ends.
    sentinel.server(1).pause().unwrap();
    sentinel.servers()[0].run(&["CLIENT", "KILL", "TYPE", "replica"]).unwrap();
    let guard = holder.mutex(name).unwrap().lock().await.unwrap();
    let waiting = waiter(&other, name).await;
    sentinel.server(0).kill().unwrap();
    sentinel.server(1).resume().unwrap();
    sentinel.wait_for_other_master(0).unwrap();
    assert!(!After { url, guard, waiting, name }.it_goes_on().await, "nobody has told the replica");
}

/// A replica with an eviction policy takes over: the store neither looks for a lock there nor
/// grants one, until the policy is corrected.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_master_with_an_eviction_policy_is_not_used_before_its_correction() {
    let sentinel = Sentinel::builder().down_after(LONG).start().unwrap();
    sentinel.servers()[1].set("maxmemory-policy", "allkeys-lru").unwrap();
    let keeper = keeper(&format!("{}?timeout=1s", sentinel.url()), LONG).await;
    keeper.mutex("before").unwrap().lock().await.unwrap().release().await.unwrap();
    assert_eq!(sentinel.fail_over().unwrap(), 1);
    let refused = async {
        loop {
            match keeper.mutex("a-lock").unwrap().try_lock().await {
                Ok(guard) => drop(guard),
                Err(error) if error.to_string().contains("allkeys-lru") => return error,
                Err(_) => {}
            }
        }
    };
    let error = within(TIME_LIMIT, refused).await;
    assert!(
        error.remedy().unwrap().starts_with("maxmemory-policy noeviction (by CONFIG SET"),
        "{error}"
    );
    let waiting = keeper.mutex("a-lock").unwrap().lock();
    sentinel.servers()[1].set("maxmemory-policy", "noeviction").unwrap();
    within(TIME_LIMIT, waiting).await.unwrap().release().await.unwrap();
}
