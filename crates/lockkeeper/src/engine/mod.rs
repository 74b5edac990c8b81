//! The engine: sessions, renewals, deadlines, waiting and cleaning up, once for all stores. It
//! knows only claims, and never names a backend.
//!
//! The state of an engine is in a few types. Only the type itself sees its fields:
//!
//! | file | what it knows |
//! |---|---|
//! | `settings` | the settings of the keeper |
//! | `lifetime` | whether the engine can be used |
//! | `sessions` | the open sessions, the shared ones among them, and their states |
//! | `session` | the common life of the claims of one ttl; `session/claims`: these claims |
//! | `schedule` | which claim of a session is renewed next |
//! | `danger` | whether renewals fail, and which claims a store may have forgotten |
//! | `hold` | one claim as its client believes in it |
//! | `owners` | the locks of the owners of this process |
//! | `local_queue` | which task of this process stands in the store's line |
//! | `deadlines` | the time to which the timer of the deadlines is set |
//! | `control` | whether the caller still wants the lock |
//! | `limits` | how often and how long to try, to wait and to keep |
//! | `lock` | locking a mutex |
//!
//! The files that decide, with all of this state:
//!
//! | file | what it decides |
//! |---|---|
//! | `start`, `shutdown` | the beginning, and the end of everything, in order |
//! | `request` | the settings of an attempt |
//! | `attempt` | one attempt, from the request to the grant |
//! | `outcome`, `ending` | the outcome of one claim, and the end of an attempt |
//! | `turn` | the turn of a task in a local queue |
//! | `waiter` | one id in line: claim, wait, claim again |
//! | `granted` | a grant on its way to becoming a guard |
//! | `together` | several locks as one: in a fixed order, all or nothing |
//! | `reentry` | the guards that one owner has of one lock |
//! | `change` | claims that are changed while they are held |
//! | `detached` | claims that this process detaches, and claims that it adopts |
//! | `opening` | opening a session once for all attempts, and closing it |
//! | `watchdog` | which claims are renewed when |
//! | `renewals` | a renewal, and the meaning of its answers |
//! | `expiry` | the timer that ends the belief in claims without the store |
//! | `loss` | what a loss ends, and the reports of a store |
//! | `lost` | the future that completes with a loss |
//! | `release` | withdrawing an unneeded claim, until it is known to be gone |
//! | `look` | looks at a store, and whether it still keeps a broken lock |

mod attempt;
mod change;
mod control;
mod danger;
mod deadlines;
mod detached;
mod ending;
mod expiry;
mod granted;
mod hold;
mod lifetime;
mod limits;
mod local_queue;
mod lock;
mod look;
mod loss;
mod lost;
mod opening;
mod outcome;
mod owners;
mod reentry;
mod release;
mod renewals;
mod request;
mod schedule;
mod session;
mod sessions;
mod settings;
mod shutdown;
mod start;
mod together;
mod turn;
mod waiter;
mod watchdog;

use std::sync::Arc;

pub(crate) use self::attempt::Attempt;
pub(crate) use self::control::AttemptControl;
use self::deadlines::Deadlines;
pub(crate) use self::granted::{Grant, Granted};
pub(crate) use self::hold::{Hold, Share};
use self::lifetime::Lifetime;
use self::local_queue::LocalQueues;
pub(crate) use self::look::LineObserver;
pub use self::lost::Lost;
use self::owners::Owners;
pub(crate) use self::owners::ReentrantShare;
pub(crate) use self::request::{Request, mode};
pub(crate) use self::session::Session;
pub use self::session::SessionState;
use self::sessions::Sessions;
pub(crate) use self::settings::{Settings, Stores};
pub(crate) use self::together::{AllGranted, Attempts, kept_from_all, offer};
use crate::events::Events;
use crate::runtime::Runtime;
use crate::store::{Capabilities, Store};
use crate::time::{Clock, Instant};
use crate::{Error, ErrorKind, FencingToken, LockName, Result};

/// One engine serves one keeper. It knows a lock by the name without the prefix; the store below
/// adds the prefix.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) store: Arc<dyn Store>,
    /// The same store with full names, for the names in sequencers.
    whole: Arc<dyn Store>,
    pub(crate) capabilities: Capabilities,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) runtime: Runtime,
    pub(crate) events: Events,
    pub(crate) lifetime: Lifetime,
    pub(crate) sessions: Arc<Sessions>,
    queues: LocalQueues,
    pub(crate) owners: Arc<Owners>,
    deadlines: Deadlines,
}

impl Engine {
    /// # Errors
    /// `Forked` in a forked child; `Closed` after a shutdown, or if the runtime has ended.
    pub(crate) fn usable(&self) -> Result<()> {
        self.lifetime.usable()
    }

    /// Adds the lock and the store to an error.
    pub(crate) fn describe(&self, error: Error, name: &LockName) -> Error {
        error.at(&self.store.to_string()).about(name.clone())
    }

    /// The fencing token for a store's number.
    ///
    /// # Errors
    /// `Internal` for a store that breaks its contract with a number outside 1..2^54.
    pub(crate) fn token(&self, raw: u64) -> Result<FencingToken> {
        FencingToken::new(self.settings.epoch, raw).ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                format!("{} gave the token {raw}, which is out of range", self.store),
            )
        })
    }

    #[cfg(feature = "testing")]
    pub(crate) fn leftovers(&self) -> usize {
        let of = |s: &Arc<Session>| {
            s.claims.live().len() + s.claims.in_lock_delay().len() + usize::from(s.is_adopted())
        };
        let claims: usize = self.sessions.all().iter().map(of).sum();
        claims + self.queues.len() + self.owners.len()
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }
}
