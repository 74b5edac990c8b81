//! The errors of requests.

use std::fmt;

use redis::ServerError;

use crate::net::Endpoint;

/// Why a request has no answer. The variant says what is known about the effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The request was never written, since there was no connection in time. It had no effect.
    NotSent(String),
    /// The request was written, at least in part, and no answer will come. Its effect is unknown.
    Broken(String),
    /// The server refused the request: `-MOVED 3999 …` has the code `MOVED`.
    Server {
        /// The first word of the error.
        code: String,
        /// The rest of the error.
        message: String,
        /// The server that gave the error, if the store has several.
        by: Option<Who>,
    },
}

/// One of several servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// A server of the data.
    Server(Endpoint),
    /// A Sentinel.
    Sentinel(Endpoint),
}

/// Our code for a server that makes room by forgetting keys. The message is the policy.
pub const FORGETFUL: &str = "maxmemory-policy";

/// Our code for a script that removed a key while its slot was on its way, and used the key again.
/// The key would be made at the other node. The script has done its first half.
pub const HALF_WAY: &str = "non-local-key";
const NON_LOCAL: &str = "cript attempted to access a non local key";
/// Our code for a server on which the user lacks rights that locks need. The message has the
/// refused commands.
pub const LACKING: &str = "rights";
/// The words for [`LACKING`].
pub const LACKS: &str = "the user may not do what locks need";

/// Our code for a Sentinel that was taken for a server. The message is the scheme of Sentinels.
pub const NO_SERVER: &str = "sentinel";
/// The words for [`NO_SERVER`].
pub const IS_SENTINEL: &str = "it is a Sentinel";

/// The words of a script that did not get to its end.
const UNFINISHED: &str = "lockkeeper half-way";

/// The words that a script puts before the error of one line of several (`isolated` in
/// `lua/start.lua`).
const APART: &str = "Error running script: ";

/// How the error begins if a user may not run a command of a script.
const DENIED: &str = "The user executing the script";

impl WireError {
    /// The error with which a server answers.
    pub fn server(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Server { code: code.into(), message: message.into(), by: None }
    }

    /// The same error with the server that gave it, unless that is known.
    pub fn said_by(mut self, who: Who) -> Self {
        if let Self::Server { by, .. } = &mut self {
            by.get_or_insert(who);
        }
        self
    }

    /// Whether the server gave an error with this code.
    pub fn is(&self, wanted: &str) -> bool {
        matches!(self, Self::Server { code, .. } if code == wanted)
    }

    /// The error about a server that removes keys by this policy when it is full.
    pub(super) fn forgetful(policy: &str) -> Self {
        Self::server(FORGETFUL, policy)
    }

    /// Whether the error may pass by itself in a moment: there was no connection, or the server is
    /// not ready.
    pub fn passes(&self) -> bool {
        matches!(self, Self::NotSent(_))
            || ["LOADING", "MASTERDOWN", "BUSY"].iter().any(|code| self.is(code))
    }

    /// Whether the server does not let this user in. That does not pass by itself.
    pub fn turns_away(&self) -> bool {
        ["NOAUTH", "WRONGPASS", "NOPERM", "DENIED", LACKING, NO_SERVER]
            .iter()
            .any(|code| self.is(code))
    }

    /// Whether the server, or what stands before it, has no such command.
    pub fn is_unknown_command(&self) -> bool {
        matches!(self, Self::Server { code, message, .. } if is_unknown_command(code, message))
    }
}

/// The same for the code and the message of an error.
pub fn is_unknown_command(code: &str, message: &str) -> bool {
    code == "ERR" && message.to_ascii_lowercase().starts_with("unknown command")
}

impl From<ServerError> for WireError {
    fn from(error: ServerError) -> Self {
        let (code, message) = (error.code(), error.details().unwrap_or_default());
        // A script that failed half-way has done its first half, whatever was refused.
        let is_inside = code == "ERR"
            && message.starts_with("Error running script")
            && !message.contains(UNFINISHED);
        let (code, message) =
            is_inside.then(|| inside(message)).flatten().unwrap_or((code, message));
        // Redis 7 gives this error without a code.
        let is_denied = code == "ERR" && message.starts_with(DENIED);
        let code = match code {
            "ERR" if is_denied => "NOPERM",
            "ERR" if message.contains(NON_LOCAL) => HALF_WAY,
            code => code,
        };
        Self::server(code, message.trim_end())
    }
}

