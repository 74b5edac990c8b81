//! Registers: values with versions. Stores keep them, and users reach them through
//! `lockkeeper::optimistic`.

mod fate;
mod policy;
mod register;
mod retry;
mod swap;
mod update;
mod version;

pub use self::fate::Fate;
pub use self::policy::Policy;
#[doc(hidden)]
pub use self::policy::Tries;
pub use self::register::{MAX_VALUE, Register, Swap, check_key, check_write};
pub use self::retry::{Outcome, retry};
pub use self::swap::{settle, swap};
pub use self::update::{try_update, update};
pub use self::version::{REMEMBERED, Version, Versioned, Write, WriterId};
