//! What all connections of a store have in common, and the listener for their messages.

use std::fmt;
use std::time::Duration;

use super::request::Request;
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
    /// It is a Sentinel that is to be asked. Elsewhere do not connect to one.
    pub(crate) sentinel: bool,
    /// Do not connect to a server that says that it is a replica.
    pub(crate) only_master: bool,
    /// The same once it was connected to a server: what it leads to later (an address that moved)
    /// is a master.
    pub(crate) stays_master: bool,
    /// One connection and no other: when it is lost, or cannot be made, nothing is sent any more.
    /// Such a link has no channels.
    pub(crate) once: bool,
    /// Do not connect to a server that says that it makes room by forgetting keys.
    pub(crate) never_forgets: bool,
    /// What the user has to be allowed: each connection tries it before it is used.
    pub(crate) trials: Vec<Trial>,
    /// How long the oldest unanswered request may wait before the connection counts as dead, and a
    /// request for a connection.
    pub(crate) timeout: Duration,
    /// For the connection, TLS, and the first words.
    pub(crate) connect_timeout: Duration,
    /// What the server calls the connection (`CLIENT LIST`). Without spaces.
    pub(crate) client_name: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            user: None,
            password: None,
            db: 0,
            tls: None,
            resp2: false,
            sentinel: false,
            only_master: false,
            stays_master: false,
            once: false,
            never_forgets: false,
            trials: Vec::new(),
            timeout: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(3),
            client_name: "lockkeeper".to_owned(),
        }
    }
}

/// A command, and how it is tried without doing anything that anybody could see.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) word: &'static str,
    pub(crate) request: Request,
    /// A server without this command does not need it.
    pub(crate) may_be_unknown: bool,
}

/// Listens to the channels. Called by the driver of the connection, in the order in which the
/// server said it; must not block, and may send.
pub(crate) trait Listener: Send + Sync + fmt::Debug {
    /// A message came.
    fn pushed(&self, channel: &[u8], payload: &[u8]);

    /// The subscription stands, for the first time or again: what was published before may have
    /// been missed.
    fn subscribed(&self, channel: &[u8]);

    /// The server ended the subscription, or sent it elsewhere: the slot of a sharded channel has
    /// another node now.
    fn unsubscribed(&self, channel: &[u8]);

    /// The server refused the subscription: the user may not hear it, or the server is busy. It is
    /// asked again, until [`subscribed`](Self::subscribed).
    fn refused(&self, channel: &[u8]) {
        self.unsubscribed(channel);
    }

    /// The connection for requests was made again: the server may be another one, or may have
    /// forgotten what it had.
    fn reconnected(&self) {}

    /// No subscription stands until [`subscribed`](Self::subscribed).
    fn disconnected(&self);
}

/// Of a link without channels.
#[derive(Debug)]
pub(super) struct NoListener;

impl Listener for NoListener {
    fn pushed(&self, _: &[u8], _: &[u8]) {}
    fn subscribed(&self, _: &[u8]) {}
    fn unsubscribed(&self, _: &[u8]) {}
    fn disconnected(&self) {}
}
