//! Starts of the machine: which one the times in a file belong to.
//!
//! A boot id alone does not decide. Some containers (LXC, systemd-nspawn) show an id of their own
//! beside the clocks of the host, and may share a file with the host. So the clocks decide whether
//! the machine was restarted.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::layout::read;
use super::layout::times::{self, Micros, SPARE_MAX};
use super::liveness::{Clients, DeadClientCheck};
use super::{checks, fault};
use crate::duration::format_duration;
use crate::store::TOMBSTONE_MIN;
use crate::time;
use crate::{Error, ErrorKind, LockName, Result};

/// The allowed difference between two readings of one clock, since other work happens between them.
pub(super) const LEAP: Micros = 1_000_000;

/// A start of the machine, as this process sees it.
#[derive(Clone, Debug)]
pub(super) struct Boot {
    pub(super) id: String,
    /// The time since then.
    pub(super) now: Micros,
    /// The date of the start.
    pub(super) began: Micros,
}

/// A file's knowledge of the boot in which it was opened last.
struct Known {
    id: String,
    began: Micros,
    /// The newest time in the file: the machine was up then.
    newest: Micros,
}

impl Boot {
    /// The start that this process belongs to.
    pub(super) fn of_this_process() -> Result<Self> {
        checks::clock()?;
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(|e| {
            Error::new(
                ErrorKind::Unsupported,
                format!("the kernel does not report when it was started: {e}"),
            )
            .with_remedy("mount /proc, or use another store")
        })?;
        let now = times::now();
        let date = i64::try_from(time::wall_micros()).unwrap_or(Micros::MAX);
        Ok(Self { id: id.trim().to_owned(), now, began: date.saturating_sub(now) })
    }

    /// A start of a machine on virtual time.
    #[cfg(test)]
    pub(super) fn at(id: String, now: Micros, began: Micros) -> Self {
        Self { id, now, began }
    }

    /// The boot of a container with an id of its own.
    #[cfg(test)]
    pub(super) fn pretends_another_boot() -> Result<Self> {
        Ok(Self { id: "a container's own".to_owned(), ..Self::of_this_process()? })
    }

    /// As if the machine had been restarted just now, and had run for `up` since.
    #[cfg(test)]
    pub(super) fn after_a_restart(up: Duration) -> Self {
        let this = Self::of_this_process().unwrap();
        Self { id: "another".to_owned(), now: times::span(up), began: this.began + this.now }
    }

    /// Returns whether this is the boot that the file knows, though its id may be another one.
    ///
    /// A clock behind the times in the file has started again. Otherwise the dates of the two boots
    /// decide: two boots are at least as far apart as the newest time in the file, and the dates of
    /// one boot are equal, except for corrections. The middle between the two cases is the limit.
    fn has_the_clock_of(&self, known: &Known) -> bool {
        known.newest <= self.now.saturating_add(LEAP)
            && self.began.saturating_sub(known.began) < known.newest / 2
    }
}

/// Begins again if the machine was restarted since the file was opened last. To be called inside
/// the gate.
pub(super) fn greet(
    db: &mut Connection,
    path: &Path,
    boot: &Boot,
    clients: &Clients,
) -> Result<()> {
    let undone = |e| fault::undone(path, e);
    let known = known(db).map_err(undone)?;
    if known.id == boot.id {
        return note_the_date(db, &known, boot).map_err(undone);
    }
    // No client outlives its boot.
    if clients.anybody_lives()? {
        return Err(in_use(path));
    }
    if boot.has_the_clock_of(&known)
        && let Some((name, left)) = live_claim(db, boot.now, clients).map_err(undone)?
    {
        return Err(held(path, &name, left));
    }
    begin_again(db, &known, boot).map_err(undone)
}

fn known(db: &Connection) -> rusqlite::Result<Known> {
    let newest = read::newest(db)?;
    db.query_row("SELECT boot_id, began_us FROM lk_meta", [], |row| {
        Ok(Known { id: row.get(0)?, began: row.get(1)?, newest })
    })
}

/// The date may have been corrected since.
fn note_the_date(db: &Connection, known: &Known, boot: &Boot) -> rusqlite::Result<()> {
    if known.began.abs_diff(boot.began) > LEAP.unsigned_abs() {
        db.execute("UPDATE lk_meta SET began_us = ?1", [boot.began])?;
    }
    Ok(())
}

/// A claim that lives without a client: a detached claim, or one in its lock-delay. Also returns
/// how long it lives.
fn live_claim(
    db: &Connection,
    now: Micros,
    clients: &Clients,
) -> rusqlite::Result<Option<(LockName, Duration)>> {
    let mut dead_clients = DeadClientCheck::new(clients, "");
    let Some((name, line)) = read::lines(db, "", None, 1, now, &mut dead_clients)?.pop() else {
        return Ok(None);
    };
    let left = line.entries.iter().filter_map(|entry| entry.expires_in).max();
    Ok(Some((name, left.unwrap_or_default())))
}

