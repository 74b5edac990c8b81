//! Distributed locks with fencing tokens.
#![forbid(unsafe_code)]

pub mod backend;
pub mod duration;
mod error;
pub mod fence;
mod guard;
mod name;
mod owner;
mod random;
mod secret;
mod sequencer;
pub mod store;
pub mod time;
mod token;
pub mod url;

pub use backend::memory::MemoryStore;
pub use error::{Effect, Error, ErrorKind, Result};
pub use guard::LostReason;
pub use name::LockName;
pub use owner::Owner;
pub use secret::Secret;
pub use sequencer::{Mode, Sequencer};
pub use token::FencingToken;
