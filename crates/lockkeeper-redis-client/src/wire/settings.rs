//! The settings of all connections of a store, and the listener to their messages.

use std::fmt;
use std::time::Duration;

use super::request::Request;
use crate::Secret;
use crate::net::TlsSettings;

/// How to connect, and how long to wait.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The user of the access control list; `default` without.
    pub user: Option<String>,
    /// The password of the user.
    pub password: Option<Secret>,
    /// The number of the database.
    pub db: u32,
    /// The settings of TLS; `None` for a connection without it.
    pub tls: Option<TlsSettings>,
    /// Never ask for RESP3.
    pub resp2: bool,
    /// Connect to a Sentinel. Without this, refuse a Sentinel.
    pub sentinel: bool,
    /// Do not connect to a server that says that it is a replica.
    pub only_master: bool,
    /// The same after the first connection: a server to which the address leads later has to be a
    /// master.
    pub stays_master: bool,
    /// Make one connection and no other. When the connection is lost, or cannot be made, the link
    /// ends. Such a link has no channels.
    pub once: bool,
    /// Do not connect to a server that says that it makes room by forgetting keys.
    pub never_forgets: bool,
    /// Ask for the history of the server's data, by which replicas are known.
    pub asks_history: bool,
    /// The rights that the user needs. Each connection tries them before it is used.
    pub trials: Vec<Trial>,
    /// How long the oldest unanswered request may wait before the connection counts as dead, and
    /// how long a request may wait for a connection.
    pub timeout: Duration,
    /// How long the connection, TLS and the handshake may take together.
    pub connect_timeout: Duration,
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
            asks_history: false,
            trials: Vec::new(),
            timeout: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(3),
        }
    }
}

/// A command, and the request that tries it without a visible effect.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The command in the words of an access rule.
    pub word: &'static str,
    /// The request that tries the command.
    pub request: Request,
    /// A server without this command does not need it.
    pub may_be_unknown: bool,
}

/// Listens to the channels. The driver of the connection calls the listener, in the order of the
/// server's values. A call must not block, and may send.
pub trait Listener: Send + Sync + fmt::Debug {
    /// A message came.
    fn pushed(&self, channel: &[u8], payload: &[u8]);

    /// The subscription stands, for the first time or again. Earlier messages may be lost.
    fn subscribed(&self, channel: &[u8]);

    /// The server ended the subscription, or sent it elsewhere: the slot of a sharded channel has
    /// another node now.
    fn unsubscribed(&self, channel: &[u8]);

    /// The server refused the subscription: the user may not subscribe, or the server is busy. The
    /// link asks again, until [`subscribed`](Self::subscribed).
    fn refused(&self, channel: &[u8]) {
        self.unsubscribed(channel);
    }

    /// The connection for requests was made again: the server may be another one, or may have lost
    /// its data.
    fn reconnected(&self) {}

    /// No subscription stands until [`subscribed`](Self::subscribed).
    fn disconnected(&self) {}
}

/// The listener of a link without channels.
#[derive(Debug)]
pub(super) struct NoListener;

impl Listener for NoListener {
    fn pushed(&self, _: &[u8], _: &[u8]) {}
    fn subscribed(&self, _: &[u8]) {}
    fn unsubscribed(&self, _: &[u8]) {}
}
