//! Errors: what went wrong, with which lock, on which store, whether anything happened, and what to do about it.

use std::fmt;
use std::sync::Arc;

use crate::{LockName, LostReason};

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, for a program to decide on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The attempt waited for as long as it was allowed to; others hold the lock.
    Timeout,
    /// The store could not be reached or did not answer. Never used for a lock that is busy.
    Unavailable,
    /// The lock was held and is lost; [`Error::lost_reason`] says why.
    Lost,
    /// The store has forgotten the session that the request belonged to.
    SessionLost,
    /// Others use the lock in another way: another capacity, another epoch, another kind.
    Mismatch,
    /// This store, or this build of lockkeeper, cannot do it.
    Unsupported,
    /// The store refused for lack of rights.
    Denied,
    /// An argument that can never work.
    Invalid,
    /// As many are waiting as may.
    QueueFull,
    /// The attempt would wait for a guard that its own owner holds.
    WouldDeadlock,
    /// Somebody else changed it first.
    Conflict,
    /// The keeper belongs to the process that this one was forked from.
    Forked,
    /// The keeper was shut down, or the store that it was connected to is gone for good: connect again.
    Closed,
    /// A bug in lockkeeper, or in the store.
    Internal,
}

/// Whether a failed operation may have happened all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// It did not happen.
    None,
    /// It may have happened. lockkeeper cleans up behind an attempt of its own; do not repeat a write blindly.
    Unknown,
}

/// What every operation of lockkeeper returns when it fails.
///
/// It prints as one line without secrets, with the remedy last.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    effect: Effect,
    name: Option<LockName>,
    message: String,
    remedy: Option<String>,
    lost: Option<LostReason>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of this kind that had no effect. `message` says what happened, in one line and without secrets.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            effect: Effect::None,
            name: None,
            message: message.into(),
            remedy: None,
            lost: None,
            source: None,
        }))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn lost(name: LockName, reason: LostReason) -> Self {
        let mut error = Self::new(ErrorKind::Lost, format!("the lock was lost: {reason}"))
            .with_remedy("stop working on what it protects, and acquire it again");
        error.0.lost = Some(reason);
        error.about(name)
    }

    /// The same error, but the operation may have happened.
    #[must_use]
    pub fn with_unknown_effect(mut self) -> Self {
        self.0.effect = Effect::Unknown;
        self
    }

    /// The same error of an operation that changes nothing.
    #[must_use]
    pub(crate) fn without_effect(mut self) -> Self {
        self.0.effect = Effect::None;
        self
    }

    /// The same error, with what the reader can do about it: a short imperative, without a full stop.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.0.remedy = Some(remedy.into());
        self
    }

    /// The same error, saying of which store it speaks.
    #[must_use]
    pub(crate) fn at(mut self, store: &str) -> Self {
        if !self.0.message.contains(store) {
            self.0.message = format!("{store}: {}", self.0.message);
        }
        self
    }

    /// The same error, with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// The same error, about this lock; an error that names a lock keeps its own.
    #[must_use]
    pub fn about(mut self, name: LockName) -> Self {
        self.0.name.get_or_insert(name);
        self
    }

    /// The same error for those who see only the names behind a prefix; a name outside is not shown to them.
    #[must_use]
    pub(crate) fn within(mut self, prefix: &str) -> Self {
        self.0.name = self.0.name.and_then(|name| name.within(prefix));
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the operation may have happened.
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// The lock that it is about, if it is about one.
    pub fn name(&self) -> Option<&LockName> {
        self.0.name.as_ref()
    }

    /// Whether the same call can succeed later without anybody changing a program or a setting.
    pub fn is_retryable(&self) -> bool {
        use ErrorKind::{Conflict, Lost, Mismatch, QueueFull, SessionLost, Timeout, Unavailable};
        matches!(self.0.kind, Timeout | Unavailable | Lost | SessionLost | Mismatch | QueueFull | Conflict)
    }

    /// Why the lock was lost, for [`ErrorKind::Lost`].
    pub fn lost_reason(&self) -> Option<&LostReason> {
        self.0.lost.as_ref()
    }

    /// What happened, without the lock and the remedy.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What the reader can do about it.
    pub fn remedy(&self) -> Option<&str> {
        self.0.remedy.as_deref()
    }
}

/// Equal are those that say the same.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl Eq for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { name, message, remedy, .. } = &*self.0;
        if let Some(name) = name {
            write!(f, "lock {:?}: ", name.as_str())?;
        }
        f.write_str(message)?;
        if let Some(remedy) = remedy {
            write!(f, ". Try: {remedy}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, effect, source, .. } = &*self.0;
        write!(f, "{kind:?}(effect: {effect:?}): {self}")?;
        match source {
            Some(source) => write!(f, " [caused by: {source}]"),
            None => Ok(()),
        }
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|s| &**s as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_that_names_the_lock_and_ends_with_the_remedy() {
        let error = Error::new(ErrorKind::Unavailable, "redis://10.0.0.5:6379 did not answer within 3 s (4 tries)")
            .with_remedy("lockkeeper doctor")
            .about("stock/42".parse().unwrap());
        assert_eq!(
            error.to_string(),
            "lock \"stock/42\": redis://10.0.0.5:6379 did not answer within 3 s (4 tries). Try: lockkeeper doctor"
        );
        assert!(error.is_retryable());
        assert_eq!(error.clone().with_unknown_effect().effect(), Effect::Unknown);
    }

    #[test]
    fn busy_is_never_unavailable() {
        assert_ne!(ErrorKind::Timeout, ErrorKind::Unavailable);
        assert!(!Error::invalid("no").is_retryable());
    }
}
