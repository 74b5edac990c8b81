//! Keeps the connections of ended transactions for the next transactions.

use std::sync::Mutex;

use lockkeeper_core::sync::lock;

use super::super::wire::{Link, WireError};

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
        loop {
            let idle =
                self.change(|idle| idle.iter().position(is_there).map(|at| idle.swap_remove(at)));
            match idle {
                None => return main.alone().await,
                Some(link) if present.is_some() && run(&link) == present => return Ok(link),
                // The address leads to another server by now, or to the same one after a restart.
                Some(_former) => {}
            }
        }
    }

    /// Keeps a connection that watches nothing any more.
    pub(super) fn put_back(&self, link: Link) {
        let _oldest = self.change(|idle| {
            idle.push(link);
            (idle.len() > MOST).then(|| idle.remove(0))
        });
    }

    /// Connections are closed outside of the lock.
    fn change(&self, change: impl FnOnce(&mut Vec<Link>) -> Option<Link>) -> Option<Link> {
        let mut idle = lock(&self.0);
        idle.retain(Link::is_connected);
        change(&mut idle)
    }
}
