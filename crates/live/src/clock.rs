//! The wall clock of a server. A test moves it, and moves no other clock.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};

use crate::nursery::nursery;
use crate::program::Program;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/shim/clock.c");
const COMPILER: Program = Program { binary: "cc", packages: "gcc libc6-dev", variable: None };

/// The two kinds of clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The clock goes on, with an offset.
    Going,
    /// The clock goes on only when a test moves it.
    Standing,
}

/// The clock of one server: the library that is preloaded into the server reads the offset, or the
/// time, from a file.
#[derive(Debug)]
pub(crate) struct Clock {
    library: &'static Path,
    file: PathBuf,
    kind: Kind,
}

impl Clock {
    /// A clock without an offset, or with the present time if only a test moves it.
    pub(crate) fn new(folder: &Path, kind: Kind) -> Result<Self> {
        let clock = Self { library: library()?, file: folder.join("clock"), kind };
        let number = if kind == Kind::Standing { now()? } else { 0 };
        fs::write(&clock.file, number.to_ne_bytes()).context("cannot make a clock")?;
        Ok(clock)
    }

    /// The file with the time, if only a test moves the clock.
    pub(crate) fn standing(&self) -> Option<&Path> {
        (self.kind == Kind::Standing).then_some(&*self.file)
    }

    /// Makes the process that this command starts read this clock.
    pub(crate) fn wind(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.library).env("LOCKKEEPER_LIVE_CLOCK", &self.file);
        if self.kind == Kind::Standing {
            command.env("LOCKKEEPER_LIVE_CLOCK_STANDS", "1");
        }
    }

    /// Moves the clock to this many seconds after the real time, or before it if negative.
    pub(crate) fn set(&self, seconds: i64) -> Result<()> {
        if self.kind == Kind::Standing {
            bail!("a clock that stands has no offset");
        }
        write(&self.file, seconds.checked_mul(1_000_000).context("no clock goes that far")?)
    }
}

/// Microseconds since 1970.
fn now() -> Result<i64> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?)
}

/// Writes eight aligned bytes at once, in place: the server has the file mapped.
pub(crate) fn write(clock: &Path, micros: i64) -> Result<()> {
    let file = OpenOptions::new().write(true).open(clock).context("the clock is gone")?;
    file.write_all_at(&micros.to_ne_bytes(), 0).context("cannot set the clock")
}

/// Compiles the library, once for each test process.
fn library() -> Result<&'static Path> {
    static LIBRARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| compile().map_err(|error| format!("{error:#}")));
    library.as_deref().map_err(|error| anyhow!("{error}"))
}

fn compile() -> Result<PathBuf> {
    let library = nursery()?.folder("clock")?.join("clock.so");
    let mut compiler = Command::new(COMPILER.find()?);
    compiler.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library).arg(SOURCE);
    let output = compiler.output().with_context(|| format!("cannot run {compiler:?}"))?;
    if !output.status.success() {
        bail!("the clock does not compile: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(library)
}
