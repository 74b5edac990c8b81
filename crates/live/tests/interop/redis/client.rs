//! A contender behind proxies, which see what it asks for.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_live::{Act, Proxy};

use super::kind::{Kind, Servers};
use crate::contender::Tries;

/// A contender with a proxy of its own before each server.
pub(crate) struct Client {
    contender: Box<dyn Tries>,
    proxies: Vec<Proxy>,
}

impl Client {
    pub(crate) fn start(kind: Kind, servers: Servers, ttl: Duration) -> Self {
        let proxies: Vec<_> =
            servers.all().iter().map(|server| Proxy::resp(server.address()).unwrap()).collect();
        let addresses: Vec<SocketAddr> = proxies.iter().map(Proxy::address).collect();
        Self { contender: kind.start(&addresses, ttl), proxies }
    }

    /// Asks for a lock that another holds, and waits until the contender has been refused: until it
    /// asks again, or subscribes. The server knows its scripts from an earlier lock.
    pub(crate) fn wait_for(&mut self, name: &str) {
        let (requests, proxy) = (Arc::new(AtomicU64::new(0)), &self.proxies[0]);
        let (seen, of) = (Arc::clone(&requests), name.to_owned());
        proxy.on_request(move |message| {
            seen.fetch_add(u64::from(message.contains(&of)), Ordering::SeqCst);
            Act::Pass
        });
        self.contender.ask(name);
        proxy.wait_until(|_| requests.load(Ordering::SeqCst) > 1).unwrap();
    }

    /// Takes a lock that is free.
    pub(crate) fn take(&mut self, name: &str) -> String {
        self.ask(name);
        self.held()
    }

    pub(crate) fn die(self) {
        self.contender.die();
    }
}

impl Deref for Client {
    type Target = dyn Tries;

    fn deref(&self) -> &Self::Target {
        &*self.contender
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.contender
    }
}