/// No process of an earlier boot is left, and nothing that belongs to one. A detached session
/// belongs to none: its holder may be on another host, and believe until its deadline. So it has
/// its whole life from now on, with its claims. The fences stay.
fn begin_again(db: &mut Connection, known: &Known, boot: &Boot) -> rusqlite::Result<()> {
    let greeting = Transaction::new(db, TransactionBehavior::Immediate)?;
    greeting.execute_batch(
        "UPDATE lk_lock AS l SET revision = revision + 1,
             fence = max(fence, coalesce((SELECT max(ord) FROM lk_claim WHERE name = l.name), 0));
         DELETE FROM lk_session WHERE detached = 0;
         DELETE FROM lk_claim WHERE lasts = 0 AND session NOT IN (SELECT id FROM lk_session);",
    )?;
    // The machine was up at this time: a life in the file is longer than the granted one by no more
    // than the reserve.
    let up = known.newest.saturating_sub(SPARE_MAX);
    greeting.execute(
        "UPDATE lk_session SET dead = max(dead, hold_until_us <= ?2),
             hold_until_us = iif(dead OR hold_until_us <= ?2, ?1, ?1 + ttl_us),
             wait_until_us = iif(dead OR hold_until_us <= ?2, ?1, ?1 + wait_ttl_us)",
        [boot.now, up],
    )?;
    // Of these no more was left when the machine went down than was left then.
    let later = boot.now.saturating_sub(up);
    greeting.execute(
        "UPDATE lk_claim SET since_us = since_us + ?1, until_us = until_us + ?1, unlisted_us = NULL,
             keep_until_us = iif(keep_until_us <= ?2, 0, keep_until_us + ?1)",
        [later, up],
    )?;
    for table in ["lk_gone", "lk_closed"] {
        greeting.execute(&format!("DELETE FROM {table} WHERE until_us <= ?1"), [up])?;
        greeting.execute(&format!("UPDATE {table} SET until_us = until_us + ?1"), [later])?;
    }
    // A power cut may have taken the last of these times.
    let longest = boot.now.saturating_add(times::span(TOMBSTONE_MIN));
    greeting.execute("UPDATE lk_closed SET until_us = min(until_us, ?1)", [longest])?;
    greeting.execute(
        "UPDATE lk_meta SET boot_id = ?1, began_us = ?2, up_us = ?3",
        (&boot.id, boot.began, boot.now),
    )?;
    greeting.commit()
}

const ONE_ID: &str = "the host's /proc/sys/kernel/random/boot_id in all containers";

fn in_use(path: &Path) -> Error {
    let problem =
        format!("file:{} is in use by programs that know another boot id", path.display());
    Error::new(ErrorKind::Unsupported, problem)
        .with_remedy(format!("{ONE_ID}, or a store for many machines"))
}

fn held(path: &Path, name: &LockName, left: Duration) -> Error {
    let left = format_duration(Duration::from_secs(left.as_secs() + 1));
    let problem = format!(
        "file:{}: {name} is still held for {left} by a program that knows another boot id, and the machine has not \
         started again since",
        path.display()
    );
    let remedy = format!("{ONE_ID}, a store for many machines, or to wait for {left}");
    Error::new(ErrorKind::Unsupported, problem).with_remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Micros = 3_600_000_000;
    const DATE: Micros = 1_800_000_000_000_000;

    /// Whether a reader is in the same boot as a file with a newest time of ten hours. The reader's
    /// clock says `now`, and the date of its boot is `later` than the date in the file.
    fn same(now: Micros, later: Micros) -> bool {
        let known = Known { id: "a".to_owned(), began: DATE, newest: 10 * HOUR };
        Boot { id: "b".to_owned(), now, began: DATE + later }.has_the_clock_of(&known)
    }

    #[test]
    fn the_clocks_distinguish_two_boots() {
        assert!(same(10 * HOUR, 0) && same(20 * HOUR, 0), "another id with the same clocks");
        assert!(same(10 * HOUR - LEAP, 0), "read a moment earlier");
        assert!(same(11 * HOUR, -3 * HOUR) && same(11 * HOUR, 3 * HOUR), "the date was corrected");
        assert!(!same(HOUR, 10 * HOUR), "a clock behind the times of the file");
        assert!(!same(HOUR, 0), "even with the date of the old start");
        assert!(!same(30 * HOUR, 11 * HOUR), "up for longer than before, but started later");
        assert!(!same(30 * HOUR, 9 * HOUR), "with a date that was corrected by an hour");
    }
}
