//! Waiting until replicas have what was granted, on a connection of its own: `WAIT` holds up everything behind it.
//!
//! `WAIT` speaks of the writes of its own connection only. So each round writes something itself: replicas take all
//! writes in one order, and whoever has that one has every grant that was answered before. One round is for all who
//! come while the one before is under way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;

use super::fault;
use super::layout::Keys;
use super::wire::{Endpoint, Link, Listener, Request, Settings, Value};
use crate::{Error, ErrorKind, Result};

/// How long what is written in each round stays.
const MARK_MS: &[u8] = b"60000";

/// How many replicas are to have a grant.
#[derive(Debug)]
pub(super) struct Replicas {
    needed: u32,
    settings: Arc<Settings>,
    masters: std::sync::Mutex<HashMap<Endpoint, Arc<Rounds>>>,
}

#[derive(Debug)]
struct Rounds {
    link: Link,
    /// How many have asked.
    asked: AtomicU64,
    /// Up to whom the last round was for, and how many replicas it found.
    turn: Mutex<(u64, u32)>,
}

#[derive(Debug)]
struct Deaf;

impl Listener for Deaf {
    fn pushed(&self, _: &[u8], _: &[u8]) {}
    fn subscribed(&self, _: &[u8]) {}
    fn unsubscribed(&self, _: &[u8]) {}
    fn disconnected(&self) {}
}

impl Replicas {
    pub(super) fn needed(needed: u32, settings: &Settings) -> Option<Self> {
        let settings = Settings { scripts: &[], ..settings.clone() };
        (needed > 0).then(|| Self { needed, settings: Arc::new(settings), masters: std::sync::Mutex::default() })
    }

    /// Waits until enough replicas of this master have what it has answered so far. The keys are ones that it has.
    ///
    /// # Errors
    /// `Unavailable`, of unknown effect: what was granted stands.
    pub(super) async fn have_it(&self, master: &Link, keys: &Keys) -> Result<()> {
        let rounds = self.rounds(master.endpoint());
        let mine = rounds.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut turn = rounds.turn.lock().await;
        if turn.0 < mine {
            let covers = rounds.asked.load(Ordering::SeqCst);
            *turn = (covers, rounds.round(keys, self.needed, self.settings.timeout).await?);
        }
        if turn.1 >= self.needed {
            return Ok(());
        }
        let problem = format!("{} of {} replicas have acknowledged the lock in time", turn.1, self.needed);
        Err(Error::new(ErrorKind::Unavailable, problem)
            .with_remedy("a look at the replicas, or a lower min-replicas")
            .with_unknown_effect())
    }

    fn rounds(&self, master: &Endpoint) -> Arc<Rounds> {
        let mut masters = self.masters.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let link = Link::open(master.clone(), Arc::clone(&self.settings), Arc::new(Deaf));
            Arc::new(Rounds { link, asked: AtomicU64::new(0), turn: Mutex::default() })
        };
        Arc::clone(masters.entry(master.clone()).or_insert_with(new))
    }
}

impl Rounds {
    /// How many replicas have what was written before this. It waits for half of the time that an answer may take.
    async fn round(&self, keys: &Keys, needed: u32, timeout: Duration) -> Result<u32> {
        let mark = [b"lk:{", keys.encoded(), b"}:r"].concat();
        let (needed, within) = (needed.to_string(), (timeout / 2).as_millis().to_string());
        let [written, found] = self.link.send_all([
            Request::command(&[b"SET", &mark, b"", b"PX", MARK_MS]),
            Request::command(&[b"WAIT", needed.as_bytes(), within.as_bytes()]),
        ]);
        let unknown = |error| fault::of(error).with_unknown_effect();
        // A server that is no master any more says so here.
        written.await.map_err(unknown)?;
        match found.await.map_err(unknown)? {
            Value::Int(found) => Ok(u32::try_from(found).unwrap_or_default()),
            _ => Err(Error::new(ErrorKind::Internal, "the server's answer to WAIT is no number").with_unknown_effect()),
        }
    }
}
