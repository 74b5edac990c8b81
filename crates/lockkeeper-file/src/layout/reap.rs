//! Cleaning: unused names, ended sessions, dead clients. A small number at a time.

use rusqlite::params;

use super::Txn;
use super::claim_row::name_of;
use crate::LockName;
use crate::fault::Outcome;

/// Unused names beyond this number are deleted.
const IDLE_NAMES: u32 = 4096;
/// The reaper looks after this many new names, and takes as many at a time.
const REAP_MAX: u32 = 1024;
/// As many dead clients, ended sessions and abandoned lines are cleared away at once.
const SWEEP_MAX: u32 = 256;

impl Txn<'_> {
    /// Once for each opened store: removes the claims of crashed clients in unused lines.
    pub(crate) fn clear_away(&mut self) -> Outcome<()> {
        self.note_the_time()?;
        for client in self.dead_clients.clients().dead(SWEEP_MAX as usize) {
            self.declare_dead(&client)?;
        }
        self.clear_ended(SWEEP_MAX)?;
        self.reap_names()
    }

    /// Records that the machine is up, for as long as nothing else in the file shows that: see
    /// `boot.rs`.
    pub(crate) fn note_the_time(&self) -> Outcome<()> {
        self.change("UPDATE lk_meta SET up_us = max(up_us, ?1)", [self.now]).map(drop)
    }

    /// Removes the claims of ended sessions in this number of lines, the oldest ends first, and
    /// ended sessions without claims. Each session that opens removes more than it leaves, even in
    /// lines that are seldom used.
    pub(crate) fn clear_ended(&mut self, lines: u32) -> Outcome<()> {
        let abandoned = self.all(
            // From the ended sessions, of which there are few: this runs inside the gate.
            "SELECT DISTINCT c.name FROM (SELECT id, hold_until_us FROM lk_session WHERE hold_until_us <= ?1
                 ORDER BY hold_until_us) s CROSS JOIN lk_claim c ON c.session = s.id
             WHERE s.hold_until_us + c.delay_us <= ?1 LIMIT ?2",
            params![self.now, lines],
            |row| name_of(row, 0),
        )?;
        self.clear_lines(&abandoned)?;
        self.clear_kept(lines)?;
        self.reap_sessions()
    }

    /// Removes the claims of ended minimum holds in this number of lines.
    fn clear_kept(&mut self, lines: u32) -> Outcome<()> {
        let kept = self.all(
            "SELECT DISTINCT name FROM lk_claim WHERE state = 3 AND until_us <= ?1 LIMIT ?2",
            params![self.now, lines],
            |row| name_of(row, 0),
        )?;
        self.clear_lines(&kept)
    }

    fn clear_lines(&mut self, names: &[LockName]) -> Outcome<()> {
        for name in names {
            self.sweep(name)?;
            self.settle(name)?;
        }
        Ok(())
    }

    /// Removes ended sessions without claims.
    fn reap_sessions(&mut self) -> Outcome<()> {
        self.change(
            "DELETE FROM lk_session WHERE id IN (
                 SELECT id FROM lk_session s WHERE hold_until_us <= ?1
                 AND NOT EXISTS (SELECT 1 FROM lk_claim c WHERE c.session = s.id) LIMIT ?2)",
            params![self.now, SWEEP_MAX],
        )?;
        Ok(())
    }

    pub(crate) fn made_a_name(&mut self) -> Outcome<()> {
        self.memory.new_names += 1;
        if self.memory.new_names < REAP_MAX as usize {
            return Ok(());
        }
        self.memory.new_names = 0;
        // As many kept claims are removed as names have come. So they do not accumulate if the
        // client opens no other session.
        self.clear_kept(REAP_MAX)?;
        self.reap_names()
    }

    /// Deletes names without claims, if there are many. The floor is first raised to their fences,
    /// so the tokens of these names go on rising.
    fn reap_names(&mut self) -> Outcome<()> {
        let names: Option<u32> =
            self.first("SELECT count(*) FROM lk_lock", [], |row| row.get(0))?;
        if names.is_none_or(|names| names <= IDLE_NAMES) {
            return Ok(());
        }
        let idle = self.all(
            "SELECT name, fence FROM lk_lock l
             WHERE NOT EXISTS (SELECT 1 FROM lk_claim c WHERE c.name = l.name) LIMIT ?1",
            [REAP_MAX],
            |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?)),
        )?;
        let highest = idle.iter().map(|(_, fence)| *fence).max().unwrap_or(0);
        self.change("UPDATE lk_meta SET floor = max(floor, ?1)", [highest])?;
        for (name, _) in &idle {
            self.change("DELETE FROM lk_lock WHERE name = ?1", [name])?;
        }
        Ok(())
    }
}
