//! Connections to Redis: one multiplexed connection to one server, with its requests in the order
//! in which they were sent, and its subscriptions. Whatever fails is tried again for ever; what was
//! lost is told to those who asked.
//!
//! `link` is what the rest of the store uses; `driver` is the task behind it. `state` is what the
//! two share: the order of the bytes (`queue`) and the channels (`channels`). `receive` gives each
//! request its answer: a reply that another request may be meant with ends the connection
//! (`nonce`).

mod answer;
mod channels;
mod decoder;
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

pub(crate) use redis::Value;

pub(crate) use self::answer::Answer;
pub(crate) use self::error::{
    FORGETFUL, HALF_WAY, IS_SENTINEL, LACKING, LACKS, NO_SERVER, Who, WireError, is_unknown_command,
};
pub(crate) use self::handshake::Server;
pub(crate) use self::link::Link;
pub(crate) use self::request::{Request, Script};
pub(crate) use self::settings::{Listener, Settings, Trial};
pub(crate) use crate::net::Endpoint;

#[cfg(test)]
pub(crate) mod tests;
