//! Where the lines of a page run.

use std::cell::Cell;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::{Store, binary, script, stderr, stdout};

/// The programs of the reader: each ends at once, and has succeeded.
const PROGRAMS: &[&str] = &[
    "deploy.sh",
    "backup.sh",
    "migrate",
    "nightly.sh",
    "report.sh",
    "scheduler",
    "step1",
    "step2",
];

/// The store that a page names for several hosts.
const SERVER: &str = "redis://10.0.0.5";

/// A folder with a file store and the programs of the reader.
pub(super) struct Stage {
    store: Store,
    records: Cell<u32>,
    terminals: Cell<u32>,
}

impl Stage {
    pub(super) fn new() -> Self {
        let store = Store::new();
        for name in PROGRAMS {
            script(&store.path(name), "#!/bin/sh\nexit 0\n");
        }
        Self { store, records: Cell::new(0), terminals: Cell::new(0) }
    }

    /// A shell that runs this.
    pub(super) fn shell(&self, text: &str) -> Command {
        let text =
            text.replace(SERVER, &self.store.url()).replace("/opt/", "./").replace("/app/", "./");
        let programs = binary().parent().unwrap().display();
        let database = self.store.database();
        let folder = database.parent().unwrap();
        let mut command = Command::new("sh");
        command.arg("-c").arg(text).current_dir(folder).stdin(Stdio::null()).env_clear();
        command
            .env("PATH", format!("{}:{programs}:/usr/local/bin:/usr/bin:/bin", folder.display()));
        command
            .env("HOME", folder)
            .env("TMPDIR", folder)
            .env("LOCKKEEPER_CONFIG", "/dev/null")
            .env("LOCKKEEPER_STORE", self.store.url());
        command
            .env("CI_JOB_URL", "https://ci/jobs/4711")
            .env("GITHUB_RUN_ID", "4711")
            .env("RUNNER_TEMP", folder);
        command
    }

    /// Runs a script, of which each line has to succeed.
    pub(super) fn run(&self, text: &str, location: &str) {
        let output = self.shell(&format!("set -ex\n{text}")).output().unwrap();
        assert!(
            output.status.success(),
            "{location}: {}\n{}{}",
            output.status,
            stdout(&output),
            stderr(&output)
        );
    }

    /// The path of a new file, for the test's own use.
    pub(super) fn record(&self) -> PathBuf {
        self.store.path(&format!(".record-{}", next(&self.records)))
    }

    /// The number of the next terminal that goes on, from 1.
    pub(super) fn terminal(&self) -> u32 {
        next(&self.terminals)
    }
}

fn next(counter: &Cell<u32>) -> u32 {
    counter.set(counter.get() + 1);
    counter.get()
}
