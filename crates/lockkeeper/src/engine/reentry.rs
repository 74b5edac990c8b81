//! Re-entry: the guards that one owner has of one lock share a claim.
//!
//! The first attempt of an owner acquires as any other does. While a guard of it lives, further ones ask nobody: they
//! take a share in the same claim, and the last of them to go withdraws it.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::OwnedMutexGuard;

use super::local_queue::{Pulse, Sign};
use super::session::lock;
use super::{Attempt, Engine, Granted, Hold};
use crate::time::Instant;
use crate::{FencingToken, LockName, LostReason, Owner, Result};

type Key = (LockName, Owner);

/// The place of one owner of one lock.
#[derive(Debug, Default)]
struct Seat {
    turn: Mutex<Arc<Turn>>,
    /// What the owner holds.
    stake: Mutex<Weak<Stake>>,
}

/// Taken while an attempt of the owner is under way.
#[derive(Debug, Default)]
struct Turn {
    taken: Arc<tokio::sync::Mutex<()>>,
    sign: Arc<Sign>,
}

/// Has the turn.
struct Seated {
    turn: Arc<Turn>,
    _taken: OwnedMutexGuard<()>,
}

/// The seats that somebody has an interest in.
#[derive(Debug, Default)]
pub(super) struct Seats(Mutex<HashMap<Key, Arc<Seat>>>);

/// A claim in which all guards of an owner have a share.
#[derive(Debug)]
pub(crate) struct Stake {
    pub(crate) hold: Arc<Hold>,
    pub(crate) token: FencingToken,
    /// Since when the first of them holds it.
    pub(crate) since: Instant,
    _interest: Interest,
}

/// Keeps a seat in the map for as long as it lives.
#[derive(Debug)]
struct Interest {
    engine: Arc<Engine>,
    key: Key,
}

impl Attempt {
    /// Takes a share in what this owner holds, or acquires it. Must be polled to its end.
    ///
    /// # Errors
    /// `Lost` when the owner has guards of a claim that is lost.
    pub(super) async fn reenter(&self, owner: &Owner) -> Result<Granted> {
        let key = (self.request.name.clone(), owner.clone());
        // Declared first, so that it goes last: the seat is free when it looks.
        let interest = Interest { engine: Arc::clone(&self.engine), key };
        let seat = interest.seat();
        // Nobody who holds it already waits for another who wants a share.
        if let Some(granted) = self.share_of(&seat)? {
            return Ok(granted);
        }
        let seated = self.sit_down(&seat).await?;
        if let Some(granted) = self.share_of(&seat)? {
            return Ok(granted);
        }
        let granted = Pulse::new(&self.engine, &seated.turn.sign).beside(self.acquire_alone()).await?;
        let interest = Interest { engine: Arc::clone(&self.engine), key: interest.key.clone() };
        let (granted, stake) = granted.share(interest);
        *lock(&seat.stake) = Arc::downgrade(&stake);
        Ok(granted)
    }

    fn share_of(&self, seat: &Seat) -> Result<Option<Granted>> {
        let Some(stake) = lock(&seat.stake).upgrade() else { return Ok(None) };
        // Made first: it may be the last to have a share, and then ends it.
        let granted = Granted::again(&self.engine, stake, &self.request);
        match granted.hold().check() {
            Ok(()) => Ok(Some(granted)),
            // Nobody ever had a guard of it.
            Err(error) if error.lost_reason() == Some(&LostReason::Uncollected) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits while another attempt of the same owner is under way and is polled, as far as this one waits at all.
    async fn sit_down(&self, seat: &Seat) -> Result<Seated> {
        if let Some(seated) = seat.sit_down_at_once() {
            return Ok(seated);
        }
        if !self.request.queue {
            return Err(self.busy());
        }
        self.patience.set_waiting(&self.engine.events, &self.request.name);
        tokio::select! {
            biased;
            () = self.stopped() => Err(self.gave_up()),
            seated = seat.sit_down(&self.engine) => Ok(seated),
        }
    }
}

impl Seat {
    fn sit_down_at_once(&self) -> Option<Seated> {
        let turn = Arc::clone(&lock(&self.turn));
        let taken = Arc::clone(&turn.taken).try_lock_owned().ok()?;
        Some(Seated { turn, _taken: taken })
    }

    /// May be dropped.
    async fn sit_down(&self, engine: &Engine) -> Seated {
        loop {
            let turn = Arc::clone(&lock(&self.turn));
            let taken = turn.sign.awaits(engine, pin!(Arc::clone(&turn.taken).lock_owned())).await;
            let mut current = lock(&self.turn);
            let is_current = Arc::ptr_eq(&current, &turn);
            match taken {
                Some(taken) if is_current => {
                    return Seated { turn: Arc::clone(&turn), _taken: taken };
                }
                // Others go on with the next turn, and find this one there.
                None if is_current => *current = Arc::default(),
                _ => {}
            }
        }
    }
}

impl Stake {
    /// Gives up a share; whether it was the last.
    pub(crate) fn leave(share: Option<Arc<Self>>) -> bool {
        share.is_none_or(|share| Arc::into_inner(share).is_some())
    }
}

impl Granted {
    /// The same grant as one in which others can have a share.
    fn share(mut self, interest: Interest) -> (Self, Arc<Stake>) {
        let (hold, token) = (Arc::clone(self.hold()), self.grant.token);
        let stake = Arc::new(Stake { hold, token, since: self.engine.now(), _interest: interest });
        self.grant.stake = Some(Arc::clone(&stake));
        (self, stake)
    }
}

impl Interest {
    fn seat(&self) -> Arc<Seat> {
        Arc::clone(lock(&self.engine.seats.0).entry(self.key.clone()).or_default())
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut seats = lock(&self.engine.seats.0);
        // Whoever is about to sit down has a clone of it, made under this lock, and an interest of its own.
        let is_left = |seat: &Arc<Seat>| Arc::strong_count(seat) == 1 && lock(&seat.stake).strong_count() == 0;
        if seats.get(&self.key).is_some_and(is_left) {
            seats.remove(&self.key);
        }
    }
}

#[cfg(feature = "testing")]
impl Seats {
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}
