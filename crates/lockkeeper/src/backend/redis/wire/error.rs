//! What can come instead of an answer.

use std::fmt;

use redis::ServerError;

/// Why there is no answer. It says what is known of the effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WireError {
    /// It was never written, since there was no connection in time: it has had no effect.
    NotSent(String),
    /// It was written, at least in part, and no answer will come: its effect is unknown.
    Broken(String),
    /// The server refused it: `-MOVED 3999 …` has the code `MOVED`.
    Server {
        /// The first word of the error.
        code: String,
        /// The rest of it.
        message: String,
    },
}

impl WireError {
    /// Whether the server gave an error with this code.
    pub(crate) fn is(&self, wanted: &str) -> bool {
        matches!(self, Self::Server { code, .. } if code == wanted)
    }
}

impl From<ServerError> for WireError {
    fn from(error: ServerError) -> Self {
        let (code, message) = (error.code(), error.details().unwrap_or_default());
        // Redis 6.2 puts what a command said inside a script behind words of its own.
        let inside = message.starts_with("Error running script").then(|| message.split_once(": -")).flatten();
        let (code, message) = match inside {
            Some((_, said)) if code == "ERR" => said.split_once(' ').unwrap_or((said, "")),
            _ => (code, message),
        };
        Self::Server { code: code.to_owned(), message: message.to_owned() }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(why) | Self::Broken(why) => f.write_str(why),
            Self::Server { code, message } if message.is_empty() => f.write_str(code),
            Self::Server { code, message } => write!(f, "{code} {message}"),
        }
    }
}

impl std::error::Error for WireError {}
