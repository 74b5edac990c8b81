//! The real servers under the tests of the program.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use lockkeeper::RedisStore;
use lockkeeper::store::{Evict, Evicted, Store as _, Target};
use lockkeeper_live::{Redis, lockkeeper_binary};

#[allow(dead_code, reason = "what only other tests of the program need")]
#[path = "../../../lockkeeper-cli/tests/it/client.rs"]
mod client;

pub(crate) use self::client::*;

/// How long a killed holder may keep its lock: the ttl of 30 s, and the delay of a busy machine.
pub(crate) const FREE_AFTER_DEATH: Duration = Duration::from_secs(45);

/// Whether a holder learns at once that its lock was broken.
pub(crate) const REPORTS_LOSSES: bool = true;

/// The program.
pub(crate) fn binary() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| lockkeeper_binary().unwrap())
}

/// Empty servers that no test uses now.
static IDLE: Mutex<Vec<Redis>> = Mutex::new(Vec::new());

/// A store on a server that no other test uses meanwhile.
pub(crate) struct Store {
    client: Client,
    server: Mutex<Option<Redis>>,
    /// Whether another test may have the server next.
    plain: bool,
}

impl Deref for Store {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Store {
    pub(crate) fn new() -> Self {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut store = Self::on(idle.unwrap_or_else(|| Redis::start().unwrap()));
        store.plain = true;
        store
    }

    /// A store on this server, which ends with the store.
    pub(crate) fn on(server: Redis) -> Self {
        let client = Client::new(&server.url(), tempfile::tempdir().unwrap());
        Self { client, server: Mutex::new(Some(server)), plain: false }
    }

    /// Breaks the lock of the holder with this token.
    pub(crate) fn break_lock(&self, name: &str, token: u64, how: Evict) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let evicted = runtime.block_on(async {
            let store = RedisStore::from_url(&self.url().parse().unwrap())
                .unwrap()
                .connect()
                .await
                .unwrap();
            let admin = store.admin().unwrap();
            let (name, target) = (name.parse().unwrap(), Target::Token(token));
            admin.evict(&name, &target, how, "ops", "a test").await.unwrap()
        });
        assert_eq!(evicted, Evicted::Done);
    }

    /// Keeps the store from answering until the result is dropped.
    pub(crate) fn outage(&self) -> Outage<'_> {
        self.with_server(|server| server.pause().unwrap());
        Outage(self)
    }

    /// Runs a closure on the server.
    pub(crate) fn with_server<T>(&self, act: impl FnOnce(&mut Redis) -> T) -> T {
        act(self.server().as_mut().unwrap())
    }

    fn server(&self) -> MutexGuard<'_, Option<Redis>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // The server of a failed test, or of a special kind, is not for other tests.
        let server = self.server().take().filter(|_| !std::thread::panicking() && self.plain);
        if let Some(server) = server.filter(|server| server.run(&["FLUSHALL"]).is_ok()) {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(server);
        }
    }
}

/// The server is stopped.
pub(crate) struct Outage<'a>(&'a Store);

impl Drop for Outage<'_> {
    fn drop(&mut self) {
        self.0.with_server(|server| server.resume().unwrap());
    }
}
