//! Checks without opening the database: its file system, its owners, its disk, and its gate.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockkeeper_core::kit::{Row, fail, judged, ok, warn, warn_if};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::Error;
use crate::builder::Beside;
use crate::checks::{self, Check};
use crate::files::{private, scratch, suffixed, sweep};
use crate::filesystem::{self, OVERLAY, RAMFS, TMPFS};
use crate::liveness::Clients;
use crate::store::{Finding, median};
use crate::time::{self, Clock};

const WRITES: usize = 15;
/// So old is the file of another check only if its process was killed.
const ABANDONED: Duration = Duration::from_secs(3600);
/// The size of SQLite's writes.
const PAGE: [u8; 4096] = [b'l'; 4096];
/// Each lock and each release waits for the disk once.
const SLOW_DISK: Duration = Duration::from_millis(20);
/// For how long at most a gate that is closed is tried, and how often.
const GATE_LIMIT: Duration = Duration::from_secs(1);
const GATE_LOOKS: u32 = 50;
/// The kernel lists its locks a page at a time, and omits some if others end between two pages.
const LOCKS_READS: usize = 5;
const FILE_SYSTEM: &str = "file system";
const PERMISSIONS: &str = "permissions";

static CHECKS: [Row<Place>; 5] = [
    ("database", |place| Some(database(&place.path, place.is_there))),
    ("file system", |place| Some(file_system(&place.folder, &place.waived))),
    ("permissions", |place| {
        Some(permissions(place).unwrap_or_else(|error| Finding::failed(PERMISSIONS, &error)))
    }),
    ("disk", |place| place.has_folder().then(|| disk(&place.path))),
    ("gate", |place| {
        place.is_there.then(|| gate(&Beside::of(&place.path).gate, place.within)).flatten()
    }),
];

/// Where the file is, or will be.
struct Place {
    path: PathBuf,
    /// The folder of the file, or the nearest existing folder above.
    folder: PathBuf,
    is_there: bool,
    waived: Vec<Check>,
    /// How long a closed gate is tried.
    within: Duration,
}

impl Place {
    fn has_folder(&self) -> bool {
        self.path.parent() == Some(&self.folder)
    }
}

/// The results of the checks.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) findings: Vec<Finding>,
    /// Files of clients with ended processes.
    pub(super) dead_clients: usize,
    /// Whether there is a database that is worth opening.
    pub(super) can_be_opened: bool,
}

pub(super) fn look(path: &Path, waived: &[Check], within: Duration) -> Looked {
    let path = whole(path);
    let folder = path
        .ancestors()
        .skip(1)
        .find(|folder| folder.is_dir())
        .unwrap_or(Path::new("/"))
        .to_owned();
    let (is_there, within) = (path.exists(), GATE_LIMIT.min(within / 2));
    let place = Place { path, folder, is_there, waived: waived.to_vec(), within };
    let findings = judged(&CHECKS, &place);
    let can_be_opened = is_there && findings.iter().all(|found| found.check != "gate");
    // A file that is being made at this moment counts too: it is not locked yet.
    let dead_clients = Clients::new(Beside::of(&place.path).live).dead(usize::MAX).len();
    Looked { findings, dead_clients, can_be_opened }
}

/// The path without links, for its existing part.
fn whole(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.canonicalize().unwrap_or(absolute)
}

fn database(path: &Path, is_there: bool) -> Finding {
    let size = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.len().div_ceil(1024));
    if !is_there {
        let finding = format!("file:{} is not there yet", path.display());
        return warn(finding, "nothing: the first run makes it");
    }
    let (file, log) = (size(path), size(&suffixed(path, "-wal")));
    ok(format!("file:{}, {file} KiB, its log {log} KiB", path.display()))
}

fn file_system(folder: &Path, waived: &[Check]) -> Finding {
    match rustix::fs::statfs(folder) {
        // The number is an unsigned 32-bit one, sign-extended on some architectures.
        Ok(found) => judge(folder, found.f_type as u32, waived),
        Err(error) => {
            let problem =
                format!("{} cannot be examined: {}", folder.display(), io::Error::from(error));
            fail(problem, "a folder that this user may use")
        }
    }
}

