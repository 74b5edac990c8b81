//! For stores whose servers push: who waits for a claim or a name, and what was pushed about it.

mod claims;
mod names;

pub use self::claims::{Known, Sent, WaitingClaims};
pub use self::names::{WatchedNames, Watching};
