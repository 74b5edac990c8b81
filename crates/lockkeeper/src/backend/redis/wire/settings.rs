//! What all connections of a store have in common, and who hears of their messages.

use std::fmt;
use std::time::Duration;

use super::request::Script;
use crate::Secret;
use crate::net::TlsSettings;

/// How to connect, and how patient to be.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The user of the access control list; `default` without.
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) db: u32,
    pub(crate) tls: Option<TlsSettings>,
    /// Never ask for RESP3.
    pub(crate) resp2: bool,
    /// Do not connect to a server that says that it is a replica.
    pub(crate) only_master: bool,
    /// One connection and no other: when it is lost, or cannot be made, nothing is sent any more. Such a link has no
    /// channels.
    pub(crate) once: bool,
    /// Do not connect to a server that says that it makes room by forgetting keys.
    pub(crate) never_forgets: bool,
    /// How long the oldest unanswered request may wait before the connection counts as dead, and a request for a
    /// connection.
    pub(crate) timeout: Duration,
    /// For the connection, TLS, and the first words.
    pub(crate) connect_timeout: Duration,
    /// What the server calls the connection (`CLIENT LIST`). Without spaces.
    pub(crate) client_name: String,
    /// What each connection loads before anything else.
    pub(crate) scripts: &'static [&'static Script],
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            user: None,
            password: None,
            db: 0,
            tls: None,
            resp2: false,
            only_master: false,
            once: false,
            never_forgets: false,
            timeout: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(3),
            client_name: "lockkeeper".to_owned(),
            scripts: &[],
        }
    }
}

/// Hears of the channels. Called by the driver of the connection, in the order in which the server said it; must not
/// block, and may send.
pub(crate) trait Listener: Send + Sync + fmt::Debug {
    /// A message came.
    fn pushed(&self, channel: &[u8], payload: &[u8]);

    /// The subscription stands, for the first time or again: what was published before may have been missed.
    fn subscribed(&self, channel: &[u8]);

    /// The server ended the subscription, or refused it: a sharded channel whose slot is elsewhere now, or one that
    /// the user may not hear.
    fn unsubscribed(&self, channel: &[u8]);

    /// No subscription stands until [`subscribed`](Self::subscribed).
    fn disconnected(&self);
}

/// Of a link without channels.
#[derive(Debug)]
pub(super) struct Deaf;

impl Listener for Deaf {
    fn pushed(&self, _: &[u8], _: &[u8]) {}
    fn subscribed(&self, _: &[u8]) {}
    fn unsubscribed(&self, _: &[u8]) {}
    fn disconnected(&self) {}
}
