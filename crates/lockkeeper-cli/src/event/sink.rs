//! The targets of lines. A thread writes the lines, so that a slow or stuck reader cannot delay a
//! renewal or the end of a command.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::textfile::Textfile;
use super::{Event, Target, line};
use crate::exit::Failure;
use crate::output::complaint;
use crate::runtime;
use crate::this_process::stop_at_output;

/// How many lines a stuck reader may be behind; further lines are lost to this reader, and counted.
const BACKLOG: usize = 4096;
/// How long the last lines may take to be written for a slow reader.
pub(crate) const LAST_LINES: Duration = Duration::from_secs(1);

/// One file that lines are written to.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    tasks: SyncSender<Task>,
    /// How many lines were lost since the last one that was taken.
    missing: Arc<AtomicU64>,
    /// Whether programs read the lines.
    json: bool,
}

#[derive(Debug)]
enum Task {
    Write(String),
    /// Reports that all lines before it are written.
    Flush(SyncSender<()>),
}

impl Sink {
    fn to(
        file: OwnedFd,
        json: bool,
        on_error: impl FnMut(Errno) + Send + 'static,
    ) -> Result<Self, Failure> {
        let (tasks, todo) = sync_channel(BACKLOG);
        runtime::thread("lockkeeper-out", move || work(&file, &todo, on_error))?;
        Ok(Self { tasks, missing: Arc::default(), json })
    }

    /// Stderr. An error on stderr cannot be reported anywhere.
    pub(crate) fn stderr(json: bool) -> Result<Self, Failure> {
        let file = io::stderr()
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| runtime::refused("stderr", &error))?;
        Self::to(file, json, |_| {})
    }

    /// In one write, so that lines of several processes do not mix.
    pub(crate) fn write(&self, text: String) {
        let missing = self.missing.swap(0, Ordering::Relaxed);
        let text = if missing == 0 { text } else { self.gap(missing) + &text };
        if self.tasks.try_send(Task::Write(text)).is_err() {
            self.missing.fetch_add(missing + 1, Ordering::Relaxed);
        }
    }

    /// The line in the place of missing lines.
    fn gap(&self, lines: u64) -> String {
        if self.json {
            return line("", &Event::LinesLost { lines }, Timestamp::now());
        }
        complaint(&format!("{lines} lines are missing here: the reader of stderr was too slow"))
    }

    /// Waits until all is written, but not for longer than this.
    pub(crate) fn flush(&self, limit: Duration) {
        if self.missing.load(Ordering::Relaxed) > 0 {
            self.write(String::new());
        }
        let (done, wait) = sync_channel(1);
        if self.tasks.try_send(Task::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(limit);
        }
    }
}

/// The library's log, a line at a time.
#[derive(Debug)]
pub(crate) struct Log(pub(crate) Sink);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reader that has gone away is no reason to fail, still less to leave a lock behind; `on_error`
/// gets the first other error.
fn work(file: &OwnedFd, todo: &Receiver<Task>, mut on_error: impl FnMut(Errno)) {
    // The command may have the terminal, which is no reason to stop.
    stop_at_output(false);
    let (mut is_torn, mut has_failed) = (false, false);
    while let Ok(task) = todo.recv() {
        let text = match task {
            Task::Write(text) => text,
            Task::Flush(done) => {
                let _ = done.send(());
                continue;
            }
        };
        // A line that was not written to its end must not be joined with the next line.
        let text = if is_torn { format!("\n{text}") } else { text };
        match write_all(file, text.as_bytes()) {
            Ok(()) => is_torn = false,
            Err((written, error)) => {
                is_torn |= written > 0;
                if error != Errno::PIPE && !has_failed {
                    has_failed = true;
                    on_error(error);
                }
            }
        }
    }
}

/// Another process may have made the file non-blocking.
///
/// # Errors
/// With how much was written.
fn write_all(file: &OwnedFd, bytes: &[u8]) -> Result<(), (usize, Errno)> {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::write(file, &bytes[written..]) {
            Ok(0) => return Err((written, Errno::IO)),
            Ok(more) => written += more,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(file, PollFlags::OUT)], None);
            }
            Err(error) => return Err((written, error)),
        }
    }
    Ok(())
}

/// All that a run writes to.
#[derive(Clone, Debug)]
pub(crate) struct Sinks {
    pub(crate) stderr: Sink,
    /// Events go to stderr, too.
    pub(super) json: bool,
    pub(super) events: Option<Sink>,
    pub(super) textfile: Option<Textfile>,
}

impl Sinks {
    /// Stderr alone, with events if `json`.
    pub(crate) fn stderr(json: bool) -> Result<Self, Failure> {
        Ok(Self { stderr: Sink::stderr(json)?, json, events: None, textfile: None })
    }

    /// And this one for events.
    pub(crate) fn and(self, target: &Target, events: OwnedFd) -> Result<Self, Failure> {
        let (stderr, target) = (self.stderr.clone(), target.to_string());
        let on_error = move |error| {
            stderr.write(complaint(&format!(
                "--events {target}: an event could not be written: {error}"
            )));
        };
        Ok(Self { events: Some(Sink::to(events, true, on_error)?), ..self })
    }

    /// And this file for figures.
    pub(crate) fn and_textfile(self, path: PathBuf) -> Result<Self, Failure> {
        let textfile = Textfile::open(path, self.stderr.clone())?;
        Ok(Self { textfile: Some(textfile), ..self })
    }

    /// Waits until all is written, but not for longer than this.
    pub(crate) fn flush(&self, limit: Duration) {
        if let Some(textfile) = &self.textfile {
            textfile.flush(limit);
        }
        if let Some(events) = &self.events {
            events.flush(limit);
        }
        self.stderr.flush(limit);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    /// How many lines are missing at this line.
    fn missing(line: &str, json: bool) -> usize {
        if json {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(event["event"], "lines_lost");
            return event["lines"].as_u64().unwrap().try_into().unwrap();
        }
        let lines = line.strip_prefix("lockkeeper: ").and_then(|rest| rest.split(' ').next());
        lines.unwrap().parse().unwrap()
    }

    #[test]
    fn lines_lost_to_a_slow_reader_are_counted_at_the_gap() {
        for json in [false, true] {
            let (reader, writer) = io::pipe().unwrap();
            let sink = Sink::to(writer.into(), json, |error| panic!("{error}")).unwrap();
            // More than the queue and the pipe can take together.
            let written = 3 * BACKLOG;
            for number in 0..written {
                sink.write(format!("{number:>64}\n"));
            }
            assert!(sink.missing.load(Ordering::Relaxed) > 0);
            let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
            let (mut next, mut read) = (0, 0);
            while next < written {
                let line = lines.next().unwrap();
                if let Ok(number) = line.trim().parse::<usize>() {
                    assert_eq!(number, next);
                    next += 1;
                    read += 1;
                } else {
                    next += missing(&line, json);
                }
                // The queue has room again: it was full once, and half of it has been read.
                if read == BACKLOG / 2 {
                    sink.write(String::new());
                }
            }
            assert_eq!(next, written);
        }
    }
}
