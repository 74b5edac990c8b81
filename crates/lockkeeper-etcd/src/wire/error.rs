//! The errors of a request, by what is known of its effect.

use std::error::Error as StdError;
use std::{fmt, io};

use tonic::{Code, Status};

use crate::net::{self, WANTS_CERTIFICATE};

/// What etcd says of a token from before the last change of users or roles; with `--auth-token=jwt`
/// of every one.
pub(crate) const OLD_TOKEN: &str = "revision of auth store is old";
/// The same words where etcd does not translate them.
pub(crate) const OLD_TOKEN_ITSELF: &str = "revision in header is old";

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(crate) enum WireError {
    /// The request was not sent: there is no connection.
    NotSent(Cut),
    /// etcd may have processed the request.
    Broken(Cut),
    /// etcd refuses the request.
    Refused {
        /// The kind of refusal.
        code: Code,
        /// etcd's words.
        message: String,
    },
}

/// The problem with a connection.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// What the system or the HTTP/2 library says.
    pub(crate) why: String,
    /// The member has answered this client before: its address and its TLS are right.
    pub(crate) has_answered: bool,
}

impl WireError {
    /// A request to a member that has not answered yet.
    pub(crate) fn not_sent(why: impl Into<String>) -> Self {
        Self::NotSent(Cut { why: why.into(), has_answered: false })
    }

    /// The same for a request that etcd may have processed.
    pub(crate) fn broken(why: impl Into<String>) -> Self {
        Self::Broken(Cut { why: why.into(), has_answered: false })
    }

    /// The same error of a member that has answered before.
    pub(crate) fn after_an_answer(mut self) -> Self {
        if let Self::NotSent(cut) | Self::Broken(cut) = &mut self {
            cut.has_answered = true;
        }
        self
    }

    /// Whether another member may do better.
    pub(crate) fn is_the_members_fault(&self) -> bool {
        match self {
            Self::NotSent(_) | Self::Broken(_) => true,
            Self::Refused { code, .. } => *code == Code::Unavailable,
        }
    }

    /// Whether the token of the request is no longer valid: etcd has done nothing.
    pub(super) fn is_of_an_old_token(&self) -> bool {
        let Self::Refused { code, message } = self else { return false };
        *code == Code::Unauthenticated
            || message.contains(OLD_TOKEN)
            || message.contains(OLD_TOKEN_ITSELF)
    }

    /// Whether the database is full.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(self, Self::Refused { code: Code::ResourceExhausted, message } if message.contains("space exceeded"))
    }

    /// Whether there is a lease already that was to be made.
    pub(crate) fn is_lease_there(&self) -> bool {
        matches!(self, Self::Refused { message, .. } if message.contains("lease already exists"))
    }

    /// Whether the request names a lease that has ended.
    pub(crate) fn is_no_lease(&self) -> bool {
        matches!(self, Self::Refused { code: Code::NotFound, message } if message.contains("lease not found"))
    }
}

impl From<Status> for WireError {
    fn from(status: Status) -> Self {
        if let Some(unreachable) = cause::<Unreachable>(&status) {
            return Self::not_sent(unreachable.0.clone());
        }
        // The server judges the client's certificate only after the handshake of the client, and
        // has read no request then.
        if let Some(said) = cause::<io::Error>(&status)
            .map(net::said)
            .filter(|said| said.contains(WANTS_CERTIFICATE))
        {
            return Self::not_sent(said);
        }
        // An error of etcd has no cause, and an error of the connection has one.
        match status.code() {
            _ if status.source().is_some() => Self::broken(last_cause(&status)),
            Code::Cancelled | Code::DeadlineExceeded | Code::Unknown
                if !status.message().starts_with("etcdserver") =>
            {
                Self::broken(format!("the request was given up: {}", status.message()))
            }
            code => Self::Refused { code, message: status.message().to_owned() },
        }
    }
}

/// A connection could not be made.
#[derive(Debug)]
pub(super) struct Unreachable(pub(super) String);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Unreachable {}

fn cause<E: StdError + 'static>(status: &Status) -> Option<&E> {
    let mut next = status.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

fn last_cause(status: &Status) -> String {
    let mut last: &dyn StdError = status;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}
