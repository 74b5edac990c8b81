//! Waits until replicas have a grant, on a connection of its own: `WAIT` holds up all requests
//! behind it.
//!
//! `WAIT` counts the writes of its own connection only. So each round makes a write: replicas take
//! all writes in one order, so a replica that has this write has every grant that was answered
//! before. One round is for all callers that come while the round before is under way. A `WAIT`
//! without its write would say nothing, so both go on the same connection.
//!
//! A grant is gone when its server has become a replica of another server meanwhile. So the last
//! request of a round asks for the history of the data: a server that was a replica has another
//! history than the connection on which the grant came.

mod rounds;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_core::sync::lock;

use self::rounds::Rounds;
use crate::checks::Info;
use crate::route::Data;
use crate::time::{Clock, Instant};
use crate::wire::{Endpoint, Link};
use crate::{Error, ErrorKind, Result};

/// See [`Replicas::kept`]. Longer than a request may take.
const KEPT: Duration = Duration::from_secs(120);

/// The field of `INFO` that names the history of a server's data.
const HISTORY: &str = "master_replid";

/// The replicas that a grant needs.
#[derive(Debug)]
pub(super) struct Replicas {
    needed: u32,
    /// The rounds of each server, and its data: they do not confirm the grants of other data.
    masters: Mutex<HashMap<Endpoint, Known>>,
    /// How long the rounds of a server stay without a caller. The next caller connects again.
    kept: Duration,
}

/// The data of a server, its rounds, and when a caller had them last.
type Known = (Data, Arc<Rounds>, Instant);

impl Replicas {
    pub(super) fn needed(needed: u32) -> Option<Self> {
        (needed > 0).then(|| Self { needed, masters: Mutex::default(), kept: KEPT })
    }

    /// Waits until enough replicas of this master have all that it has answered so far from these
    /// data.
    /// `mark` is a key of a slot of this master, or of a slot that is on its way to it (`asking`).
    ///
    /// # Errors
    /// `Unavailable`, of unknown effect: the grant stands.
    ///
    /// # Cancel safety
    /// The caller only waits. If it is polled no more, the callers of the same round go on.
    pub(super) async fn have_it(
        &self,
        master: &Link,
        data: &Data,
        mark: &[u8],
        asking: bool,
    ) -> Result<()> {
        let rounds = self.rounds(master.endpoint(), data);
        let found = rounds.found(master, data, (mark, asking), self.needed).await?;
        if found >= self.needed {
            return Ok(());
        }
        let problem = format!("{found} of {} replicas have acknowledged it in time", self.needed);
        Err(Error::new(ErrorKind::Unavailable, problem)
            .with_remedy("a look at the replicas, or a lower min-replicas")
            .with_unknown_effect())
    }

    fn rounds(&self, master: &Endpoint, data: &Data) -> Arc<Rounds> {
        let (mut masters, now) = (lock(&self.masters), Clock::boot().now());
        if let Some((_, rounds, used)) = masters.get_mut(master).filter(|(of, ..)| of == data) {
            *used = now;
            return Arc::clone(rounds);
        }
        // A server that has gone for good would keep its connection otherwise.
        masters.retain(|_, (_, _, used)| now.saturating_since(*used) < self.kept);
        let rounds = Arc::<Rounds>::default();
        masters.insert(master.clone(), (data.clone(), Arc::clone(&rounds), now));
        rounds
    }
}

/// Refuses a server that does not show the history of its data, where replicas have to confirm
/// grants.
pub(super) fn check(info: &Info, needed: u32) -> Result<()> {
    if needed == 0 || info.get(HISTORY).is_some() {
        return Ok(());
    }
    let problem = format!("the server does not show {HISTORY} in INFO, which min-replicas needs");
    Err(Error::new(ErrorKind::Unsupported, problem).with_remedy("a URL without min-replicas"))
}

/// The error about a grant whose server was restarted, replaced or a replica meanwhile, so that no
/// replica can confirm it.
pub(super) fn unproven(master: &Endpoint) -> Error {
    let problem = format!(
        "{master} was restarted or was no master for a while, or another server answers there, \
         before replicas had the lock"
    );
    Error::new(ErrorKind::Unavailable, problem)
        .with_remedy("again in a moment")
        .with_unknown_effect()
}

/// These data are not the master's any more. The next connection shows the present data.
fn lost(master: &Link, data: &Data) -> Error {
    if master.run().and_then(Data::of).as_ref() == Some(data) {
        master.reset("its data are of another history");
    }
    unproven(master.endpoint())
}
