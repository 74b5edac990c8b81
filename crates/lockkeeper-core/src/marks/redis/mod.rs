//! The check for data in Redis. The marks are in a hash beside the data. Every access is one
//! script: it compares and raises the marks, and runs a command on the data if the marks let it
//! pass.
//!
//! The functions return a script, its keys and its arguments. They need no driver, and any client
//! can run the script (`EVALSHA`, `EVAL`), in a pipeline too.
//!
//! - **Every access is a [`Call`], reads too** ([`read`](FencedKey::read),
//!   [`write`](FencedKey::write)): the first access of a new holder shuts out all older holders. If
//!   only writes were checked, an old holder's write could still come between a new holder's read
//!   and its write, and an update would be lost.
//! - **The answer is a list.** If it begins with `1`, the access passed, and the answer of the
//!   command follows. If it begins with `0`, the holder has lost its lock, the script did nothing,
//!   and the newer token follows ([`Answer::of`]).
//! - **The marks must not be lost**: give them no expiry, and give the server no eviction policy.
//!   The marks are as durable as the server's data: after a failover with lost writes, an old
//!   holder may pass again.
//!
//! The key belongs to one lock. The tokens of different locks cannot be compared: if a sequencer
//! comes with a request, compare [its name](crate::Sequencer::name) first.
//!
//! ```
//! use lockkeeper::Sequencer;
//! use lockkeeper::fence::redis::{Answer, FencedKey};
//!
//! let stock = FencedKey::new("stock:42")?;
//! // What the holder got with the lock: guard.sequencer().
//! let holder: Sequencer = "lk1.x.34.stock%2F42".parse()?;
//!
//! let read = stock.read(&holder, &["GET"])?;
//! assert_eq!(read.keys, ["{stock:42}:fence", "stock:42"]);
//! // EVAL read.script 2 read.keys… read.args…; the client answers, for instance, [1, "7"]:
//! assert_eq!(Answer::of(1, None)?, Answer::Passed);
//!
//! let write = stock.write(&holder, &["SET", "6"])?;
//! assert_eq!(write.args, [&b"x"[..], b"34", b"SET", b"6"]);
//! // A newer holder was there: [0, "35"].
//! assert_eq!(Answer::of(0, Some("35"))?, Answer::Stale { seen: "35".parse()? });
//! # Ok::<(), lockkeeper::Error>(())
//! ```

#[cfg(test)]
mod tests;

use crate::marks::StaleReason;
use crate::{Error, ErrorKind, FencingToken, Mode, Result, Sequencer};

/// The script of every [`Call`]: `KEYS[1]` the marks, a hash of the fields `any` and `exclusive`;
/// `KEYS[2]` the data; `ARGV[1]` `x` or `s`, `ARGV[2]` the token in decimal, then a command and its
/// arguments after the key, or nothing.
///
/// The script answers `{1, the command's answer}`, `{1}` without a command, or
/// `{0, the newer token}`. It runs on Redis from 6.2 on and on Valkey, in a cluster too.
pub const SCRIPT: &str = include_str!("guard.lua");

/// A script to send, with its keys and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The text for `EVAL`, or for `SCRIPT LOAD`: always [`SCRIPT`].
    pub script: &'static str,
    /// The key of the marks, and the key of the data. In a cluster both are in one slot.
    pub keys: [String; 2],
    /// The arguments.
    pub args: Vec<Vec<u8>>,
}

/// The answer of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// No newer access that conflicts has passed. The script has run the command.
    Passed,
    /// A newer, conflicting access has passed. The script did nothing.
    Stale {
        /// The newest token that conflicts.
        seen: FencingToken,
    },
}

impl Answer {
    /// Reads an answer from its first part, and its second part if the first is 0.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for parts that the script never returns.
    pub fn of(first: i64, second: Option<&str>) -> Result<Self> {
        match (first, second) {
            (1, _) => Ok(Self::Passed),
            (0, Some(seen)) => Ok(Self::Stale { seen: seen.parse()? }),
            _ => Err(Error::invalid(format!(
                "the script of a fenced key does not answer {first}, {second:?}"
            ))
            .with_remedy("the first two parts of its answer")),
        }
    }
}

/// A key with data that a lock protects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencedKey {
    marks: String,
    key: String,
}

impl FencedKey {
    /// The data is under `key`. The marks are under the same key with `:fence` at its end. A key
    /// without a hash tag gets braces (`{key}:fence`), so that a cluster keeps both keys in one
    /// slot.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for an empty key, and for a key with braces that are no hash
    /// tag: in a cluster its marks would be in another slot.
    pub fn new(key: &str) -> Result<Self> {
        let tag = key
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'))
            .is_some_and(|(tag, _)| !tag.is_empty());
        if key.is_empty() || (key.contains(['{', '}']) && !tag) {
            return Err(Error::invalid(format!("{key:?} cannot be a fenced key")).with_remedy(
                "a key that is not empty, whose braces, if any, are a hash tag: {tag}",
            ));
        }
        let marks = if tag { format!("{key}:fence") } else { format!("{{{key}}}:fence") };
        Ok(Self { marks, key: key.to_owned() })
    }

    /// The key of the marks.
    #[doc(hidden)]
    pub fn marks(&self) -> &str {
        &self.marks
    }

    /// The key of the data.
    #[doc(hidden)]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The check alone, for an access to another resource than the key. The access has to follow at
    /// once: after a pause between the two, it may come too late.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for permits, which no order of tokens can check.
    pub fn admit(&self, holder: &Sequencer) -> Result<Call> {
        self.read(holder, &[] as &[&str])
    }

    /// The check and a command that reads the key. `command` has the name of the command and its
    /// arguments after the key (`["GET"]`, `["HGET", "field"]`).
    ///
    /// # Errors
    /// As [`admit`](Self::admit).
    pub fn read<A: AsRef<[u8]>>(&self, holder: &Sequencer, command: &[A]) -> Result<Call> {
        let mode = match holder.mode() {
            Mode::Exclusive => "x",
            Mode::Shared => "s",
            Mode::Permits(_) => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!("{holder} {}", StaleReason::NoGate),
                ));
            }
        };
        let mut args = vec![mode.as_bytes().to_vec(), holder.token().to_string().into_bytes()];
        args.extend(command.iter().map(|part| part.as_ref().to_vec()));
        Ok(Call { script: SCRIPT, keys: [self.marks.clone(), self.key.clone()], args })
    }

    /// The check and a command that writes the key. `command` has the name of the command and its
    /// arguments after the key (`["SET", "6"]`, `["HSET", "field", "value"]`, `["DEL"]`).
    ///
    /// # Errors
    /// As [`admit`](Self::admit); [`Invalid`](ErrorKind::Invalid) for the holder of a read lock:
    /// other readers hold the lock at the same time.
    pub fn write<A: AsRef<[u8]>>(&self, holder: &Sequencer, command: &[A]) -> Result<Call> {
        if holder.mode() == Mode::Shared {
            let problem = Error::invalid("the holder of a read lock may not write")
                .about(holder.name().clone());
            return Err(problem.with_remedy("the write lock, or read() where nothing is written"));
        }
        self.read(holder, command)
    }
}
