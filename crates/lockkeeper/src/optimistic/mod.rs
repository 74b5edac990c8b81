//! Optimistic locking: no client holds a lock. A client reads a value with its version, computes
//! the new value, and writes it if the version is still the same. If another client wrote first, it
//! begins again.
//!
//! This is the better way if the work between reading and writing is short and touches one value.
//! If the work is long, or has effects elsewhere, use a [lock](crate::Mutex).
//!
//! ```
//! use lockkeeper::optimistic::{MemoryRegister, Register, update};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> lockkeeper::Result<()> {
//! let register = MemoryRegister::new();
//! let sold = update(&register, "stock/42", async |old: Option<Vec<u8>>| {
//!     let count: u64 = old.and_then(|text| String::from_utf8(text).ok()?.parse().ok()).unwrap_or(7);
//!     (count - 1).to_string().into_bytes()
//! })
//! .await?;
//! assert_eq!(sold.value, b"6");
//! assert_eq!(register.load("stock/42").await?.map(|now| now.version), Some(sold.version));
//! # Ok(())
//! # }
//! ```
//!
//! | to do | look at |
//! |---|---|
//! | change a value | [`update`]; with a [`Policy`] of your own, or if the computation may fail, [`try_update`] |
//! | write on a version that a client has seen (an `If-Match`) | [`swap`] |
//! | repeat any optimistic attempt, for instance one with a version column of your own | [`retry`] |
//! | change several keys in Redis together (`WATCH`) | [`RedisStore::transactions`](crate::RedisStore::transactions) |
//! | keep registers | [`MemoryRegister`], `FileRegister` ([`FileStore::register`](crate::FileStore::register)) |
//! | write a register | [`Register`], and the suite in the crate `lockkeeper-testing` |
//!
//! # When no answer comes
//!
//! If the answer to a write is lost, the write may have been done, or may be done later. A client
//! that repeats the write blindly does it twice. So each [`Write`] has a random [`WriterId`] that
//! the register keeps beside the value, and an [`Outcome`] has three cases: `Done`, `Conflict`,
//! `Unknown`. After a lost answer the client reads the register again, and [`Fate`] says what the
//! client can know. The version that the write would make decides:
//!
//! - The register shows the id of this write at that version: the write was done, and later writes
//!   do not matter.
//! - The register shows another id at that version: the write was not done, and never will be,
//!   since a late copy finds another version.
//! - The register still has the version that the write expects: the write is not done so far. The
//!   client sends the *same* write again, with the same id. Of all copies, late ones too, the
//!   version lets at most one through.
//! - The register has a version so much later that it has forgotten the id: the write was done and
//!   replaced since, or never will be done. No client can find out any more, and the caller gets
//!   this as an error.
//!
//! The caller gets [`Effect::Unknown`](crate::Effect::Unknown) only if the register cannot be
//! reached for as long as the [`Policy`] allows, or if the register has forgotten the id. An open
//! write can be [settled](settle) later.

#[cfg(feature = "redis")]
pub mod redis;

#[cfg(feature = "etcd")]
pub use crate::backend::etcd::EtcdRegister;
#[cfg(all(feature = "file", target_os = "linux"))]
pub use crate::backend::file::FileRegister;
pub use crate::backend::memory::MemoryRegister;
#[cfg(feature = "redis")]
pub use crate::backend::redis::RedisRegister;
pub use crate::registers::{
    Fate, MAX_VALUE, Outcome, Policy, REMEMBERED, Register, Swap, Version, Versioned, Write,
    WriterId, check_key, check_write, retry, settle, swap, try_update, update,
};
