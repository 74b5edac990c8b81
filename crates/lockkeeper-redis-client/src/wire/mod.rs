//! Connections to Redis: one multiplexed connection to one server, with its requests in the order
//! of sending, and its subscriptions. The link makes a lost connection again for ever. A lost
//! request fails with what is known about its effect.
//!
//! The rest of the store uses `link`, and `driver` is the task behind it. The two share `state`:
//! the order of the bytes (`queue`) and the channels (`channels`). `life` has the ways in which
//! requests, connections and links end. `receive` gives each request its answer. A reply that may
//! belong to another request ends the connection (`nonce`).

mod answer;
mod channels;
pub(crate) mod decoder;
mod driver;
mod error;
mod handshake;
mod life;
mod link;
mod nonce;
mod queue;
mod receive;
mod request;
mod settings;
mod state;
mod transport;

pub use redis::Value;

pub use self::answer::Answer;
pub use self::error::{
    FORGETFUL, HALF_WAY, IS_SENTINEL, LACKING, LACKS, NO_SERVER, Who, WireError, is_unknown_command,
};
pub use self::handshake::{listed, text};
pub use self::link::{Link, Run};
pub use self::request::{Request, Script};
pub use self::settings::{Listener, Settings, Trial};
pub use crate::net::Endpoint;

#[cfg(test)]
mod tests;
