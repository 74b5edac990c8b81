//! Checks in an open database: its durability, its times, and leftovers.

use std::fs;
use std::future::ready;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use lockkeeper_core::kit::{Check, checks, fail, ok, warn, warn_if};
use rusqlite::Connection;

use crate::boot::LEAP;
use crate::duration::format_duration;
use crate::files::suffixed;
use crate::layout::Commit;
use crate::layout::read::newest;
use crate::layout::times::{Micros, now};
use crate::store::Finding;
use crate::time;
use crate::{FileStore, Result};

/// `PRAGMA synchronous`: each commit that gives out a token waits for the disk.
const FULL: i64 = 2;
/// SQLite restarts its log at 4 MiB unless a client keeps reading.
const LARGE_LOG: u64 = 64 << 20;

pub(super) static CHECKS: [Check<Opened>; 4] = checks! {
    ("durability", |opened| opened.durability(), |(journal, synchronous)| {
        let finding = format!("journal_mode {journal}, synchronous {synchronous}");
        if journal == "wal" && synchronous == FULL {
            return Some(ok(finding));
        }
        let finding = format!("{finding}: a token may be given out twice after a power cut");
        Some(fail(finding, "report this as a bug: lockkeeper sets wal and 2"))
    }),
    ("clock", |opened| opened.store.look(|db, _| times_in(db)), |times| {
        Some(judge(&times, now(), time::wall_micros()))
    }),
    ("leftovers", |opened| opened.leftovers(), |(finding, log)| {
        // Every opening removes some of the leftovers.
        Some(warn_if(log > LARGE_LOG, finding, "end the other program that keeps reading the file"))
    }),
    ("watches", |_| ready(Ok(())), |()| Some(watches())),
};

/// An open store, and how many clients have left their files.
pub(super) struct Opened {
    pub(super) store: FileStore,
    pub(super) dead_clients: usize,
}

impl Opened {
    async fn durability(&self) -> Result<(String, i64)> {
        let synchronous =
            self.store.commit(Commit::OnDisk, |txn| txn.number("PRAGMA synchronous")).await?;
        let look = |db: &Connection| db.query_row("PRAGMA journal_mode", [], |row| row.get(0));
        Ok((self.store.look(move |db, _| look(db)).await?, synchronous))
    }

    /// What there is, and the size of the log.
    async fn leftovers(&self) -> Result<(String, u64)> {
        let (sessions, names) = self.store.look(|db, _| unused(db, now())).await?;
        let log = fs::metadata(suffixed(self.store.path(), "-wal")).map_or(0, |meta| meta.len());
        let finding = format!(
            "{} files of ended clients, {sessions} ended sessions, {names} names without claims, a log of {} KiB",
            self.dead_clients,
            log.div_ceil(1024)
        );
        Ok((finding, log))
    }
}

/// The times in the file.
struct Times {
    boot_id: String,
    newest: Micros,
    highest_fence: i64,
}

fn times_in(db: &Connection) -> rusqlite::Result<Times> {
    let newest = newest(db)?;
    db.query_row(
        "SELECT boot_id,
             max(floor, coalesce((SELECT max(fence) FROM lk_lock), 0), coalesce((SELECT max(ord) FROM lk_claim), 0))
         FROM lk_meta",
        [],
        |row| Ok(Times { boot_id: row.get(0)?, newest, highest_fence: row.get(1)? }),
    )
}

fn judge(times: &Times, now: Micros, wall: u64) -> Finding {
    let apart = |micros: u64| format_duration(Duration::from_millis(micros / 1000));
    if times.newest > now.saturating_add(LEAP) {
        let ahead = apart(times.newest.abs_diff(now));
        let problem = format!(
            "the file has times {ahead} in the future: a process that uses the file has another CLOCK_BOOTTIME"
        );
        return fail(problem, "one time namespace for all processes that use the file");
    }
    if let Some(behind @ 1..) = times.highest_fence.unsigned_abs().checked_sub(wall) {
        let lost = "a new file, should this one be lost, would begin with lower tokens";
        return warn(
            format!(
                "the date of this machine is {} behind the fencing tokens: {lost}",
                apart(behind)
            ),
            "set the date (NTP)",
        );
    }
    let age = format_duration(Duration::from_secs(
        now.saturating_sub(times.newest).unsigned_abs() / 1_000_000,
    ));
    ok(format!(
        "the times in the file fit this machine's clock (last change {age} ago, in the boot {}), and a new file, should \
         this one be lost, would begin with higher fencing tokens",
        times.boot_id
    ))
}

fn unused(db: &Connection, now: Micros) -> rusqlite::Result<(i64, i64)> {
    db.query_row(
        "SELECT (SELECT count(*) FROM lk_session WHERE hold_until_us <= ?1),
             (SELECT count(*) FROM lk_lock l WHERE NOT EXISTS (SELECT 1 FROM lk_claim c WHERE c.name = l.name))",
        [now],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Each process with waiters needs an inotify instance; without one it looks twenty times a second.
fn watches() -> Finding {
    let user = rustix::process::geteuid().as_raw();
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").ok();
    let Some(limit) = limit.and_then(|limit| limit.trim().parse::<usize>().ok()) else {
        return ok("the kernel does not report its limit of inotify instances");
    };
    let used = instances_of(user);
    let finding = format!("{used} of {limit} inotify instances of user {user} are in use");
    warn_if(used * 10 >= limit * 9, finding, "sysctl fs.inotify.max_user_instances=1024")
}

fn instances_of(user: u32) -> usize {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    processes
        .filter(|process| fs::metadata(process).is_ok_and(|meta| meta.uid() == user))
        .map(|p| instances(&p))
        .sum()
}

fn instances(process: &Path) -> usize {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    files
        .filter(|file| {
            fs::read_link(file.path()).is_ok_and(|to| to == Path::new("anon_inode:inotify"))
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Level;

    #[test]
    fn a_clock_that_does_not_fit_the_file_is_reported() {
        let times =
            |newest, highest_fence| Times { boot_id: "b".to_owned(), newest, highest_fence };
        let level = |times| judge(&times, 10_000_000, 50_000_000).level;
        assert_eq!(level(times(0, 1)), Level::Ok);
        assert_eq!(level(times(10_500_000, 1)), Level::Ok);
        assert_eq!(level(times(12_000_000, 1)), Level::Fail);
        assert_eq!(level(times(1, 60_000_000)), Level::Warn);
    }

    #[test]
    fn an_inotify_instance_of_ours_is_counted() {
        let user = rustix::process::geteuid().as_raw();
        let ours = || instances(Path::new("/proc/self"));
        let before = ours();
        let _instance =
            rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).unwrap();
        // Other tests of this process come and go.
        assert!(ours() > 0 && instances_of(user) > 0, "{before}");
    }
}
