//! Reads without changes. They need no gate, and each sees one committed state.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::claim_row::{ClaimRow, claim_rows, name_of};
use super::times::{Micros, until};
use crate::LockName;
use crate::liveness::{ClientId, DeadClientCheck};
use crate::store::{ClaimId, ClaimKey, Entry, Line, Revision, SessionId};

/// The present line: live claims only.
pub(crate) fn line(
    db: &Connection,
    name: &LockName,
    now: Micros,
    dead_clients: &mut DeadClientCheck<'_>,
) -> Result<Line> {
    let snapshot = db.unchecked_transaction()?;
    line_in(&snapshot, name, now, dead_clients)
}

fn line_in(
    snapshot: &Connection,
    name: &LockName,
    now: Micros,
    dead_clients: &mut DeadClientCheck<'_>,
) -> Result<Line> {
    let Some((last_token, revision)) = lock(snapshot, name)? else { return Ok(Line::default()) };
    let mut query = snapshot.prepare_cached(claim_rows!("WHERE c.name = ?1 ORDER BY c.ord"))?;
    let claims = query.query_map([name.as_str().as_bytes()], ClaimRow::read)?;
    let mut live = Vec::new();
    for row in claims {
        live.extend(alive(row?, now, dead_clients));
    }
    Ok(Line {
        revision,
        last_token: Some(last_token.unsigned_abs()),
        entries: live.into_iter().map(|row| entry(row, now)).collect(),
    })
}

/// The lines with a live claim and a name that begins with `prefix` and comes after `after`,
/// compared by bytes: all from one committed state.
pub(crate) fn lines(
    db: &Connection,
    prefix: &str,
    after: Option<&LockName>,
    limit: usize,
    now: Micros,
    dead_clients: &mut DeadClientCheck<'_>,
) -> Result<Vec<(LockName, Line)>> {
    let snapshot = db.unchecked_transaction()?;
    let names = names(&snapshot, (prefix, after), limit, now, dead_clients)?;
    names
        .into_iter()
        .map(|name| Ok((name.clone(), line_in(&snapshot, &name, now, dead_clients)?)))
        .collect()
}

fn names(
    db: &Connection,
    (prefix, after): (&str, Option<&LockName>),
    limit: usize,
    now: Micros,
    dead_clients: &mut DeadClientCheck<'_>,
) -> Result<Vec<LockName>> {
    // The next name after a name is the same with the lowest byte behind it.
    let after = after.map(|after| [after.as_str().as_bytes(), &[0]].concat()).unwrap_or_default();
    let begin = prefix.as_bytes().to_vec().max(after);
    // No UTF-8 has the byte FF, so it comes after all names with the prefix.
    let end = [prefix.as_bytes(), &[0xff]].concat();
    let mut query = db
        .prepare_cached(claim_rows!("WHERE c.name >= ?1 AND c.name < ?2 ORDER BY c.name, c.ord"))?;
    let mut rows = query.query(params![begin, end])?;
    let mut names: Vec<LockName> = Vec::new();
    while let Some(row) = rows.next()? {
        let name = name_of(row, 0)?;
        if names.last() == Some(&name) {
            continue;
        }
        if names.len() == limit {
            break;
        }
        if alive(ClaimRow::read(row)?, now, dead_clients).is_some() {
            names.push(name);
        }
    }
    Ok(names)
}

/// The id of the file.
pub(crate) fn id(db: &Connection) -> Result<Vec<u8>> {
    db.query_row("SELECT id FROM lk_meta", [], |row| row.get(0))
}

/// The newest time in the file: an opening, a close of a session, a claim's arrival, or a session's
/// renewal.
pub(crate) fn newest(db: &Connection) -> Result<Micros> {
    let sql = "SELECT max((SELECT up_us FROM lk_meta),
                          coalesce((SELECT max(since_us) FROM lk_claim), 0),
                          coalesce((SELECT max(hold_until_us - ttl_us) FROM lk_session), 0))";
    db.query_row(sql, [], |row| row.get(0))
}

/// The revision of a line.
pub(crate) fn revision(db: &Connection, name: &LockName) -> Result<Revision> {
    Ok(lock(db, name)?.map_or_else(Revision::default, |(_, revision)| revision))
}

/// The state of a waiting claim.
#[derive(Debug)]
pub(crate) enum ClaimStatus {
    /// The claim is not there.
    Absent,
    /// The claim holds the lock, with this token.
    Granted(u64),
    /// The claim waits: for all holders if it is the first waiter, and for its predecessor
    /// otherwise.
    Behind(Predecessors),
}

/// The claims whose ends a waiter has to see. It learns of each end in one of two ways.
#[derive(Debug, Default)]
pub(crate) struct Predecessors {
    /// The claims of these clients end with the client, which the kernel reports.
    pub(crate) clients: Vec<ClientId>,
    /// The other claims end by time, the first of them at this time. The time is in the past if an
    /// ended claim was not removed yet.
    pub(crate) ends: Option<Micros>,
}

