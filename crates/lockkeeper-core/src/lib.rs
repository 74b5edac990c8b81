//! The common parts of the crate `lockkeeper` and its stores: the contract of a store, values,
//! errors and URLs.
//!
//! Programs that use locks depend on `lockkeeper`, which re-exports all of this under the same
//! paths. A crate with a store of its own may depend on this crate alone.
//!
//! Modules outside of the documentation are for lockkeeper's own crates. They may change in any
//! version.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod kit;
#[doc(hidden)]
pub mod marks;
mod open;
pub mod registers;
pub mod store;
#[doc(hidden)]
pub mod sync;
pub mod time;
pub mod url;
mod value;

#[cfg(feature = "testing")]
use kit::seeded;
use kit::{random, runtime};
pub use open::Open;
#[cfg(feature = "net")]
pub use value::Tls;
#[doc(hidden)]
pub use value::name;
pub use value::{
    Effect, Error, ErrorKind, FencingToken, LockName, LostReason, Mode, Owner, Result, Secret,
    Sequencer, duration,
};