fn judge(folder: &Path, magic: u32, waived: &[Check]) -> Finding {
    let name = match filesystem::local(folder, magic) {
        Ok(name) => name,
        Err(error) if !waived.contains(&Check::NetworkFs) => {
            return Finding::failed(FILE_SYSTEM, &error);
        }
        Err(error) => {
            let remedy =
                "use the store from one machine only, since unsafe=network-fs waives the check";
            return warn(error.message(), remedy);
        }
    };
    let finding = format!("{} is on {name}", folder.display());
    match magic {
        OVERLAY => {
            let remedy = "a volume of the host, if other containers are to share the locks";
            warn(format!("{finding}, whose files end with the container"), remedy)
        }
        TMPFS | RAMFS => ok(format!(
            "{finding}, in memory: after a restart the tokens start at the current time"
        )),
        _ => ok(finding),
    }
}

fn permissions(place: &Place) -> Result<Finding, Error> {
    let Place { path, folder, waived, .. } = place;
    // A new folder will belong to its owner alone.
    if place.has_folder() {
        // For any file system, which is a finding of its own.
        checks::folder(folder, &[waived, &[Check::NetworkFs][..]].concat())?;
    }
    let mut shown = vec![owner(folder)];
    if path.exists() {
        checks::database(path)?;
        Beside::of(path).check(path, waived)?;
        shown.push(owner(path));
    }
    for used in [folder, path].iter().filter(|used| used.exists()) {
        if accessat(CWD, *used, Access::WRITE_OK | Access::READ_OK, AtFlags::EACCESS).is_err() {
            let problem = format!("{} may not be written by this user", used.display());
            return Ok(fail(
                problem,
                "run lockkeeper as the owner of the file, or choose another path",
            ));
        }
    }
    let shown = shown.join(", ");
    if waived.contains(&Check::Permissions) {
        return Ok(warn(
            shown,
            "remove unsafe=permissions: other users may be able to take any lock",
        ));
    }
    Ok(ok(shown))
}

fn owner(path: &Path) -> String {
    match fs::metadata(path) {
        Ok(meta) => {
            format!("{} {:04o} of user {}", path.display(), meta.mode() & 0o7777, meta.uid())
        }
        Err(error) => format!("{}: {error}", path.display()),
    }
}

/// Writes to a file of its own in the way in which the store writes to its log.
fn disk(path: &Path) -> Finding {
    sweep(path, ".doctor-", ABANDONED);
    let scratch = scratch(path, ".doctor-");
    let took = durable_writes(&scratch);
    // The file has no meaning, and is found by its name.
    let _ = fs::remove_file(&scratch);
    match took {
        Ok(took) => {
            let finding =
                format!("a write takes {took:.1?} to reach the disk (median of {WRITES})");
            warn_if(
                took > SLOW_DISK,
                finding,
                "a faster disk: each lock and each release waits for it",
            )
        }
        Err(error) => {
            let problem = format!("{} cannot be written: {error}", scratch.display());
            fail(problem, "make room in that folder, and let this user write there")
        }
    }
}

fn durable_writes(scratch: &Path) -> io::Result<Duration> {
    let (file, clock) = (private().write(true).create_new(true).open(scratch)?, Clock::boot());
    let mut took = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let start = clock.now();
        file.write_all_at(&PAGE, 0)?;
        file.sync_data()?;
        took.push(clock.now().saturating_since(start));
    }
    Ok(median(took))
}

