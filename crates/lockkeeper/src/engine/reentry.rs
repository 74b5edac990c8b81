//! Re-entry: the guards that one owner has of one lock share a claim.
//!
//! The first attempt of an owner acquires the lock as any other attempt does. While one of its
//! guards lives, further attempts share the claim without a request. The last guard withdraws the
//! claim.

use std::sync::Arc;

use super::hold::Share;
use super::local_queue::Pulse;
use super::owners::{Joined, OwnerEntry, ReentrantShare};
use super::{Attempt, Engine, Granted, Hold};
use crate::{LostReason, Owner, Result};

impl Engine {
    /// One user of a shared claim is gone, and leaves it to the others. If none of them is a guard
    /// yet, the wait for their attempts begins now. The guard of the claim's own attempt has no
    /// `Share`.
    pub(crate) fn left_to_others(&self, hold: &Hold, share: Option<Share>) {
        match share {
            Some(share) => drop(share),
            None => hold.offer(self.now()),
        }
        self.deadlines.expect(self.end_of(hold));
    }
}

impl Attempt {
    /// Shares the claim that this owner holds, or acquires one. Must be polled to its end.
    ///
    /// # Errors
    /// `Lost` if the owner has guards of a lost claim.
    pub(super) async fn reenter(&self, owner: &Owner) -> Result<Granted> {
        let (name, owners) = (&self.request.name, &self.engine.owners);
        // Declared first and so dropped last: no other value uses the entry when the interest looks
        // at it.
        let interest = owners.interest(name, owner);
        let entry = interest.entry();
        // An owner that already holds the lock does not wait for another of its attempts.
        if let Some(granted) = self.share_of(&entry)? {
            return Ok(granted);
        }
        let joined = self.join(&entry).await?;
        if let Some(granted) = self.share_of(&entry)? {
            return Ok(granted);
        }
        let mut granted =
            Pulse::new(&self.engine.clock, joined.sign()).beside(self.acquire_alone()).await?;
        let (hold, now) = (Arc::clone(granted.hold()), self.engine.now());
        let share = ReentrantShare::new(hold, granted.token(), now, owners.interest(name, owner));
        entry.set_reentrant(&share);
        granted.share(share);
        Ok(granted)
    }

    fn share_of(&self, entry: &OwnerEntry) -> Result<Option<Granted>> {
        let Some(reentrant) = entry.reentrant() else { return Ok(None) };
        // The share comes first: it may be the last one, and then its drop ends the claim.
        let granted = Granted::again(&self.engine, reentrant, &self.request);
        match granted.hold().check() {
            Ok(()) => Ok(Some(granted)),
            // The claim never had a guard.
            Err(error) if error.lost_reason() == Some(&LostReason::Uncollected) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits while another attempt of the same owner is under way and is polled, if this attempt
    /// waits at all.
    async fn join(&self, entry: &OwnerEntry) -> Result<Joined> {
        if let Some(joined) = entry.join_at_once() {
            return Ok(joined);
        }
        if !self.request.queue {
            return Err(self.busy());
        }
        self.control.set_waiting(&self.engine.events, &self.request.name);
        tokio::select! {
            biased;
            () = self.stopped() => Err(self.gave_up()),
            joined = entry.join(&self.engine.clock) => Ok(joined),
        }
    }
}
