//! `--metrics-textfile`: the state of the locks of this run, as gauges for node exporter's textfile
//! collector.
//!
//! The file belongs to the last run that got its locks: a start that finds them held leaves the
//! figures of the holding run as they are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tempfile::NamedTempFile;

use super::{Event, Sink};
use crate::exit::Failure;
use crate::output::complaint;
use crate::runtime;

/// Each gauge with its help. A run has a value for some of them.
const GAUGES: [(&str, &str); 7] = [
    ("lockkeeper_run_held", "1 while the run holds the lock"),
    ("lockkeeper_run_acquired_timestamp_seconds", "When the run acquired the lock"),
    ("lockkeeper_run_waited_seconds", "How long the run waited for the lock"),
    ("lockkeeper_run_hold_seconds", "How long the run held the lock that it released last"),
    ("lockkeeper_run_lost", "1 when the run lost the lock"),
    ("lockkeeper_run_end_timestamp_seconds", "When the run ended"),
    ("lockkeeper_run_exit_code", "The exit code of the run"),
];
/// The indices of the gauges.
const HELD: usize = 0;
const ACQUIRED: usize = 1;
const WAITED: usize = 2;
const HOLD: usize = 3;
const LOST: usize = 4;
const END: usize = 5;
const CODE: usize = 6;

/// The file. A thread of its own writes it: a slow disk must not delay a renewal.
#[derive(Clone, Debug)]
pub(crate) struct Textfile {
    locks: Arc<Mutex<Locks>>,
    tasks: Sender<Task>,
}

/// The gauges of each lock.
type Locks = BTreeMap<String, [Option<f64>; GAUGES.len()]>;

enum Task {
    Write(String),
    /// Reports that all changes before it are written.
    Flush(SyncSender<()>),
}

impl Textfile {
    /// # Errors
    /// Fails if the file cannot be written now: later no user may be there to see the error.
    pub(super) fn open(path: PathBuf, stderr: Sink) -> Result<Self, Failure> {
        let (tasks, todo) = channel();
        try_to_write(&path).map_err(|error| {
            let remedy =
                "a path in the folder of --collector.textfile.directory in which you may write";
            Failure::config(format!(
                "--metrics-textfile {path:?}: it cannot be written: {error}. Try: {remedy}"
            ))
        })?;
        runtime::thread("lockkeeper-figures", move || work(&path, &todo, &stderr))?;
        Ok(Self { locks: Arc::default(), tasks })
    }

    /// Takes an event of a lock. The file is not written before the first lock is acquired.
    pub(super) fn note(&self, lock: &str, event: &Event<'_>, now: Timestamp) {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if locks.is_empty() && !matches!(event, Event::Acquired { .. }) {
            return;
        }
        let gauges = locks.entry(lock.to_owned()).or_default();
        let mut set = |gauge: usize, value: f64| gauges[gauge] = Some(value);
        let time = now.as_millisecond() as f64 / 1000.0;
        match event {
            Event::Acquired { waited_ms, .. } => {
                set(HELD, 1.0);
                set(ACQUIRED, time);
                set(WAITED, seconds(*waited_ms));
                set(LOST, 0.0);
            }
            Event::Released { held_ms } => {
                set(HELD, 0.0);
                set(HOLD, seconds(*held_ms));
            }
            Event::Lost { .. } => {
                set(HELD, 0.0);
                set(LOST, 1.0);
            }
            Event::Exited { code, .. } => {
                set(HELD, 0.0);
                set(END, time);
                set(CODE, f64::from(*code));
            }
            _ => return,
        }
        let _ = self.tasks.send(Task::Write(text(&locks)));
    }

    /// Waits until all is written, but not for longer than this.
    pub(super) fn flush(&self, limit: Duration) {
        let (done, wait) = sync_channel(1);
        if self.tasks.send(Task::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(limit);
        }
    }
}

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}

/// In the text format of Prometheus.
fn text(locks: &Locks) -> String {
    let mut text = String::new();
    for (position, (name, help)) in GAUGES.iter().enumerate() {
        let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} gauge");
        for (lock, gauges) in locks {
            if let Some(value) = gauges[position] {
                let lock = lock.replace('\\', r"\\").replace('"', "\\\"");
                let _ = writeln!(text, "{name}{{lock=\"{lock}\"}} {value}");
            }
        }
    }
    text
}

/// Only the latest text is worth writing.
fn work(path: &Path, todo: &Receiver<Task>, stderr: &Sink) {
    let mut has_failed = false;
    while let Ok(task) = todo.recv() {
        let mut flushed = Vec::new();
        let mut latest = None;
        for task in std::iter::once(task).chain(todo.try_iter()) {
            match task {
                Task::Write(text) => latest = Some(text),
                Task::Flush(done) => flushed.push(done),
            }
        }
        let written = latest.map_or(Ok(()), |text| write(path, &text));
        if let (Err(error), false) = (written, has_failed) {
            has_failed = true;
            stderr.write(complaint(&format!(
                "--metrics-textfile {path:?}: it could not be written: {error}"
            )));
        }
        for done in flushed {
            let _ = done.send(());
        }
    }
}

/// Writes the file as a whole: the collector never reads a part. Other users may read the file.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = beside(path)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    file.persist(path)?;
    Ok(())
}

/// Checks whether the file can be written, without writing it: the file may belong to a run that
/// holds the lock.
fn try_to_write(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    drop(beside(path)?);
    Ok(())
}

/// A file that will replace it.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    NamedTempFile::new_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_quote_is_a_label_all_the_same() {
        let mut locks = Locks::new();
        locks.entry(r#"a"\b"#.to_owned()).or_default()[HELD] = Some(1.0);
        let text = text(&locks);
        assert!(text.contains(r#"lockkeeper_run_held{lock="a\"\\b"} 1"#), "{text}");
    }
}
