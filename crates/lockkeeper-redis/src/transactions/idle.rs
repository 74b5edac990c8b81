//! Keeps the connections of ended transactions for the next transactions.

use std::sync::Mutex;

use lockkeeper_core::sync::lock;

use crate::wire::{Link, WireError};

/// At most this many connections are kept.
const MOST: usize = 8;

/// Connections that watch nothing.
#[derive(Debug, Default)]
pub(crate) struct Idle(Mutex<Vec<Link>>);

impl Idle {
    /// A connection to the server of `main` for one transaction alone.
    pub(super) async fn take(&self, main: &Link) -> Result<Link, WireError> {
        let run = |link: &Link| link.run().and_then(|run| run.id);
        let is_there = |link: &Link| link.endpoint() == main.endpoint();
        let present = run(main);
        let kept = {
            let mut idle = lock(&self.0);
            // Others lead to a former server of this address, or to this one before a restart.
            idle.retain(|link| !is_there(link) || (present.is_some() && run(link) == present));
            idle.iter().position(is_there).map(|at| idle.swap_remove(at))
        };
        match kept {
            Some(link) => Ok(link),
            None => main.alone().await,
        }
    }

    /// Keeps a connection that watches nothing any more.
    pub(super) fn put_back(&self, link: Link) {
        let mut idle = lock(&self.0);
        idle.retain(Link::is_connected);
        idle.push(link);
        if idle.len() > MOST {
            idle.remove(0);
        }
    }
}