/// Redis 6.2 puts words of its own before the error of a command inside a script, and gives its own
/// errors no code.
fn inside(message: &str) -> Option<(&str, &str)> {
    if let Some((_, said)) = message.split_once(": -") {
        return Some(said.split_once(' ').unwrap_or((said, "")));
    }
    let one_of_several = message.strip_prefix(APART).and_then(|said| said.split_once(' '));
    if let Some((code, said)) =
        one_of_several.filter(|(code, _)| code.bytes().all(|byte| byte.is_ascii_uppercase()))
    {
        return Some((code, said));
    }
    let from = |words: &str| message.find(words).map(|at| &message[at..]);
    let denied = from(DENIED).map(|said| ("NOPERM", said));
    let down = || from("Lua script attempted to execute").map(|said| ("CLUSTERDOWN", said));
    let half_way = || from(NON_LOCAL).map(|said| (HALF_WAY, said));
    denied.or_else(down).or_else(half_way)
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(why) | Self::Broken(why) => f.write_str(why),
            Self::Server { code, message, .. } if code == LACKING => {
                write!(f, "{LACKS}: {message}")
            }
            Self::Server { code, .. } if code == NO_SERVER => f.write_str(IS_SENTINEL),
            Self::Server { code, message, .. } if message.is_empty() => f.write_str(code),
            Self::Server { code, message, .. } => write!(f, "{code} {message}"),
        }
    }
}

impl std::error::Error for WireError {}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(at) => at.fmt(f),
            Self::Sentinel(at) => write!(f, "the Sentinel {at}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    fn error_of(line: &str) -> WireError {
        let Ok(Value::ServerError(error)) =
            redis::parse_redis_value(format!("-{line}\r\n").as_bytes())
        else {
            panic!("{line} is no error")
        };
        error.into()
    }

    #[test]
    fn an_error_inside_a_redis_6_2_script_has_the_code_of_other_versions() {
        let inside = "ERR Error running script (call to f_6b1b): @user_script:9: @user_script: 9: ";
        for (said, code, message) in [
            (
                "-OOM command not allowed when used memory > 'maxmemory'.",
                "OOM",
                "command not allowed when",
            ),
            (
                "-READONLY You can't write against a read only replica.",
                "READONLY",
                "You can't write",
            ),
            (
                "The user executing the script can't run this command or subcommand",
                "NOPERM",
                "The user executing",
            ),
            (
                "Lua script attempted to execute a command while the cluster is down",
                "CLUSTERDOWN",
                "Lua script",
            ),
        ] {
            let error = error_of(&format!("{inside}{said} "));
            let WireError::Server { code: found, message: rest, .. } = &error else {
                panic!("{error:?}")
            };
            assert!(
                found == code && rest.starts_with(message) && !rest.ends_with(' '),
                "{error:?}"
            );
        }
        for said in [
            "Lua script attempted to access a non local key in a cluster node ",
            "Script attempted to access a non local key in a cluster node",
        ] {
            assert!(error_of(&format!("{inside}{said}")).is(HALF_WAY));
            assert!(
                error_of(&format!("ERR {said} script: 49d06, on @user_script:21.")).is(HALF_WAY)
            );
        }
        assert!(error_of(&format!("{inside}attempt to index a nil value")).is("ERR"));
    }

    #[test]
    fn an_error_of_one_line_of_several_has_its_own_code() {
        let error = error_of("ERR Error running script: WRONGTYPE Operation against a key");
        assert_eq!(error.to_string(), "WRONGTYPE Operation against a key");
        assert!(error_of("ERR Error running script: lockkeeper layout 2").is("ERR"));
        assert!(error_of("ERR Error running script: attempt to index a nil value").is("ERR"));
    }

    #[test]
    fn a_right_missing_inside_a_script_is_reported_as_a_missing_right() {
        let said = "ERR The user executing the script can't run this command or subcommand script: 49d06, on @user_script:21.";
        assert!(error_of(said).is("NOPERM"));
        assert!(error_of("ERR The user has no such key").is("ERR"));
    }

    #[test]
    fn a_command_that_nobody_knows_is_distinguished_from_one_that_is_refused() {
        assert!(
            error_of("ERR unknown command `SPUBLISH`, with args beginning with: `a`, `b`, ")
                .is_unknown_command()
        );
        assert!(error_of("ERR Unknown command").is_unknown_command());
        assert!(
            !error_of("NOPERM this user has no permissions to run the 'spublish' command")
                .is_unknown_command()
        );
        assert!(!error_of("MOVED 5 127.0.0.1:7000").is_unknown_command());
    }
}
