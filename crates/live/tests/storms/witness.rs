//! The witness outside: each holder takes `flock(LOCK_NB)` on a file of the lock's name as well.
//! The kernel sees two holders without a line of lockkeeper's code.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::{Error, ErrorKind, FencingToken, Result};
use lockkeeper_testing::history::{Ask, Contestant, Held};
use rustix::fs::{FlockOperation, flock};
use rustix::time::{ClockId, clock_gettime};

/// The file with two holders at once, and with impossible answers.
const VIOLATIONS: &str = "violations";

/// How often a note is read while its writer is about to write it.
const READS: usize = 50;

/// A contestant with grants that the witness sees.
pub(crate) struct Witnessed {
    pub(crate) inner: Arc<dyn Contestant>,
    pub(crate) folder: PathBuf,
    pub(crate) lock: String,
}

#[async_trait]
impl Contestant for Witnessed {
    async fn acquire(&self, ask: Ask) -> Result<Option<Box<dyn Held>>> {
        let Some(held) = self.inner.acquire(ask).await.map_err(|error| self.noted(error))? else {
            return Ok(None);
        };
        let file = self.testify(&*held);
        Ok(Some(Box::new(Seen { file, held })))
    }
}

impl Witnessed {
    /// An answer that does not fit the request belongs to another request: the next answer may look
    /// like a grant. It is recorded, and the storm goes on.
    fn noted(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Internal {
            return error;
        }
        violation(&self.folder, &format!("{}: {error}", self.lock));
        Error::new(ErrorKind::Unavailable, error.to_string()).with_unknown_effect()
    }

    /// Takes the file of the lock, or records that another holder has it.
    fn testify(&self, held: &dyn Held) -> Option<Testimony> {
        let path = self.folder.join(self.lock.replace('/', "_"));
        let mut options = OpenOptions::new();
        let mut file =
            options.create(true).truncate(false).read(true).write(true).open(path).unwrap();
        // A lock that is not valid needs no witness.
        let remaining = held.believed()?;
        let mine = Note {
            process: std::process::id(),
            token: held.token().to_string(),
            now: now(),
            until: None,
        };
        let mine = Note { until: Some(mine.now + remaining), ..mine };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            mine.write(&mut file);
            return Some(Testimony(file));
        }
        let other = Note::read(&mut file)?;
        // A process that was stopped may have the file for longer than its lock is valid.
        if other.until > Some(now()) && held.believed().is_some() {
            violation(&self.folder, &format!("{}: {mine} beside {other}", self.lock));
        }
        None
    }
}

/// A lock and its file. The file is released first.
struct Seen {
    file: Option<Testimony>,
    held: Box<dyn Held>,
}

#[async_trait]
impl Held for Seen {
    fn token(&self) -> FencingToken {
        self.held.token()
    }

    fn believed(&self) -> Option<Duration> {
        self.held.believed()
    }

    async fn release(self: Box<Self>) -> Result<()> {
        let Self { file, held } = *self;
        drop(file);
        held.release().await
    }

    async fn downgrade(self: Box<Self>) -> (Box<dyn Held>, Result<()>) {
        panic!("a mutex is not shared")
    }

    async fn upgrade(self: Box<Self>) -> Result<(Box<dyn Held>, bool)> {
        panic!("a mutex is not shared")
    }
}

/// A locked file, with a note of its holder. Dropping it empties and unlocks the file.
struct Testimony(File);

impl Drop for Testimony {
    fn drop(&mut self) {
        self.0.set_len(0).unwrap();
        flock(&self.0, FlockOperation::Unlock).unwrap();
    }
}

/// The holder of a lock, and the end of its validity.
struct Note {
    process: u32,
    token: String,
    now: Duration,
    until: Option<Duration>,
}

impl Note {
    fn write(&self, file: &mut File) {
        let until = self.until.unwrap_or_default().as_nanos();
        let text = format!("{} {} {} {until}\n", self.process, self.token, self.now.as_nanos());
        file.set_len(0).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// `None` before the note is written, and for a process that was killed.
    fn read(file: &mut File) -> Option<Self> {
        for _ in 0..READS {
            let mut text = String::new();
            file.rewind().unwrap();
            file.read_to_string(&mut text).unwrap();
            if let Some(note) = Self::parse(&text) {
                return Path::new(&format!("/proc/{}", note.process)).exists().then_some(note);
            }
            std::thread::yield_now();
        }
        None
    }

    fn parse(text: &str) -> Option<Self> {
        let words: Vec<_> = text.strip_suffix('\n')?.split(' ').collect();
        let [process, token, now, until] = words.try_into().ok()?;
        let time = |nanos: &str| nanos.parse().ok().map(Duration::from_nanos);
        Some(Self {
            process: process.parse().ok()?,
            token: token.to_owned(),
            now: time(now)?,
            until: time(until),
        })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, token, now, until } = self;
        let until = until.unwrap_or_default();
        write!(
            f,
            "process {process} with token {token} since {now:?}, which believes until {until:?}"
        )
    }
}

fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// One line at a time, at the end.
fn violation(folder: &Path, line: &str) {
    let mut file =
        OpenOptions::new().create(true).append(true).open(folder.join(VIOLATIONS)).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// All cases of two holders at once, or of an impossible answer.
pub(crate) fn violations(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join(VIOLATIONS)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
