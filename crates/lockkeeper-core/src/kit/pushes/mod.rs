//! For stores whose servers push: the waiters of claims and names, and the pushes about them.

mod claims;
mod names;

pub use self::claims::{Known, Sent, WaitingClaims};
pub use self::names::{WatchedNames, Watching};
