//! A store that makes a span of each request.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use tracing::field::{Empty, display};
use tracing::{Instrument, Span};

use crate::store::{
    Admin, Amend, Amended, Claim, ClaimKey, Evict, Evicted, Interest, Line, Live, Opened, Renewal,
    Renewed, Revision, SessionId, SessionSpec, Store, StoreId, Target, Verdict, Wake, Withdrawal,
    forward_store,
};
use crate::time::Clock;
use crate::{Error, ErrorKind, LockName, Result};

/// A store around a store that makes a [`tracing`] span for every call.
///
/// The spans have the target `lockkeeper::store` and the level `DEBUG`:
///
/// | span | fields of its own |
/// |---|---|
/// | `store.open` | `ttl`, `lock_delay` |
/// | `store.renew` | `claims`: how many were listed |
/// | `store.close` | `claims` |
/// | `store.claim` | `lock`, `queue`, `resend` |
/// | `store.amend` | `lock`, `change` |
/// | `store.withdraw` | `lock`, `tombstone` |
/// | `store.wait` | `lock`, `within` |
/// | `store.line` | `lock` |
/// | `store.names` | `prefix` |
/// | `store.evict`, `store.request_release` | `lock` |
///
/// Each span has `store`, the address without secrets; `outcome`, a word or two; `elapsed`; and
/// `error` if the call failed. A span without an outcome is a call that was dropped. No span has
/// the id of a claim or of a session, since these ids authorise a release. Each claim that a
/// renewal finds lost is an event inside of `store.renew`.
///
/// Without a subscriber for them the spans cost next to nothing.
///
/// ```
/// use lockkeeper::layer::Traced;
/// use lockkeeper::{Keeper, MemoryStore};
///
/// # async fn f() -> lockkeeper::Result<()> {
/// let keeper = Keeper::builder(Traced::new(MemoryStore::new())).connect().await?;
/// keeper.mutex("stock/42")?.lock().await?.release().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Traced<S> {
    inner: S,
    clock: Clock,
}

impl<S: Store> Traced<S> {
    /// Shows the calls of `inner`.
    pub fn new(inner: S) -> Self {
        Self { inner, clock: Clock::boot() }
    }

    /// Makes the call inside the span. The first poll of the span is the first poll of the call, so
    /// requests keep their order.
    async fn show<T>(&self, span: Span, call: impl Future<Output = Result<T>> + Send) -> Result<T>
    where
        T: Outcome,
    {
        if span.is_disabled() {
            return call.await;
        }
        let start = self.clock.now();
        let answer = call.instrument(span.clone()).await;
        span.record("elapsed", tracing::field::debug(self.clock.now().saturating_since(start)));
        match &answer {
            Ok(answer) => span.record("outcome", display(answer.in_short())),
            Err(error) => {
                span.record("outcome", display(failure(error))).record("error", display(error))
            }
        };
        answer
    }

    fn admin_below(&self) -> Result<&dyn Admin> {
        // The caller has got this store from `admin()`, so the store below has its operations.
        self.inner.admin().ok_or_else(|| {
            Error::new(ErrorKind::Internal, "the store no longer has its administrator operations")
        })
    }
}

