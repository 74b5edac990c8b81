//! Errors. An error says what went wrong, with which lock, on which store, whether the operation
//! may have happened, and what to do.

use std::fmt;
use std::sync::Arc;

use crate::{LockName, LostReason};

/// The result of every operation that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, for the decisions of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Other holders kept the lock for the whole wait of the attempt.
    Timeout,
    /// The store could not be reached or did not answer. A busy lock is never `Unavailable`.
    Unavailable,
    /// The lock was held and is lost; [`Error::lost_reason`] says why.
    Lost,
    /// The store has forgotten the session that the request belonged to.
    SessionLost,
    /// The lock is in use as another kind of lock (permits beside exclusive or shared), or with a
    /// higher epoch.
    Mismatch,
    /// This store, or this build of lockkeeper, does not support the operation.
    Unsupported,
    /// The store refused the operation: a right is missing.
    Denied,
    /// An argument or a setting is impossible.
    Invalid,
    /// The queue of the lock is full.
    QueueFull,
    /// The attempt would wait for a guard that its own owner holds.
    WouldDeadlock,
    /// Another client changed the value first.
    Conflict,
    /// The keeper belongs to the process that this one was forked from.
    Forked,
    /// The keeper was shut down, or its store is gone for good. The program has to connect again.
    Closed,
    /// A bug in lockkeeper, or in the store.
    Internal,
}

/// Whether a failed operation may have happened in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// The operation did not happen.
    None,
    /// The operation may have happened. lockkeeper cleans up after its own attempts. A program must
    /// not repeat a write blindly.
    Unknown,
}

/// The error of every operation of lockkeeper.
///
/// An error prints as one line without secrets, with the remedy last.
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
    /// An error of this kind, for an operation without an effect. `message` says what happened, in
    /// one line and without secrets.
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

    #[doc(hidden)]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    #[doc(hidden)]
    pub fn lost(name: LockName, reason: LostReason) -> Self {
        let mut error = Self::new(ErrorKind::Lost, format!("the lock was lost: {reason}"))
            .with_remedy("stop working on what it protects, and acquire it again");
        error.0.lost = Some(reason);
        error.about(name)
    }

    /// The same error, for an operation that may have happened.
    #[must_use]
    pub fn with_unknown_effect(mut self) -> Self {
        self.0.effect = Effect::Unknown;
        self
    }

    /// The same error for an operation that changes nothing.
    #[must_use]
    #[doc(hidden)]
    pub fn without_effect(mut self) -> Self {
        self.0.effect = Effect::None;
        self
    }

    /// The same error, with an addition to its message.
    #[must_use]
    #[doc(hidden)]
    pub fn adding(mut self, more: &str) -> Self {
        self.0.message = format!("{}; {more}", self.0.message);
        self
    }

    /// The same error, with a remedy. What to try: a few words that fit after `Try:`, without a
    /// full stop.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.0.remedy = Some(remedy.into());
        self
    }

    /// The same error, with the name of its store.
    #[must_use]
    #[doc(hidden)]
    pub fn at(mut self, store: &str) -> Self {
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

    /// The same error, about this lock. An error that has a lock already keeps that lock.
    #[must_use]
    pub fn about(mut self, name: LockName) -> Self {
        self.0.name.get_or_insert(name);
        self
    }

    /// The same error without the prefix of a lock's name. It does not show a name outside the
    /// prefix.
    #[must_use]
    #[doc(hidden)]
    pub fn within(mut self, prefix: &str) -> Self {
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

    /// The lock that the error is about, if any.
    pub fn name(&self) -> Option<&LockName> {
        self.0.name.as_ref()
    }

    /// Whether the same call can succeed later without a change of the program or of a setting.
    pub fn is_retryable(&self) -> bool {
        use ErrorKind::{Conflict, Lost, Mismatch, QueueFull, SessionLost, Timeout, Unavailable};
        matches!(
            self.0.kind,
            Timeout | Unavailable | Lost | SessionLost | Mismatch | QueueFull | Conflict
        )
    }

    /// The reason for the loss, if the kind is [`ErrorKind::Lost`].
    pub fn lost_reason(&self) -> Option<&LostReason> {
        self.0.lost.as_ref()
    }

    /// What happened, without the lock and the remedy.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The remedy for the reader.
    pub fn remedy(&self) -> Option<&str> {
        self.0.remedy.as_deref()
    }
}

/// Two errors are equal if their texts are.
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
    fn an_error_is_one_line_with_the_lock_and_ends_with_the_remedy() {
        let error = Error::new(
            ErrorKind::Unavailable,
            "redis://10.0.0.5:6379 did not answer within 3 s (4 tries)",
        )
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
