//! The common parts of the crate `lockkeeper` and its stores: the contract of a store, values,
//! errors and URLs.
//!
//! Programs that use locks depend on `lockkeeper`, which re-exports all of this under the same
//! paths. A crate with a store of its own may depend on this crate alone.
//!
//! Modules outside of the documentation are for lockkeeper's own crates. They may change in any
//! version.
#![forbid(unsafe_code)]

pub mod duration;
mod error;
mod lost_reason;
#[doc(hidden)]
pub mod marks;
#[doc(hidden)]
pub mod name;
#[cfg(feature = "net")]
#[doc(hidden)]
pub mod net;
mod open;
mod owner;
#[doc(hidden)]
pub mod random;
pub mod registers;
#[doc(hidden)]
pub mod runtime;
mod secret;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod seeded;
mod sequencer;
#[doc(hidden)]
pub mod serial;
pub mod store;
pub mod time;
#[cfg(feature = "net")]
mod tls;
mod token;
pub mod url;

pub use error::{Effect, Error, ErrorKind, Result};
pub use lost_reason::LostReason;
pub use name::LockName;
pub use open::Open;
pub use owner::Owner;
pub use secret::Secret;
pub use sequencer::{Mode, Sequencer};
#[cfg(feature = "net")]
pub use tls::Tls;
pub use token::FencingToken;
