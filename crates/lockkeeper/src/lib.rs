//! Distributed locks with fencing tokens.
#![forbid(unsafe_code)]

mod acquire;
mod admin;
pub mod backend;
mod builder;
pub mod duration;
mod engine;
mod error;
mod event;
pub mod fence;
mod finish;
mod guard;
mod info;
mod keeper;
mod kinds;
#[cfg(feature = "testing")]
pub mod layer;
mod name;
mod owner;
mod random;
mod runtime;
mod secret;
mod sequencer;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
mod token;
pub mod url;

pub use acquire::{Acquire, Acquiring, Outcome};
pub use admin::Admin;
#[cfg(all(feature = "file", target_os = "linux"))]
pub use backend::file::FileStore;
pub use backend::memory::MemoryStore;
pub use builder::KeeperBuilder;
pub use engine::SessionState;
pub use error::{Effect, Error, ErrorKind, Result};
pub use event::Event;
pub use guard::{Guard, Lost, LostReason, Release};
pub use info::{HolderInfo, LockInfo, WaiterInfo};
pub use keeper::{Keeper, SessionWatch, connect};
pub use kinds::Mutex;
pub use name::LockName;
pub use owner::Owner;
pub use secret::Secret;
pub use sequencer::{Mode, Sequencer};
pub use token::FencingToken;
