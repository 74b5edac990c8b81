//! Small values, which the crate shows at its root.

pub mod duration;
mod error;
mod lost_reason;
#[doc(hidden)]
pub mod name;
mod owner;
mod secret;
mod sequencer;
#[cfg(feature = "net")]
mod tls;
mod token;

pub use self::error::{Effect, Error, ErrorKind, Result};
pub use self::lost_reason::LostReason;
pub use self::name::LockName;
pub use self::owner::Owner;
pub use self::secret::Secret;
pub use self::sequencer::{Mode, Sequencer};
#[cfg(feature = "net")]
pub use self::tls::Tls;
pub use self::token::FencingToken;
