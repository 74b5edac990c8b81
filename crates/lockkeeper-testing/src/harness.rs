//! The description of a store for the suite, and how the suite opens the store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use data_encoding::HEXLOWER;

use super::ServerClock;
use lockkeeper::layer::{Fault, Faults, Operation};
use lockkeeper::store::{Admission, Capabilities, Expiry, Store};
use lockkeeper::time::Clock;
use lockkeeper::{KeeperBuilder, LockName, MemoryStore};
use lockkeeper_core::kit::random;

/// A store under test: one state, and any number of clients of it.
///
/// [`start`](Self::start) is called once for each case. A harness should give each case a state of
/// its own if it can. If all cases share a server, [`prefix`](Self::prefix) keeps their names
/// apart.
pub trait Harness: Sized + Send + Sync + 'static {
    /// Which time the cases run on.
    const TIME: Time;
    /// What happens to the claims of a killed process.
    const ON_CRASH: Crash;
    /// Whether a waiting claim has a shorter lifetime than a granted claim. False if both are on
    /// one lease.
    const WAITERS_DIE_FIRST: bool;
    /// The longest name in bytes: 255, less the bytes that a layer puts before the name.
    const NAME_MAX: usize = LockName::MAX_LEN;

    /// A state for one case.
    fn start() -> impl Future<Output = Self> + Send;

    /// Another client of this state, as if in a process of its own.
    fn client(&self) -> impl Future<Output = Arc<dyn Store>> + Send;

    /// Ends a client as if its process was killed: it closes nothing and sends nothing.
    fn crash(&self, client: Arc<dyn Store>) -> impl Future<Output = ()> + Send;

    /// The clock that measures how long something took. On virtual time the store must run on the
    /// same clock.
    fn clock(&self) -> Clock;

    /// The clock of the case's server, on [`Time::Moved`]. The default is `None`: the case moves no
    /// other clock than its own.
    fn server_clock(&self) -> Option<Arc<dyn ServerClock>> {
        None
    }

    /// The text that every name of this case begins with: nothing for a state of its own, otherwise
    /// [`unique_prefix`]. Called once.
    fn prefix(&self) -> String;

    /// The faults of the keepers' connections: [`Faults::none`] for good connections. A storm must
    /// let one request in four through ([`Faults::in_a_row`]).
    fn fault_profile(&self) -> Faults;

    /// Puts data of others around the lock of this name, by the store's own means. An application,
    /// another store, a layout of another version or a mistake may have left such data beside the
    /// lock. [`Crowded`](super::Crowded) calls this method before the name is claimed for the first
    /// time (round 0), and after each claim that joined the line (rounds from 1 on). So some data
    /// is younger than each claim. The default does nothing: it is for a store that no other
    /// program can write to.
    fn crowd(&self, name: &LockName, round: usize) -> impl Future<Output = ()> + Send {
        let _ = (name, round);
        async {}
    }

    /// Adds settings to the cases' keepers. The default adds none.
    fn set_up(&self, builder: KeeperBuilder) -> KeeperBuilder {
        builder
    }

    /// The times of claims that expire within a case: as short as the store allows on a busy
    /// machine.
    fn short(&self) -> Ttls;
}

/// A [`Harness`] of any type, as a case sees it. So each case is compiled once, and not for each
/// store.
#[async_trait]
pub trait AnyHarness: Send + Sync {
    /// [`Harness::TIME`].
    fn time(&self) -> Time;
    /// [`Harness::ON_CRASH`].
    fn on_crash(&self) -> Crash;
    /// [`Harness::WAITERS_DIE_FIRST`].
    fn waiters_die_first(&self) -> bool;
    /// [`Harness::NAME_MAX`].
    fn name_max(&self) -> usize;
    /// [`Harness::client`].
    async fn client(&self) -> Arc<dyn Store>;
    /// [`Harness::server_clock`].
    fn server_clock(&self) -> Option<Arc<dyn ServerClock>>;
    /// [`Harness::crash`].
    async fn crash(&self, client: Arc<dyn Store>);
    /// [`Harness::fault_profile`].
    fn fault_profile(&self) -> Faults;
    /// [`Harness::set_up`].
    fn set_up(&self, builder: KeeperBuilder) -> KeeperBuilder;
    /// [`Harness::short`].
    fn short(&self) -> Ttls;
}