/// The span of one call, with the fields of all spans.
macro_rules! span {
    ($store:expr, $name:literal $(, $($field:tt)*)?) => {
        tracing::debug_span!(
            target: "lockkeeper::store",
            $name,
            store = %$store.inner,
            $($($field)*,)?
            outcome = Empty,
            elapsed = Empty,
            error = Empty,
        )
    };
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Traced<S> {
    forward_store! { self => self.inner; capabilities fence_key on_loss }

    fn admin(&self) -> Option<&dyn Admin> {
        self.inner.admin().map(|_| self as &dyn Admin)
    }

    async fn open(&self, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        let span = span!(self, "store.open", ttl = ?spec.ttl, lock_delay = ?spec.lock_delay);
        self.show(span, self.inner.open(id, spec)).await
    }

    async fn renew(&self, session: &SessionId, live: &[Live]) -> Result<Renewed> {
        let span = span!(self, "store.renew", claims = live.len());
        let renewed = self.show(span.clone(), self.inner.renew(session, live)).await?;
        for (live, _) in live
            .iter()
            .zip(&renewed.claims)
            .filter(|(_, answer)| matches!(answer, Renewal::Lost(_)))
        {
            tracing::debug!(target: "lockkeeper::store", parent: &span, lock = %live.key.name, "lost");
        }
        Ok(renewed)
    }

    async fn close(&self, session: &SessionId, live: &[Live]) -> Result<()> {
        self.show(span!(self, "store.close", claims = live.len()), self.inner.close(session, live))
            .await
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        let Claim { key, queue, resend, .. } = claim;
        let span = span!(self, "store.claim", lock = %key.name, queue, resend);
        self.show(span, self.inner.claim(claim)).await
    }

    async fn amend(&self, key: &ClaimKey, number: u64, change: &Amend) -> Result<Amended> {
        let what = match change {
            Amend::Lower(_) => "lower",
            Amend::MinHold(_) => "min_hold",
            Amend::Value(_) => "value",
            Amend::Meta(_) => "meta",
        };
        let span = span!(self, "store.amend", lock = %key.name, change = what);
        self.show(span, self.inner.amend(key, number, change)).await
    }

    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
        let span = span!(self, "store.withdraw", lock = %key.name, tombstone = tombstone.is_some());
        self.show(span, self.inner.withdraw(key, tombstone)).await
    }

    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        let name = match interest {
            Interest::Claim(key) => &key.name,
            Interest::Name(name) => name,
        };
        let span = span!(self, "store.wait", lock = %name, within = ?within);
        self.show(span, self.inner.wait(interest, seen, within)).await
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        self.show(span!(self, "store.line", lock = %name), self.inner.line(name)).await
    }

    async fn id(&self) -> Result<StoreId> {
        self.show(span!(self, "store.id"), self.inner.id()).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Store> Admin for Traced<S> {
    async fn lines(
        &self,
        prefix: &str,
        after: Option<&LockName>,
        limit: usize,
    ) -> Result<Vec<(LockName, Result<Line>)>> {
        let span = span!(self, "store.lines", prefix);
        self.show(span, self.admin_below()?.lines(prefix, after, limit)).await
    }

    async fn evict(
        &self,
        name: &LockName,
        target: &Target,
        how: Evict,
        by: &str,
        reason: &str,
    ) -> Result<Evicted> {
        let span = span!(self, "store.evict", lock = %name);
        self.show(span, self.admin_below()?.evict(name, target, how, by, reason)).await
    }

    async fn request_release(&self, name: &LockName, by: &str, reason: &str) -> Result<bool> {
        let span = span!(self, "store.request_release", lock = %name);
        self.show(span, self.admin_below()?.request_release(name, by, reason)).await
    }
}

impl<S: Store> fmt::Display for Traced<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

fn failure(error: &Error) -> String {
    format!("{:?}, effect {:?}", error.kind(), error.effect()).to_lowercase()
}

/// The name of an answer in a span, without secrets.
trait Outcome {
    fn in_short(&self) -> String;
}

impl Outcome for () {
    fn in_short(&self) -> String {
        "done".to_owned()
    }
}

impl Outcome for bool {
    fn in_short(&self) -> String {
        if *self { "yes" } else { "no" }.to_owned()
    }
}

impl Outcome for Opened {
    fn in_short(&self) -> String {
        format!("opened for {:?}", self.ttl)
    }
}

impl Outcome for Renewed {
    fn in_short(&self) -> String {
        let count = |is: fn(&Renewal) -> bool| self.claims.iter().filter(|claim| is(claim)).count();
        let held = count(|claim| matches!(claim, Renewal::Held { .. }));
        let queued = count(|claim| matches!(claim, Renewal::Queued));
        let lost = count(|claim| matches!(claim, Renewal::Lost(_)));
        format!(
            "held {held}, queued {queued}, lost {lost}, unknown {}",
            self.claims.len() - held - queued - lost
        )
    }
}

impl Outcome for Verdict {
    fn in_short(&self) -> String {
        match self {
            Self::Granted { token, .. } => format!("granted {token}"),
            Self::Queued { ahead, .. } => format!("queued behind {ahead}"),
            Self::Busy { .. } => "busy".to_owned(),
            Self::Gone => "gone".to_owned(),
        }
    }
}

impl Outcome for Amended {
    fn in_short(&self) -> String {
        match self {
            Self::Done => "done",
            Self::NotLive => "not live",
            Self::Older { .. } => "older",
        }
        .to_owned()
    }
}

impl Outcome for Withdrawal {
    fn in_short(&self) -> String {
        match self {
            Self::Removed => "removed",
            Self::Absent => "absent",
        }
        .to_owned()
    }
}

impl Outcome for Wake {
    fn in_short(&self) -> String {
        match self {
            Self::Granted { token } => format!("granted {token}"),
            Self::Changed => "changed".to_owned(),
            Self::Elapsed => "elapsed".to_owned(),
        }
    }
}

impl Outcome for Line {
    fn in_short(&self) -> String {
        let holders = self.entries.iter().filter(|entry| entry.granted).count();
        format!("{holders} hold, {} wait", self.entries.len() - holders)
    }
}

impl Outcome for StoreId {
    fn in_short(&self) -> String {
        self.to_string()
    }
}

impl Outcome for Vec<(LockName, Result<Line>)> {
    fn in_short(&self) -> String {
        format!("{} lines", self.len())
    }
}

impl Outcome for Evicted {
    fn in_short(&self) -> String {
        match self {
            Self::Done => "done",
            Self::Absent => "absent",
        }
        .to_owned()
    }
}
