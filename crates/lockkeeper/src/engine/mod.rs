//! The engine: sessions, renewals, deadlines, waiting and cleaning up, once for all stores. It
//! knows claims only, and never names a backend.
//!
//! What an engine knows is in a few types, each of which alone sees its fields:
//!
//! | file | what it knows |
//! |---|---|
//! | `settings` | what the keeper was built with |
//! | `lifetime` | whether the engine can be used |
//! | `sessions` | which sessions are open, which are shared, and how they are |
//! | `session` | what the claims of one ttl live and die with; `session/claims`: these claims |
//! | `schedule` | which claim of a session is to be renewed next |
//! | `danger` | whether renewals fail, and what a store may have forgotten |
//! | `hold` | one claim as its client believes in it |
//! | `owners` | what the owners of this process hold |
//! | `local_queue` | which task of this process stands in the store's line |
//! | `deadlines` | until when the timer of the deadlines sleeps |
//! | `control` | whether the caller still wants the lock |
//! | `limits` | how often and how long to try, to wait and to keep |
//! | `lock` | locking a mutex |
//!
//! What it does, with all of these:
//!
//! | file | what it decides |
//! |---|---|
//! | `start`, `shutdown` | the beginning, and the end of everything, in order |
//! | `request` | what an attempt asks for |
//! | `attempt` | one attempt, from the request to the grant |
//! | `outcome`, `ending` | what becomes of one claim, and how an attempt ends |
//! | `turn` | the turn of a task in a local queue |
//! | `waiter` | one id in line: claim, wait, claim again |
//! | `granted` | a grant on its way to becoming a guard |
//! | `together` | several locks as one: in a fixed order, all or nothing |
//! | `reentry` | the guards that one owner has of one lock |
//! | `change` | claims that are changed while they are held |
//! | `detached` | claims that are given away, and those that others gave |
//! | `opening` | opening a session once, for all that want it, and closing it |
//! | `watchdog` | when to renew what |
//! | `renewals` | a renewal, and what the answers mean |
//! | `expiry` | the timer that ends belief, whatever the store does |
//! | `loss` | what a loss ends, and what a store reports without being asked |
//! | `lost` | the future that completes with a loss |
//! | `release` | withdrawing what nobody wants any more, until it is known to be gone |
//! | `look` | what people see of a store, and whether it still has what was broken |

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

/// One engine serves one keeper. It knows a lock by the name that was typed; the store below adds
/// the prefix.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) store: Arc<dyn Store>,
    /// The same store with full names, for those that come out of sequencers.
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
    /// `Forked` in a forked child, `Closed` after a shutdown, or when the runtime has ended.
    pub(crate) fn usable(&self) -> Result<()> {
        self.lifetime.usable()
    }

    /// Says of which store an error speaks.
    pub(crate) fn describe(&self, error: Error, name: &LockName) -> Error {
        error.at(&self.store.to_string()).about(name.clone())
    }

    /// The fencing token for a store's number.
    ///
    /// # Errors
    /// `Internal` for a store that breaks its contract: a number outside 1..2^54.
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
