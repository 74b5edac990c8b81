//! The locks of one run: all of them or none, and one lease for the command.

use std::future::poll_fn;
use std::slice;
use std::task::Poll;
use std::time::Duration;

use lockkeeper::time::{Clock, Instant};
use lockkeeper::{
    Acquire, Acquired, Election, Guard, Keeper, Leadership, LockName, Lost, LostReason,
    MultiBuilder, MultiGuard, MultiLock,
};
use tokio::time::timeout;

use crate::args::{ModeArgs, Permits};
use crate::child::lease::Lease;
use crate::child::policy::is_certain;
use crate::exit::Failure;
use crate::held::{Held, mode_word};

/// The time between a grant and the moment at which `run` sees it.
const SLACK: Duration = Duration::from_millis(250);
/// How long the store may take to answer whether a lock is held, if the release asks again.
const WORD: Duration = Duration::from_secs(1);

/// How the locks are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    Locks(ModeArgs),
    /// The leadership, with the value that other clients see; without a value the owner is shown.
    Leadership(Option<&'a str>),
}

/// Locks that a run wants.
#[derive(Debug)]
pub(crate) struct Locks {
    lock: Lock,
    names: Names,
}

#[derive(Debug)]
enum Lock {
    All(MultiLock),
    Leadership { election: Election, value: String },
}

/// The names, and the names as typed, in the order in which they were typed.
type Names = Vec<(LockName, String)>;

/// The settings of one attempt to get the locks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt<'a> {
    pub(crate) wait: Option<Duration>,
    pub(crate) reason: Option<&'a str>,
    pub(crate) unfair: bool,
    pub(crate) max_hold: Option<Duration>,
    /// How long the store keeps the lock from other claims after the grant.
    pub(crate) min_hold: Duration,
    /// How long before the end of its lease the command has to end.
    pub(crate) lead: Duration,
}

impl Locks {
    /// A name that was typed twice counts once.
    pub(crate) fn of(
        keeper: &Keeper,
        typed: &[String],
        wanted: Wanted<'_>,
        owner: &str,
    ) -> Result<Self, Failure> {
        let mut names = Names::new();
        for typed in typed {
            let full = keeper.mutex(typed.as_str())?.name().clone();
            if !names.iter().any(|(known, _)| *known == full) {
                names.push((full, typed.clone()));
            }
        }
        let lock = match wanted {
            Wanted::Locks(mode) => Lock::All(several(keeper, &names, mode)?),
            Wanted::Leadership(value) => {
                // There is one name, which was needed above.
                let election = keeper.election(typed.first().map_or("", String::as_str))?;
                Lock::Leadership { election, value: value.unwrap_or(owner).to_owned() }
            }
        };
        Ok(Self { lock, names })
    }

    pub(crate) fn names(&self) -> &[(LockName, String)] {
        &self.names
    }

    /// The name as typed.
    pub(crate) fn typed<'a>(&'a self, full: &'a LockName) -> &'a str {
        typed(&self.names, full)
    }

    pub(crate) async fn acquire(&self, attempt: Attempt<'_>) -> lockkeeper::Result<Holding> {
        let guard = match &self.lock {
            Lock::All(locks) => Guards::All(attempt.on(locks.lock()).await?),
            Lock::Leadership { election, value } => {
                Guards::Leadership(attempt.on(election.campaign(value.as_str())).await?)
            }
        };
        let clock = Clock::boot();
        let since = clock.now();
        Ok(Holding {
            guard,
            names: self.names.clone(),
            clock,
            since,
            max_hold: attempt.max_hold,
            min_hold: attempt.min_hold,
        })
    }
}

fn several(keeper: &Keeper, names: &Names, mode: ModeArgs) -> lockkeeper::Result<MultiLock> {
    let add = |locks: MultiBuilder, name: &str| match mode {
        ModeArgs { shared: true, .. } => locks.read(name),
        ModeArgs { permits: Some(Permits { count, of }), .. } => locks.permits(name, count, of),
        ModeArgs { shared: false, permits: None } => locks.lock(name),
    };
    names.iter().fold(keeper.multi(), |locks, (_, typed)| add(locks, typed)).build()
}

impl Attempt<'_> {
    fn on<G: Acquired>(self, mut acquire: Acquire<G>) -> Acquire<G> {
        acquire = acquire.min_hold(self.min_hold);
        if let Some(wait) = self.wait {
            acquire = acquire.wait(wait);
        }
        if let Some(reason) = self.reason {
            acquire = acquire.reason(reason);
        }
        if self.unfair {
            acquire = acquire.unfair();
        }
        if let Some(max_hold) = self.max_hold {
            // TERM comes when `lead` is left of the maximum hold, and has to come after `max_hold`.
            acquire = acquire.max_hold(max_hold.saturating_add(self.lead));
        }
        acquire
    }
}

fn typed<'a>(names: &'a [(LockName, String)], full: &'a LockName) -> &'a str {
    names.iter().find(|(known, _)| known == full).map_or(full.as_str(), |(_, typed)| typed)
}

