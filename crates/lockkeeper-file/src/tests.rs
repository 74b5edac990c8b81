//! The store on real files. `Machine` is a folder with a database; every `Client` is a store opened
//! on it.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;

use super::boot::Boot;
use super::layout::times::micros;
use super::*;
use crate::FileStore;
use crate::store::{Broken, ClaimId, Evict, Evicted, LiveState, MAX, Meta, Renewal, Target};
use crate::time::{Clock, Instant};
use lockkeeper_core::Effect;

mod basics;
mod beliefs;
mod boot_ids;
mod boots;
mod deaths;
mod faults;
mod forks;
mod gates;
mod many;
mod opening;
mod power_cuts;
mod processes;
mod register;
mod rights;
mod users;
mod waiting;

const TTL: Duration = Duration::from_secs(30);

struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("locks.db")
    }

    async fn open(&self) -> FileStore {
        FileStore::new(self.path()).open().await.unwrap()
    }

    async fn client(&self) -> Client {
        self.client_with(SessionSpec::new(TTL, Duration::ZERO)).await
    }

    async fn client_with(&self, spec: SessionSpec) -> Client {
        Client::on(self.open().await, spec).await
    }
}

struct Client {
    store: FileStore,
    session: SessionId,
    spec: SessionSpec,
}

impl Client {
    async fn on(store: FileStore, spec: SessionSpec) -> Self {
        let session = SessionId::random();
        Store::open(&store, &session, &spec).await.unwrap();
        Self { store, session, spec }
    }

    fn key(&self, name: &str) -> ClaimKey {
        ClaimKey {
            name: name.parse().unwrap(),
            session: self.session.clone(),
            id: ClaimId::random(),
        }
    }

    /// An exclusive claim that joins the line.
    fn mutex(&self, name: &str) -> Claim {
        let meta = Meta { owner: "tester".into(), ..Meta::default() };
        Claim { meta, ..Claim::exclusive(self.key(name), &self.spec) }
    }

    fn read(&self, name: &str) -> Claim {
        Claim { weight: 1, ..self.mutex(name) }
    }

    fn r#try(&self, name: &str) -> Claim {
        Claim { queue: false, ..self.mutex(name) }
    }

    async fn granted(&self, claim: &Claim) -> u64 {
        match self.store.claim(claim).await.unwrap() {
            Verdict::Granted { token, .. } => token,
            other => panic!("{other:?}"),
        }
    }

    async fn queued(&self, claim: &Claim) -> (u32, Revision, Duration) {
        match self.store.claim(claim).await.unwrap() {
            Verdict::Queued { ahead, seen, look_again } => (ahead, seen, look_again),
            other => panic!("{other:?}"),
        }
    }

    async fn renew(&self, live: &[(&Claim, LiveState)]) -> Result<Vec<Renewal>> {
        let live: Vec<Live> = live
            .iter()
            .map(|(claim, state)| Live { key: claim.key.clone(), state: *state })
            .collect();
        self.store.renew(&self.session, &live).await.map(|renewed| renewed.claims)
    }

    async fn withdraw(&self, claim: &Claim) -> Withdrawal {
        self.store.withdraw(&claim.key, None).await.unwrap()
    }

    async fn wait(&self, claim: &Claim, within: Duration) -> Wake {
        self.store.wait(Interest::Claim(&claim.key), Revision(0), within).await.unwrap()
    }
}

/// The names that a list shows.
async fn names(store: &FileStore, prefix: &str) -> Vec<LockName> {
    store.lines(prefix, None, 10).await.unwrap().into_iter().map(|(name, _)| name).collect()
}

fn name(name: &str) -> LockName {
    name.parse().unwrap()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A session with a short ttl. A test can see its end, and the ttl is long enough for a machine
/// that stood still.
fn short() -> SessionSpec {
    SessionSpec::new(ms(3000), Duration::ZERO)
}

/// Reports that a test, or a part of a test, cannot run here. The report goes to the program's own
/// stderr, which is also shown for passing tests.
fn left_out(why: &str) {
    use std::io::Write;

    let test = std::thread::current().name().unwrap_or_default().to_owned();
    writeln!(std::io::stderr(), "left out: {test}: {why}").unwrap();
}

fn clock() -> Instant {
    Clock::boot().now()
}

fn since(start: Instant) -> Duration {
    clock().saturating_since(start)
}
