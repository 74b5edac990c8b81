//! Optimistic locking: nobody holds anything. Read a value with its version, compute the new one, and write it if the
//! version is still the same; if somebody else was faster, begin again.
//!
//! It is the better way where the work between reading and writing is short and touches one value. Where it is long, or
//! has effects elsewhere, a [lock](crate::Mutex) is.
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
//! | change a value | [`update`]; with a [`Policy`] of your own, or where the computation may fail, [`try_update`] |
//! | write on a version that somebody has seen (an `If-Match`) | [`swap`] |
//! | repeat any optimistic attempt, for instance one with a version column of your own | [`retry`] |
//! | change several keys in Redis together (`WATCH`) | [`RedisStore::transactions`](crate::RedisStore::transactions) |
//! | keep registers | [`MemoryRegister`], `FileRegister` ([`FileStore::register`](crate::FileStore::register)) |
//! | write a register | [`Register`], and the suite in `testing` (feature `testing`) |
//!
//! # When no answer comes
//!
//! A write whose answer got lost may have been done, or may be done later. Whoever repeats it blindly does it twice; so
//! each [`Write`] has a random [`WriterId`], which is kept beside the value, and an [`Outcome`] has three cases: `Done`,
//! `Conflict`, `Unknown`. After a lost answer the register is read back, and [`Fate`] says what can be known:
//!
//! - our id at the version that the write would make: it was done, whatever has come on top of it;
//! - another id there: it was not done, and never will be, since a copy that comes late finds another version;
//! - the version that it was to replace: not done so far. Now the *same* write is sent again, with the same id. Of all
//!   its copies, the late ones too, the version lets at most one through;
//! - a version so much later that the register has forgotten who wrote ours: it was done and built upon, or never will
//!   be. Nobody can tell any more, and that is what the caller is told.
//!
//! Only where the register cannot be reached for as long as the [`Policy`] allows, or has forgotten, the caller gets
//! [`Effect::Unknown`](crate::Effect::Unknown). What is open then can be [settled](settle) later.

mod fate;
mod policy;
#[cfg(feature = "redis")]
pub mod redis;
mod register;
mod retry;
mod swap;
mod update;
mod version;

pub use self::fate::Fate;
pub use self::policy::Policy;
#[cfg(feature = "redis")]
pub(crate) use self::policy::Tries;
pub use self::register::{MAX_VALUE, Register, Swap, check_key, check_write};
#[cfg(feature = "blocking")]
pub(crate) use self::retry::after;
pub use self::retry::{Outcome, retry};
pub use self::swap::{settle, swap};
pub use self::update::{try_update, update};
pub use self::version::{REMEMBERED, Version, Versioned, Write, WriterId};
#[cfg(feature = "etcd")]
pub use crate::backend::etcd::EtcdRegister;
#[cfg(all(feature = "file", target_os = "linux"))]
pub use crate::backend::file::FileRegister;
pub use crate::backend::memory::MemoryRegister;
#[cfg(feature = "redis")]
pub use crate::backend::redis::RedisRegister;