#[async_trait]
impl<H: Harness> AnyHarness for H {
    fn time(&self) -> Time {
        H::TIME
    }

    fn on_crash(&self) -> Crash {
        H::ON_CRASH
    }

    fn waiters_die_first(&self) -> bool {
        H::WAITERS_DIE_FIRST
    }

    fn name_max(&self) -> usize {
        H::NAME_MAX
    }

    async fn client(&self) -> Arc<dyn Store> {
        Harness::client(self).await
    }

    fn server_clock(&self) -> Option<Arc<dyn ServerClock>> {
        Harness::server_clock(self)
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        Harness::crash(self, client).await;
    }

    fn fault_profile(&self) -> Faults {
        Harness::fault_profile(self)
    }

    fn set_up(&self, builder: KeeperBuilder) -> KeeperBuilder {
        Harness::set_up(self, builder)
    }

    fn short(&self) -> Ttls {
        Harness::short(self)
    }
}

impl fmt::Debug for dyn AnyHarness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyHarness").field("time", &self.time()).finish_non_exhaustive()
    }
}

/// Which time the cases run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The paused time of a runtime: it advances when all tasks wait, so waiting is free.
    Virtual,
    /// Real time.
    Real,
    /// The paused time of a runtime, and the time of a real server. Both go on together while the
    /// server has no request to answer, so waiting is almost free. The case needs a server of its
    /// own, and its [clock](Harness::server_clock).
    Moved,
}

/// What happens to the claims of a killed process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The store notices at once, and frees the locks without a lock-delay.
    Frees,
    /// The claims live until they expire.
    Silent,
}

/// How long claims live without a renewal.
#[derive(Clone, Copy, Debug)]
pub struct Ttls {
    /// How long the guard of a granted claim reports the lock as held.
    pub ttl: Duration,
    /// How long a waiting claim lives.
    pub wait_ttl: Duration,
    /// How much longer than `ttl` the store keeps a granted claim.
    pub lock_delay: Duration,
}

impl Ttls {
    /// Times that are longer than a case.
    pub fn long() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            wait_ttl: Duration::from_secs(5),
            lock_delay: Duration::ZERO,
        }
    }

    /// Short times for a fast store: on virtual time, or on a server on the same machine.
    pub fn quick() -> Self {
        Self {
            ttl: Duration::from_millis(1000),
            wait_ttl: Duration::from_millis(500),
            lock_delay: Duration::from_millis(600),
        }
    }

    /// The same times without a lock-delay.
    #[must_use]
    pub fn without_delay(self) -> Self {
        Self { lock_delay: Duration::ZERO, ..self }
    }
}

/// A prefix that no other case uses, in this test run or in another run on the same server.
pub fn unique_prefix() -> String {
    format!("{}/", &HEXLOWER.encode(&random::bits128())[..12])
}

/// What a case needs of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "`Display` says it")]
#[non_exhaustive]
pub enum Need {
    Admin,
    Amend,
    Detached,
    Epochs,
    LockDelay,
    MinHold,
    PerClaimExpiry,
    Queue,
    ReadWrite,
    SessionExpiry,
    VirtualTime,
    NoFaults,
    WaitersDieFirst,
    Weighted,
}

