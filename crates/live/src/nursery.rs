//! The processes and files of the test process, which end with it, however it ends.
//!
//! All servers are members of one process group, the group of a watchdog: a shell that reads from a
//! pipe. Only the test process has the other end of the pipe. At the end of the pipe the shell
//! kills the group and removes the folder. A signal at the parent's death (`PR_SET_PDEATHSIG`)
//! would come too early: the kernel sends it at the end of the *thread* that started the child, and
//! every test is a thread.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, anyhow};

/// Waits for the end of the test process. The kernel sends HUP to a group whose last parent ends
/// while a member of the group is stopped. The process that ends the group must not be in the
/// group, so it has its own session. The kill is repeated because a server may be about to join.
const WATCHDOG: &str = r#"
trap '' HUP INT QUIT TERM
while read -r _; do :; done
exec setsid sh -c '
    tries=0
    while kill -s KILL -- "-$1" 2>/dev/null && [ "$tries" -lt 100 ]; do
        tries=$((tries + 1))
        sleep 0.01
    done
    rm -rf -- "$2"
' watchdog "$$" "$1"
"#;

/// The group and the folder of this process.
#[derive(Debug)]
pub(crate) struct Nursery {
    folder: PathBuf,
    group: i32,
    folders: AtomicU32,
    /// Closed by the kernel when this process ends.
    _alive: ChildStdin,
}

/// The nursery of this process.
///
/// # Errors
/// When the watchdog cannot be started.
pub(crate) fn nursery() -> Result<&'static Nursery> {
    static NURSERY: OnceLock<Result<Nursery, String>> = OnceLock::new();
    let nursery = NURSERY.get_or_init(|| Nursery::open().map_err(|error| format!("{error:#}")));
    nursery.as_ref().map_err(|error| anyhow!("{error}"))
}

impl Nursery {
    fn open() -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("lockkeeper-live-")
            .tempdir()
            .context("no folder for servers")?;
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(folder.path())
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the shell that ends the servers with the test")?;
        let group = i32::try_from(watchdog.id()).context("a process id is a positive number")?;
        let alive = watchdog.stdin.take().context("the watchdog has no input")?;
        // From here on, the watchdog removes the folder.
        Ok(Self { folder: folder.keep(), group, folders: AtomicU32::new(0), _alive: alive })
    }

    /// A new folder, which is removed with the process at the latest. Its path is short: the folder
    /// will contain a socket.
    pub(crate) fn folder(&self, what: &str) -> Result<PathBuf> {
        let number = self.folders.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(format!("{what}-{number}"));
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// Makes the process that this command starts end with this process.
    pub(crate) fn adopt<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.process_group(self.group)
    }
}
