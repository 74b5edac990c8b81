//! Waiting until replicas have what was granted, on a connection of its own: `WAIT` holds up everything behind it.
//!
//! `WAIT` speaks of the writes of its own connection only. So each round writes something itself: replicas take all
//! writes in one order, and whoever has that one has every grant that was answered before. One round is for all who
//! come while the one before is under way. Without its write a `WAIT` would say nothing, so neither goes to another
//! connection alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use tokio::sync::Mutex;

use super::fault;
use super::layout::Keys;
use super::wire::{Endpoint, Link, Request, Value};
use crate::{Error, ErrorKind, Result};

/// How long what is written in each round stays.
const MARK_MS: &[u8] = b"60000";

/// How many replicas are to have a grant.
#[derive(Debug)]
pub(super) struct Replicas {
    needed: u32,
    masters: std::sync::Mutex<HashMap<Endpoint, Arc<Rounds>>>,
}

#[derive(Debug, Default)]
struct Rounds {
    /// How many have asked.
    asked: AtomicU64,
    turn: Mutex<Turn>,
}

/// The last round.
#[derive(Debug, Default)]
struct Turn {
    /// Up to whom it was for.
    covers: u64,
    /// How many replicas it found.
    found: u32,
    link: Option<Link>,
}

impl Replicas {
    pub(super) fn needed(needed: u32) -> Option<Self> {
        (needed > 0).then(|| Self { needed, masters: std::sync::Mutex::default() })
    }

    /// Waits until enough replicas of this master have what it has answered so far. The keys are ones that it has.
    ///
    /// # Errors
    /// `Unavailable`, of unknown effect: what was granted stands.
    pub(super) async fn have_it(&self, master: &Link, keys: &Keys) -> Result<()> {
        let rounds = self.rounds(master.endpoint());
        let mine = rounds.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut turn = rounds.turn.lock().await;
        if turn.covers < mine {
            let covers = rounds.asked.load(Ordering::SeqCst);
            turn.found = turn.round(master, keys, self.needed).await?;
            turn.covers = covers;
        }
        if turn.found >= self.needed {
            return Ok(());
        }
        let problem = format!("{} of {} replicas have acknowledged the lock in time", turn.found, self.needed);
        Err(Error::new(ErrorKind::Unavailable, problem)
            .with_remedy("a look at the replicas, or a lower min-replicas")
            .with_unknown_effect())
    }

    fn rounds(&self, master: &Endpoint) -> Arc<Rounds> {
        let mut masters = self.masters.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(masters.entry(master.clone()).or_default())
    }
}

impl Turn {
    /// How many replicas have what was written before this. It waits for half of the time that an answer may take.
    async fn round(&mut self, master: &Link, keys: &Keys, needed: u32) -> Result<u32> {
        let unknown = |error| fault::of(error).with_unknown_effect();
        let link = match self.link.take().filter(Link::is_connected) {
            Some(link) => link,
            None => master.alone().await.map_err(unknown)?,
        };
        let mark = [b"lk:{", keys.encoded(), b"}:r"].concat();
        let (needed, within) = (needed.to_string(), (link.timeout() / 2).as_millis().to_string());
        let [written, found] = self.link.insert(link).send_all([
            Request::command(&[b"SET", &mark, b"", b"PX", MARK_MS]),
            Request::command(&[b"WAIT", needed.as_bytes(), within.as_bytes()]),
        ]);
        // A server that is no master any more says so here.
        written.await.map_err(unknown)?;
        match found.await.map_err(unknown)? {
            Value::Int(found) => Ok(u32::try_from(found).unwrap_or_default()),
            _ => Err(Error::new(ErrorKind::Internal, "the server's answer to WAIT is no number").with_unknown_effect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::super::wire::tests::peer::{Peer, echo, patient, within};
    use super::*;
    use crate::Effect;

    /// The master takes nothing any more, so that a round stays unwritten; then the connection is lost.
    #[tokio::test]
    async fn no_part_of_a_round_goes_to_another_connection() {
        let (peer, keys) = (Peer::new().await, Keys::of(&"stock".parse().unwrap()));
        let (master, _seat, _heard) = peer.link(patient()).await;
        let replicas = Arc::new(Replicas::needed(1).unwrap());
        let asked = || {
            let (replicas, master, keys) = (Arc::clone(&replicas), master.clone(), keys.clone());
            tokio::spawn(async move { replicas.have_it(&master, &keys).await })
        };
        let first = asked();
        let mut seat = peer.seat().await;
        assert_eq!([seat.request().await.remove(0), seat.request().await.remove(0)], ["SET", "WAIT"]);
        seat.say("+OK\r\n:1\r\n").await;
        within(first).await.unwrap().unwrap();

        let link = replicas.rounds(master.endpoint()).turn.lock().await.link.clone().unwrap();
        let mut writes = 0;
        while link.writes() != std::mem::replace(&mut writes, link.writes()) {
            drop(link.send(echo(&"x".repeat(4 << 20))));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut second = pin!(replicas.have_it(&master, &keys));
        assert!(matches!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
        drop(seat);
        let error = within(second).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown), "{error}");

        let third = asked();
        let mut seat = peer.seat().await;
        assert_eq!([seat.request().await.remove(0), seat.request().await.remove(0)], ["SET", "WAIT"]);
        seat.say("+OK\r\n:1\r\n").await;
        within(third).await.unwrap().unwrap();
    }
}