impl Need {
    pub(super) fn is_met(self, harness: &dyn AnyHarness, store: &dyn Store) -> bool {
        let can: Capabilities = store.capabilities();
        match self {
            Self::Admin => store.admin().is_some(),
            Self::Amend => can.amend,
            Self::Detached => can.resumable,
            Self::Epochs => can.epochs,
            Self::LockDelay => can.lock_delay_max >= harness.short().lock_delay,
            Self::MinHold => !can.min_hold_max.is_zero(),
            Self::PerClaimExpiry => can.expiry == Expiry::PerClaim,
            Self::Queue => can.queue,
            Self::ReadWrite => can.admission >= Admission::ReadWrite,
            Self::SessionExpiry => matches!(can.expiry, Expiry::Session { .. }),
            Self::VirtualTime => harness.time() == Time::Virtual,
            Self::NoFaults => harness.fault_profile().is_none(),
            Self::WaitersDieFirst => harness.waiters_die_first(),
            Self::Weighted => can.admission >= Admission::Weighted,
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Admin => "operations of an administrator",
            Self::Amend => "changes of live claims",
            Self::Detached => "claims that outlive their process",
            Self::Epochs => "epochs",
            Self::LockDelay => "a lock-delay",
            Self::MinHold => "a minimum hold",
            Self::PerClaimExpiry => "claims that expire one by one",
            Self::Queue => "a queue",
            Self::ReadWrite => "readers and writers",
            Self::SessionExpiry => "claims that live as long as their session",
            Self::VirtualTime => "virtual time",
            Self::NoFaults => "a good connection",
            Self::WaitersDieFirst => "a shorter life for those who wait",
            Self::Weighted => "weights",
        })
    }
}

/// The memory store on virtual time.
#[derive(Debug)]
pub struct MemoryHarness {
    store: MemoryStore,
    clock: Clock,
}

impl Harness for MemoryHarness {
    const TIME: Time = Time::Virtual;
    const ON_CRASH: Crash = Crash::Silent;
    const WAITERS_DIE_FIRST: bool = true;

    async fn start() -> Self {
        let clock = Clock::tokio();
        Self { store: MemoryStore::with_clock(clock.clone()), clock }
    }

    async fn client(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        drop(client);
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn prefix(&self) -> String {
        String::new()
    }

    fn short(&self) -> Ttls {
        Ttls::quick()
    }

    fn fault_profile(&self) -> Faults {
        Faults::none()
    }
}

/// A store whose keepers have bad connections: answers are lost, and requests arrive twice and
/// late. This harness is for [`keeper_suite!`](crate::keeper_suite).
#[derive(Debug)]
pub struct InAStorm<H>(H);

impl<H: Harness> Harness for InAStorm<H> {
    const TIME: Time = H::TIME;
    const ON_CRASH: Crash = H::ON_CRASH;
    const WAITERS_DIE_FIRST: bool = H::WAITERS_DIE_FIRST;
    const NAME_MAX: usize = H::NAME_MAX;

    async fn start() -> Self {
        Self(H::start().await)
    }

    async fn client(&self) -> Arc<dyn Store> {
        self.0.client().await
    }

    async fn crash(&self, client: Arc<dyn Store>) {
        self.0.crash(client).await;
    }

    async fn crowd(&self, name: &LockName, round: usize) {
        self.0.crowd(name, round).await;
    }

    fn clock(&self) -> Clock {
        self.0.clock()
    }

    fn server_clock(&self) -> Option<Arc<dyn ServerClock>> {
        self.0.server_clock()
    }

    fn prefix(&self) -> String {
        self.0.prefix()
    }

    fn short(&self) -> Ttls {
        self.0.short()
    }

    fn fault_profile(&self) -> Faults {
        Faults::none()
            .with(Fault::LostReply, 40)
            .with(Fault::LostRequest, 20)
            .with(Fault::Refused, 20)
            .with(Fault::Twice, 80)
            .with(Fault::LateCopy, 40)
            .with(Fault::Overdue, 20)
            .with(Fault::FalseWake, 80)
            .slow(100, Duration::from_millis(10))
            .late(Duration::from_millis(500))
            .only(&[
                Operation::Open,
                Operation::Renew,
                Operation::Claim,
                Operation::Amend,
                Operation::Withdraw,
                Operation::Wait,
            ])
            .in_a_row(3)
    }
}