/// The process in the gate that does not leave, if there is one.
fn gate(gate: &Path, limit: Duration) -> Option<Finding> {
    let file = File::open(gate).ok()?;
    for _ in 0..GATE_LOOKS {
        if file.try_lock_shared().is_ok() {
            return None;
        }
        time::pause(limit / GATE_LOOKS);
    }
    let inode = fs::metadata(gate).ok()?.ino();
    let pid =
        (0..LOCKS_READS).find_map(|_| holder(&fs::read_to_string("/proc/locks").ok()?, inode));
    let problem = |who: &str| {
        format!("{who} is inside the gate and does not leave it, so nobody else can write")
    };
    Some(match pid {
        Some(pid) if is_stopped(pid) => {
            fail(problem(&format!("process {pid}, which is stopped,")), format!("kill -CONT {pid}"))
        }
        Some(pid) => fail(
            problem(&format!("process {pid}")),
            "check what the process waits for, or end the process",
        ),
        None => fail(problem("a process"), format!("fuser -v {}", gate.display())),
    })
}

/// The process that holds an flock on this inode, from the text of /proc/locks. One of another
/// container has no number.
fn holder(locks: &str, inode: u64) -> Option<u32> {
    let of = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, _, _, pid, file) =
            (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
        let is_it = kind == "FLOCK" && file.rsplit(':').next()?.parse() == Ok(inode);
        is_it.then(|| pid.parse().ok()).flatten().filter(|pid| *pid != 0)
    };
    locks.lines().find_map(of)
}

fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it may contain any character.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::store::Level;

    #[test]
    fn the_holder_of_a_gate_is_found_among_the_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 77 08:01:42 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 1234 08:01:42 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 99 08:01:42 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 08:01:43 0 EOF\n";
        assert_eq!(holder(locks, 42), Some(1234));
        assert_eq!(holder(locks, 43), None);
        assert_eq!(holder(locks, 44), None);
        assert!(!is_stopped(std::process::id()));
    }

    #[test]
    fn a_gate_that_stays_closed_is_reported_with_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gate");
        let inside = File::create(&path).unwrap();
        assert_eq!(gate(&path, GATE_LIMIT), None);
        inside.lock().unwrap();
        let found = gate(&path, GATE_LIMIT).unwrap();
        assert!(found.finding.contains("is inside the gate and does not leave it"), "{found:?}");
        // Some sandboxes do not list their locks.
        let inode = inside.metadata().unwrap().ino();
        let pid = fs::read_to_string("/proc/locks").ok().and_then(|locks| holder(&locks, inode));
        assert!(
            pid.is_none_or(
                |pid| pid == std::process::id() && found.finding.contains(&pid.to_string())
            ),
            "{found:?}"
        );
    }

    #[test]
    fn a_file_system_that_others_reach_fails_unless_that_is_waived() {
        let level = |magic, waived: &[Check]| judge(Path::new("/srv"), magic, waived).level;
        let (nfs, unknown, ext4) = (0x6969, 0x1234_5678, 0xef53);
        for reached in [nfs, unknown] {
            assert_eq!(
                (level(reached, &[]), level(reached, &[Check::NetworkFs])),
                (Level::Fail, Level::Warn)
            );
        }
        assert_eq!(
            (level(ext4, &[]), level(TMPFS, &[]), level(OVERLAY, &[])),
            (Level::Ok, Level::Ok, Level::Warn)
        );
        assert_eq!(file_system(Path::new("/nowhere"), &[]).level, Level::Fail);
    }

    #[test]
    fn a_check_of_the_disk_removes_only_old_files_of_other_checks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("locks.db");
        let made = |name: &Path, age: u64| {
            let file = File::create(name).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        };
        let (old, new) = (scratch(&path, ".doctor-"), scratch(&path, ".doctor-"));
        let other = suffixed(&path, ".doctor-notes");
        made(&old, 2 * ABANDONED.as_secs());
        made(&new, 0);
        made(&other, 2 * ABANDONED.as_secs());
        disk(&path);
        assert_eq!((old.exists(), new.exists(), other.exists()), (false, true, true));
    }

    #[test]
    fn a_look_at_a_missing_file_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let looked = look(&dir.path().join("a/b/locks.db"), &[], GATE_LIMIT);
        assert!(
            !looked.can_be_opened && looked.findings.iter().all(|found| found.level != Level::Fail),
            "{looked:?}"
        );
        let looked = look(&dir.path().join("locks.db"), &[], GATE_LIMIT);
        assert!(looked.findings.iter().any(|found| found.check == "disk"), "{looked:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
