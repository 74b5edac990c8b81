//! The compared clients.

use compare_common::runner::{Kind, Program};

pub(crate) const RAW: Kind = Kind::new("raw", "raw transactions", Program::Rust);
pub(crate) const LOCKKEEPER: Kind = Kind::new("lockkeeper", "**lockkeeper**", Program::Rust);
pub(crate) const SHARED: Kind =
    Kind::new("lockkeeper-concurrency", "**lockkeeper**, `layout=concurrency`", Program::Rust);
pub(crate) const SESSIONS: Kind =
    Kind::new("lockkeeper-sessions", "**lockkeeper**, a session for each", Program::Rust);
pub(crate) const SHARED_SESSIONS: Kind = Kind::new(
    "lockkeeper-concurrency-sessions",
    "**lockkeeper**, `layout=concurrency`, a session for each",
    Program::Rust,
);
pub(crate) const GO: Kind = Kind::new("go", "Go `concurrency.Mutex`", Program::Go);
pub(crate) const V3LOCK: Kind = Kind::new("v3lock", "v3lock by etcd-client", Program::Rust);
pub(crate) const JETCD: Kind = Kind::new("jetcd", "jetcd", Program::Java);

/// The clients that wait for a lock, lockkeeper first.
pub(crate) const LOCKS: [Kind; 5] = [LOCKKEEPER, SHARED, GO, V3LOCK, JETCD];
pub(crate) const PEERS: [Kind; 3] = [GO, V3LOCK, JETCD];
