//! lockkeeper, in the layout of the foreign clients.

use std::time::Duration;

use lockkeeper::{Guard, Keeper, Result};
use lockkeeper_live::{Control, Etcd};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, block_in_place};

use super::kind::TTL;
use crate::contender::Contender;

/// A keeper of its own, on a runtime of its own.
pub(crate) struct Us {
    runtime: Runtime,
    keeper: Keeper,
    control: Control,
    asked: Option<JoinHandle<Result<Guard>>>,
    guard: Option<Guard>,
    counting: Option<JoinHandle<()>>,
}

impl Us {
    pub(crate) fn new(etcd: &Etcd) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let url = format!("{}?layout=concurrency", etcd.url());
        let ttl = Duration::from_secs(TTL.into());
        let keeper = runtime.block_on(Keeper::from_url(&url).unwrap().ttl(ttl).connect()).unwrap();
        Self {
            runtime,
            keeper,
            control: etcd.control().clone(),
            asked: None,
            guard: None,
            counting: None,
        }
    }

    /// Whether the keeper gets the lock at once; it releases the lock again.
    pub(crate) fn gets_at_once(&self, name: &str) -> bool {
        self.runtime.block_on(async {
            let Some(guard) = self.keeper.mutex(name).unwrap().try_lock().await.unwrap() else {
                return false;
            };
            guard.release().await.unwrap();
            true
        })
    }
}

impl Contender for Us {
    fn ask(&mut self, name: &str) {
        self.asked =
            Some(self.runtime.spawn(self.keeper.mutex(name).unwrap().lock().into_future()));
    }

    fn held(&mut self) -> String {
        let guard = self.runtime.block_on(self.asked.take().unwrap()).unwrap().unwrap();
        // The token orders all of them: it is the revision that created the key.
        let line = self.control.keys(format!("{}/", guard.full_name())).unwrap();
        let ours = line
            .into_iter()
            .find(|entry| i128::from(entry.create_revision) == i128::from(guard.token().get()));
        self.guard = Some(guard);
        String::from_utf8(ours.unwrap().key).unwrap()
    }

    fn has_answered(&mut self) -> bool {
        self.asked.as_ref().unwrap().is_finished()
    }

    fn release(&mut self) {
        self.runtime.block_on(self.guard.take().unwrap().release()).unwrap();
    }

    fn count(&mut self, name: &str, counter: &str, times: u32) {
        let (mutex, control, counter) =
            (self.keeper.mutex(name).unwrap(), self.control.clone(), counter.to_owned());
        self.counting = Some(self.runtime.spawn(async move {
            for _ in 0..times {
                let guard = mutex.lock().await.unwrap();
                block_in_place(|| {
                    let count =
                        String::from_utf8(control.get(&counter).unwrap().unwrap().value).unwrap();
                    control.put(&counter, (count.parse::<u32>().unwrap() + 1).to_string()).unwrap();
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