impl Predecessors {
    fn add(&mut self, row: &ClaimRow, now: Micros) {
        match &row.client {
            Some(client) if row.expires() > now => self.clients.push(Arc::clone(client)),
            _ => self.ends = self.ends.into_iter().chain([row.expires()]).min(),
        }
    }

    fn finish(mut self) -> Self {
        self.clients.sort();
        self.clients.dedup();
        self
    }
}

pub(crate) fn status(db: &Connection, key: &ClaimKey, now: Micros) -> Result<ClaimStatus> {
    let snapshot = db.unchecked_transaction()?;
    let name = key.name.as_str().as_bytes();
    let mut find = snapshot
        .prepare_cached(claim_rows!("WHERE c.session = ?1 AND c.id = ?2 AND c.name = ?3"))?;
    let found = find
        .query_row(params![key.session.as_str(), key.id.as_bytes(), name], ClaimRow::read)
        .optional()?;
    match found {
        Some(row) if row.granted() && row.expires() > now => Ok(ClaimStatus::Granted(row.token())),
        Some(row) if !row.granted() => {
            predecessors(&snapshot, name, row.ord, now).map(ClaimStatus::Behind)
        }
        // A dead claim holds nothing, even before it is removed.
        _ => Ok(ClaimStatus::Absent),
    }
}

fn predecessors(db: &Connection, name: &[u8], ord: i64, now: Micros) -> Result<Predecessors> {
    let mut query =
        db.prepare_cached(claim_rows!("WHERE c.name = ?1 AND c.ord < ?2 ORDER BY c.ord DESC"))?;
    let mut rows = query.query(params![name, ord])?;
    let mut found = Predecessors::default();
    while let Some(row) = rows.next()? {
        let row = ClaimRow::read(row)?;
        found.add(&row, now);
        if !row.granted() {
            break;
        }
    }
    Ok(found.finish())
}

/// The holders of a line, which come before all waiters.
pub(crate) fn holders(db: &Connection, name: &LockName, now: Micros) -> Result<Predecessors> {
    let mut query = db.prepare_cached(claim_rows!("WHERE c.name = ?1 ORDER BY c.ord"))?;
    let mut rows = query.query([name.as_str().as_bytes()])?;
    let mut holders = Predecessors::default();
    while let Some(row) = rows.next()? {
        let row = ClaimRow::read(row)?;
        if !row.granted() {
            break;
        }
        holders.add(&row, now);
    }
    Ok(holders.finish())
}

/// The claims of a session that were granted and whose client does not know it.
pub(crate) fn pushed(db: &Connection, session: &SessionId) -> Result<Vec<(ClaimId, u64)>> {
    let mut query = db.prepare_cached(
        "SELECT id, ord FROM lk_claim WHERE session = ?1 AND state = 1 AND state < 2",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok((ClaimId::from_bytes(row.get(0)?), row.get::<_, i64>(1)?.unsigned_abs()))
    };
    query.query_map([session.as_str()], read)?.collect()
}

/// All claims of a session.
pub(crate) fn ids(db: &Connection, session: &SessionId) -> Result<HashSet<ClaimId>> {
    let mut query = db.prepare_cached("SELECT id FROM lk_claim WHERE session = ?1")?;
    query.query_map([session.as_str()], |row| Ok(ClaimId::from_bytes(row.get(0)?)))?.collect()
}

/// Changes when a waiting claim of the session was removed; `None` when the session is gone.
pub(crate) fn wake_count(db: &Connection, session: &SessionId) -> Result<Option<i64>> {
    let mut query = db.prepare_cached("SELECT wakes FROM lk_session WHERE id = ?1")?;
    query.query_row([session.as_str()], |row| row.get(0)).optional()
}

/// The last token and the revision of a name. Both only rise: a claim raises the token, all else
/// the count of changes.
pub(crate) fn lock(db: &Connection, name: &LockName) -> Result<Option<(i64, Revision)>> {
    let mut query = db.prepare_cached(
        "SELECT max(fence, coalesce((SELECT max(ord) FROM lk_claim WHERE name = ?1), 0)), revision
         FROM lk_lock WHERE name = ?1",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        let (last, changes) = (row.get::<_, i64>(0)?, row.get::<_, i64>(1)?);
        Ok((last, Revision(changes.wrapping_add(last).unsigned_abs())))
    };
    query.query_row([name.as_str().as_bytes()], read).optional()
}

/// The claim, unless it is over; its client may have died without a record yet.
fn alive(
    mut row: ClaimRow,
    now: Micros,
    dead_clients: &mut DeadClientCheck<'_>,
) -> Option<ClaimRow> {
    if row.client.as_ref().is_some_and(|client| dead_clients.is_dead(client)) {
        row.orphan(now);
    }
    (row.expires() > now || row.keep(now)).then_some(row)
}

fn entry(row: ClaimRow, now: Micros) -> Entry {
    Entry {
        id: row.id.hash(),
        weight: row.weight,
        capacity: row.capacity,
        granted: row.granted(),
        kept: row.is_kept(),
        token: Some(row.token()),
        age: Some(until(now, row.since)),
        expires_in: Some(row.left(now)),
        meta: row.meta,
        broken: row.broken,
    }
}
