//! Re-entry: the guards that one owner has of one lock share a claim.
//!
//! The first attempt of an owner acquires as any other does. While a guard of it lives, further
//! ones ask nobody: they take a share in the same claim, and the last of them to go withdraws it.

use std::sync::Arc;

use super::hold::Share;
use super::local_queue::Pulse;
use super::owners::{Joined, OwnerEntry, ReentrantShare};
use super::{Attempt, Engine, Granted, Hold};
use crate::{LostReason, Owner, Result};

impl Engine {
    /// Who had this claim has left it to others that have a share in it. Where none of them is a
    /// guard, their attempts are waited for from now on. The guard of the claim's own attempt has
    /// no `Share`.
    pub(crate) fn left_to_others(&self, hold: &Hold, share: Option<Share>) {
        match share {
            Some(share) => drop(share),
            None => hold.offer(self.now()),
        }
        self.deadlines.expect(self.end_of(hold));
    }
}

impl Attempt {
    /// Takes a share in what this owner holds, or acquires it. Must be polled to its end.
    ///
    /// # Errors
    /// `Lost` when the owner has guards of a claim that is lost.
    pub(super) async fn reenter(&self, owner: &Owner) -> Result<Granted> {
        let (name, owners) = (&self.request.name, &self.engine.owners);
        // Declared first, so that it is dropped last: nobody uses the entry when it looks.
        let interest = owners.interest(name, owner);
        let entry = interest.entry();
        // Nobody who holds it already waits for another who wants a share.
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
        // Made first: it may be the last to have a share, and then ends it.
        let granted = Granted::again(&self.engine, reentrant, &self.request);
        match granted.hold().check() {
            Ok(()) => Ok(Some(granted)),
            // Nobody ever had a guard of it.
            Err(error) if error.lost_reason() == Some(&LostReason::Uncollected) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits while another attempt of the same owner is under way and is polled, as far as this one
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
