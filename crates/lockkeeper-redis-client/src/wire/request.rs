//! Commands in the form in which they are written.

use std::fmt;
use std::sync::OnceLock;

use bytes::Bytes;
use redis::Cmd;

/// A Lua script, called by its digest. When the server says that it lacks the script, the
/// connection loads it, and repeats the call.
#[derive(Debug)]
pub struct Script {
    text: &'static str,
    digest: OnceLock<String>,
    together: Option<fn() -> Vec<&'static Self>>,
}

impl PartialEq for Script {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Script {}

impl Script {
    /// The script with this text.
    pub const fn new(text: &'static str) -> Self {
        Self { text, digest: OnceLock::new(), together: None }
    }

    /// The same, as a script with which a connection also loads `scripts`. The connection loads
    /// them in this order, behind no request: a server without any of them has all before the
    /// request is sent again.
    pub const fn loaded_with(mut self, scripts: fn() -> Vec<&'static Self>) -> Self {
        self.together = Some(scripts);
        self
    }

    /// The scripts to load if the server lacks this one.
    pub(super) fn to_load(&'static self) -> Vec<&'static Self> {
        let mut scripts = self.together.map(|scripts| scripts()).unwrap_or_default();
        if !scripts.iter().any(|script| std::ptr::eq(*script, self)) {
            scripts.push(self);
        }
        scripts
    }

    /// The text of the script.
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// SHA-1 in hexadecimal: the server's name for the script.
    pub fn digest(&self) -> &str {
        self.digest.get_or_init(|| redis::Script::new(self.text).get_hash().to_owned())
    }
}

/// One command, packed.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// The bytes that are written.
    pub bytes: Bytes,
    pub(super) posted: bool,
    pub(super) script: Option<&'static Script>,
}

impl Request {
    /// A command: its name and its arguments.
    pub fn command(parts: &[&[u8]]) -> Self {
        let mut command =
            Cmd::with_capacity(parts.len(), parts.iter().map(|part| part.len()).sum());
        for part in parts {
            command.arg(*part);
        }
        Self::packed_from(&command)
    }

    /// A call of `script`: `EVALSHA`.
    pub fn eval(script: &'static Script, keys: &[&[u8]], args: &[&[u8]]) -> Self {
        let digest = script.digest();
        let sizes: usize = keys.iter().chain(args).map(|part| part.len()).sum();
        let mut command = Cmd::with_capacity(3 + keys.len() + args.len(), 64 + sizes);
        command.arg("EVALSHA").arg(digest).arg(keys.len());
        for part in keys.iter().chain(args) {
            command.arg(*part);
        }
        Self { script: Some(script), ..Self::packed_from(&command) }
    }

    /// Lets the driver write the request, and never the sender. So a request that follows at once
    /// goes out in the same write.
    pub fn posted(mut self) -> Self {
        self.posted = true;
        self
    }

    fn packed_from(command: &Cmd) -> Self {
        Self { bytes: command.get_packed_command().into(), posted: false, script: None }
    }
}

/// Without the bytes, which may have a password.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("len", &self.bytes.len())
            .field("posted", &self.posted)
            .finish()
    }
}
