//! lockkeeper, in the layout of a foreign client.

use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper::{Acquire, Guard, Keeper, Result};
use redis::TypedCommands as _;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, block_in_place};

use crate::contender::{Contender, Tries};

/// How lockkeeper takes the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Exclusive,
    Read,
    Write,
    /// One permit of so many.
    Permit(u32),
}

/// A keeper of its own, on a runtime of its own.
pub(crate) struct Us {
    runtime: Runtime,
    keeper: Keeper,
    mode: Mode,
    /// Has the counters.
    redis: redis::Client,
    asked: Option<JoinHandle<Result<Guard>>>,
    guard: Option<Guard>,
    counting: Option<JoinHandle<()>>,
}

impl Us {
    pub(crate) fn new(addresses: &[SocketAddr], layout: &str, mode: Mode, ttl: Duration) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let url = url(layout, addresses);
        let keeper = runtime.block_on(Keeper::from_url(&*url).unwrap().ttl(ttl).connect()).unwrap();
        let redis = redis::Client::open(format!("redis://{}", addresses[0])).unwrap();
        Self { runtime, keeper, mode, redis, asked: None, guard: None, counting: None }
    }
}

/// The layout `redlock` is that of a store of its own. The watchdog of Redisson has the ttl of the
/// test, which is at most a minute.
pub(super) fn url(layout: &str, addresses: &[SocketAddr]) -> String {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    match layout {
        "redlock" => format!("redlock://{}", addresses.join(",")),
        "redisson-rw" => format!("redis://{}?layout={layout}&watchdog=60s", addresses[0]),
        _ => format!("redis://{}?layout={layout}", addresses[0]),
    }
}

/// The lock of this name, or a permit of it.
fn lock(keeper: &Keeper, mode: Mode, name: &str) -> Acquire<Guard> {
    match mode {
        Mode::Exclusive => keeper.mutex(name).unwrap().lock(),
        Mode::Read => keeper.rw_lock(name).unwrap().read(),
        Mode::Write => keeper.rw_lock(name).unwrap().write(),
        Mode::Permit(of) => keeper.semaphore(name, of).unwrap().acquire(),
    }
}

fn try_lock(keeper: &Keeper, mode: Mode, name: &str) -> Acquire<Option<Guard>> {
    match mode {
        Mode::Exclusive => keeper.mutex(name).unwrap().try_lock(),
        Mode::Read => keeper.rw_lock(name).unwrap().try_read(),
        Mode::Write => keeper.rw_lock(name).unwrap().try_write(),
        Mode::Permit(of) => keeper.semaphore(name, of).unwrap().try_acquire(),
    }
}

impl Contender for Us {
    fn ask(&mut self, name: &str) {
        let asking = lock(&self.keeper, self.mode, name);
        self.asked = Some(self.runtime.spawn(asking.into_future()));
    }

    fn held(&mut self) -> String {
        let guard = self.runtime.block_on(self.asked.take().unwrap()).unwrap().unwrap();
        let said = format!("{} {}", guard.full_name(), guard.token().get());
        self.guard = Some(guard);
        said
    }

    fn has_answered(&mut self) -> bool {
        self.asked.as_ref().unwrap().is_finished()
    }

    fn release(&mut self) {
        self.runtime.block_on(self.guard.take().unwrap().release()).unwrap();
    }

    fn count(&mut self, name: &str, counter: &str, times: u32) {
        let (keeper, mode) = (self.keeper.clone(), self.mode);
        let mut redis = self.redis.get_connection().unwrap();
        let (name, counter) = (name.to_owned(), counter.to_owned());
        self.counting = Some(self.runtime.spawn(async move {
            for _ in 0..times {
                let guard = lock(&keeper, mode, &name).await.unwrap();
                block_in_place(|| {
                    let count = redis.get_int(&counter).unwrap().unwrap();
                    redis.set(&counter, count + 1).unwrap();
                });
                guard.release().await.unwrap();
            }
        }));
    }

    fn counted(&mut self) {
        self.runtime.block_on(self.counting.take().unwrap()).unwrap();
    }

    fn die(self: Box<Self>) {
        let Self { runtime, keeper, asked, guard, .. } = *self;
        // Their drops do not run, and no renewal follows.
        std::mem::forget((keeper, asked, guard));
        runtime.shutdown_background();
    }
}

impl Tries for Us {
    fn takes_at_once(&mut self, name: &str) -> bool {
        let trying = try_lock(&self.keeper, self.mode, name).into_future();
        self.guard = self.runtime.block_on(trying).unwrap();
        self.guard.is_some()
    }

    fn extend(&mut self) {
        panic!("lockkeeper renews what it holds");
    }
}
