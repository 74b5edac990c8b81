//! Clients with tasks of tokio.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{SECOND, nanos};
use crate::order::{Go, Order};
use crate::trace::{self, Cycle, Log};
use anyhow::{Result, ensure};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::held::{self, Held};
use super::one_line;

/// A client of the server.
pub trait Client: Send + Sync + 'static {
    /// The locks of the client.
    type Lock: Lock;
    /// A lock for one task. `nth`: how many tasks of this client have asked for the same lock. If a
    /// lock belongs to a whole session, each task needs a session of its own.
    fn lock(&self, name: &str, nth: usize) -> impl Future<Output = Result<Self::Lock>> + Send;
    /// Whether several tasks may hold the same lock.
    const IS_SHARED: bool = false;
}

/// One lock of one task.
pub trait Lock: Send + Sync + 'static {
    /// The value that releases the lock.
    type Guard: Send + 'static;
    /// Waits for the lock.
    fn acquire(&self) -> impl Future<Output = Result<Self::Guard>> + Send;
    /// Releases the lock.
    fn release(&self, guard: Self::Guard, awaited: bool)
    -> impl Future<Output = Result<()>> + Send;
    /// Whether the lock is no longer held, as far as the client knows.
    fn is_lost(&self, guard: &Self::Guard) -> bool;
}

/// Obeys the orders until there are no more. The runtime goes on between two orders.
///
/// # Errors
///
/// The client cannot connect.
pub fn serve<C: Client>(threads: usize, connect: impl Future<Output = Result<C>>) -> Result<()> {
    let mut builder = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if threads > 1 {
        builder.worker_threads(threads);
    }
    builder.enable_all().build()?.block_on(async {
        let client = Arc::new(connect.await?);
        let mut held = Vec::new();
        println!("ready");
        let mut lines = lines();
        while let Some(line) = lines.recv().await {
            match obey(&client, &mut held, &line).await {
                Ok(answer) => println!("{answer}"),
                Err(error) => println!("failed: {}", one_line(&error)),
            }
        }
        Ok(())
    })
}

/// A thread that reads the standard input.
fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

async fn obey<C: Client>(
    client: &Arc<C>,
    held: &mut Vec<Held<C::Lock>>,
    line: &str,
) -> Result<String> {
    match line.parse()? {
        Order::Go(go) => {
            ensure!(go.clients == 1, "a process is one client");
            // The cycles run in a task, as in an application, and not in the future that `block_on`
            // polls.
            let cycles = tokio::spawn(all(client.clone(), go.clone())).await??;
            trace::write(go.trace.as_ref(), &cycles)?;
            Ok("done".to_owned())
        }
        Order::Hold(hold) => held::take(client, held, &hold).await,
        Order::Drop => held::give_back(held).await,
    }
}

async fn all<C: Client>(client: Arc<C>, go: Go) -> Result<Vec<Cycle>> {
    let mut tasks = JoinSet::new();
    for task in 0..go.tasks {
        let lock = client.lock(&go.name(0, task), if go.own { 0 } else { task }).await?;
        tasks.spawn(one(lock, go.clone()));
    }
    let mut cycles = Vec::new();
    while let Some(outcome) = tasks.join_next().await {
        cycles.extend(outcome??);
    }
    Ok(cycles)
}

async fn one<L: Lock>(lock: L, go: Go) -> Result<Vec<Cycle>> {
    let mut log = Log::new(0);
    let limit = Duration::from_nanos((go.end + go.limit).saturating_sub(nanos()));
    if let Ok(outcome) = timeout(limit, cycles(&lock, &go, &mut log)).await {
        outcome?;
    } else {
        log.stuck();
    }
    Ok(log.into_cycles())
}

async fn cycles<L: Lock>(lock: &L, go: &Go, log: &mut Log) -> Result<()> {
    // A timer is a file, and tasks that only wait need none.
    let timer = (go.every > 0 || go.hold > 0).then(Timer::new).transpose()?;
    let mut next = nanos();
    let mut begun = 0;
    while nanos() < go.end && (go.most == 0 || begun < go.most) {
        begun += 1;
        if let Some(timer) = timer.as_ref().filter(|_| go.every > 0) {
            next += go.every;
            timer.wait_until(next).await?;
        }
        log.ask();
        let guard = lock.acquire().await?;
        log.grant();
        if let Some(timer) = timer.as_ref().filter(|_| go.hold > 0) {
            timer.wait_until(nanos() + go.hold).await?;
        }
        log.give();
        lock.release(guard, go.awaited).await?;
        log.done();
    }
    Ok(())
}

/// Tokio's own timer has a resolution of one millisecond. A hold of 1 ms would take 1.5 ms, and 1
/// ms in other clients.
struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    fn new() -> Result<Self> {
        let fd = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
        #[expect(
            deprecated,
            reason = "it is sound for a descriptor that is owned, and its successor is unsafe"
        )]
        Ok(Self(AsyncFd::new(fd)?))
    }

    async fn wait_until(&self, at: u64) -> Result<()> {
        if at <= nanos() {
            return Ok(());
        }
        let at =
            Timespec { tv_sec: (at / SECOND).cast_signed(), tv_nsec: (at % SECOND).cast_signed() };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: at };
        rustix::time::timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once)?;
        let mut ready = self.0.readable().await?;
        let mut count = [0; 8];
        let _expirations = rustix::io::read(&self.0, &mut count)?;
        ready.clear_ready();
        Ok(())
    }
}