/// Locks that a run has.
#[derive(Debug)]
pub(crate) struct Holding {
    guard: Guards,
    names: Names,
    clock: Clock,
    since: Instant,
    max_hold: Option<Duration>,
    min_hold: Duration,
}

#[derive(Debug)]
enum Guards {
    All(MultiGuard),
    Leadership(Leadership),
}

impl Guards {
    fn each(&self) -> &[Guard] {
        match self {
            Self::All(guards) => guards.guards(),
            Self::Leadership(leadership) => slice::from_ref(leadership.guard()),
        }
    }

    fn lost(&self) -> Lost {
        match self {
            Self::All(guards) => guards.lost(),
            Self::Leadership(leadership) => leadership.lost(),
        }
    }

    async fn release(self) -> lockkeeper::Result<()> {
        match self {
            Self::All(guards) => guards.release().await,
            Self::Leadership(leadership) => leadership.resign().await,
        }
    }
}

impl Holding {
    /// How long the locks have been held.
    pub(crate) fn held(&self) -> Duration {
        self.clock.now().saturating_since(self.since)
    }

    /// How long the locks may be held.
    pub(crate) fn max_hold(&self) -> Option<Duration> {
        self.max_hold
    }

    /// How long the store keeps the locks from now on, even if this run ends.
    pub(crate) fn kept(&self) -> Duration {
        self.min_hold.saturating_sub(self.held())
    }

    /// The facts about each lock for the command, in the order in which the names were typed.
    pub(crate) fn each(&self) -> Vec<Held> {
        let held = |(typed, guard): (&String, &Guard)| Held {
            name: typed.clone(),
            token: guard.token().to_string(),
            sequencer: guard.sequencer().to_string(),
            mode: mode_word(&guard.mode()),
        };
        self.in_order().map(held).collect()
    }

    fn in_order(&self) -> impl Iterator<Item = (&String, &Guard)> {
        let guard_of = |name| self.guard.each().iter().find(move |guard| guard.name() == name);
        self.names.iter().filter_map(move |(full, typed)| Some((typed, guard_of(full)?)))
    }

    /// Returns whether the store says that all locks are held. An unknown answer counts as held.
    pub(crate) async fn is_held(&self, keeper: &Keeper) -> bool {
        for guard in self.guard.each() {
            let sequencer = guard.sequencer();
            if let Ok(Ok(false)) = timeout(WORD, keeper.check_sequencer(&sequencer)).await {
                return false;
            }
        }
        true
    }

    /// The losses, to be read after the release.
    pub(crate) fn losses(&self) -> Losses {
        Losses(self.in_order().map(|(typed, guard)| (typed.clone(), guard.lost())).collect())
    }

    /// Releases the locks.
    ///
    /// # Errors
    /// As [`MultiGuard::release`] and [`Leadership::resign`].
    pub(crate) async fn release(self) -> lockkeeper::Result<()> {
        self.guard.release().await
    }

    /// The guard that is lost, or has the least time left.
    fn weakest_guard(&self) -> Option<&Guard> {
        self.guard.each().iter().min_by_key(|guard| guard.remaining())
    }
}

impl Lease for Holding {
    fn remaining(&self) -> Duration {
        self.weakest_guard().map_or(Duration::ZERO, Guard::remaining)
    }

    fn loss(&self) -> Option<LostReason> {
        let errors = self.guard.each().iter().filter_map(|guard| guard.check().err());
        let reasons =
            errors.map(|error| error.lost_reason().cloned().unwrap_or(LostReason::Expired));
        // A certain loss counts before an uncertain one.
        reasons.min_by_key(|reason| !is_certain(reason))
    }

    async fn lost(&self) -> LostReason {
        self.guard.lost().await
    }

    async fn given_away(&self) {
        let mut each: Vec<_> =
            self.guard.each().iter().map(|guard| Box::pin(guard.given_away())).collect();
        poll_fn(|cx| {
            let is_one = each.iter_mut().any(|given_away| given_away.as_mut().poll(cx).is_ready());
            if is_one { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn silent_loss(&self) -> LostReason {
        match self.max_hold {
            Some(max_hold) if self.held() + SLACK >= max_hold => LostReason::MaxHold,
            _ => LostReason::Expired,
        }
    }

    fn weakest(&self) -> &str {
        self.weakest_guard().map_or("", |guard| typed(&self.names, guard.name()))
    }
}

/// The outcomes of locks that were released.
#[derive(Debug)]
pub(crate) struct Losses(Vec<(String, Lost)>);

impl Losses {
    /// Each name as typed, and the reason if it was lost before.
    pub(crate) async fn outcomes(self) -> Vec<(String, Option<LostReason>)> {
        let mut outcomes = Vec::with_capacity(self.0.len());
        for (name, lost) in self.0 {
            outcomes.push((name, timeout(Duration::ZERO, lost).await.ok()));
        }
        outcomes
    }
}
