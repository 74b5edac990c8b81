//! Records histories, in memory or in a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Call, Entry, History, Outcome, What};
use lockkeeper::time::Clock;

/// Records what the clients of one process do. Clones write to the same history.
///
/// All recorders of a history must read the same clock: processes of one host share
/// [`Clock::boot`].
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    process: String,
    book: Mutex<Book>,
}

#[derive(Debug)]
struct Book {
    last: u64,
    operations: u64,
    entries: Vec<Entry>,
    file: Option<File>,
}

impl Recorder {
    /// Records in memory. No other recorder of the history may have the name `process`.
    pub fn new(clock: Clock, process: &str) -> Self {
        Self::with(clock, process, None)
    }

    /// Records in a file too, one JSON object on a line. The kernel gets each line before the
    /// operation goes on, so a killed process leaves operations that have begun and never ended.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn to_file(clock: Clock, process: &str, path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self::with(clock, process, Some(file)))
    }

    fn with(clock: Clock, process: &str, file: Option<File>) -> Self {
        let book = Book { last: 0, operations: 0, entries: Vec::new(), file };
        Self(Arc::new(Inner { clock, process: process.to_owned(), book: Mutex::new(book) }))
    }

    /// Records that an operation begins. Returns the number of the operation.
    pub fn call(&self, client: &str, lock: &str, call: Call) -> u64 {
        let mut book = self.0.book.lock().unwrap();
        book.operations += 1;
        let op = book.operations;
        let what = What::Call { client: client.to_owned(), lock: lock.to_owned(), call };
        self.write(&mut book, self.0.clock.now().as_nanos(), op, what);
        op
    }

    /// Records that an operation has ended.
    pub fn ret(&self, op: u64, outcome: Outcome) {
        let mut book = self.0.book.lock().unwrap();
        self.write(&mut book, self.0.clock.now().as_nanos(), op, What::Return(outcome));
    }

    /// Looks at the lock that this operation acquired: `look` returns the remaining time of the
    /// lock, or `None` once the lock is lost. Returns whether the lock is still held. The recorded
    /// moment is the moment before the look.
    pub fn look(&self, op: u64, look: impl FnOnce() -> Option<Duration>) -> bool {
        let now = self.0.clock.now();
        let Some(remaining) = look() else { return false };
        let until = (now + remaining).as_nanos();
        self.write(&mut self.0.book.lock().unwrap(), now.as_nanos(), op, What::Holds { until });
        true
    }

    /// The history so far.
    pub fn history(&self) -> History {
        History::new(self.0.book.lock().unwrap().entries.clone())
    }

    /// No two entries of one recorder have the same time, so their order is known on virtual time
    /// too.
    fn write(&self, book: &mut Book, now: u64, op: u64, what: What) {
        // A look has happened before it is written, and another entry may have come between. The
        // look keeps its own time.
        let is_look = matches!(what, What::Holds { .. });
        let at = if is_look { now } else { now.max(book.last + 1) };
        book.last = book.last.max(at);
        let entry = Entry { at, process: self.0.process.clone(), op, what };
        if let Some(file) = &mut book.file {
            let mut line = serde_json::to_vec(&entry).expect("an entry is plain data");
            line.push(b'\n');
            file.write_all(&line).expect("the history can be written");
        }
        book.entries.push(entry);
    }
}
