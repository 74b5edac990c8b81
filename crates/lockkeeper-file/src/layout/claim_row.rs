//! One claim in a line, as the file stores it.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Row;
use rusqlite::types::Type;

use super::times::{Micros, until};
use crate::LockName;
use crate::liveness::ClientId;
use crate::store::admit::Demand;
use crate::store::{Asked, Broken, ClaimId, Meta, SessionId};

/// The state of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The claim waits, on its session's `wait_ttl`.
    Waiting = 0,
    /// Another client's request granted the claim, whose client has sent none since: it is still on
    /// `wait_ttl`.
    Pushed = 1,
    /// The claim holds the lock, on its session's `ttl` and its own lock-delay.
    Held = 2,
    /// The claim has no holder any more, and stays for the rest of its minimum hold.
    Kept = 3,
}

/// One claim, with the ends of its session.
#[derive(Clone, Debug)]
pub(crate) struct ClaimRow {
    pub(crate) name: LockName,
    pub(crate) ord: i64,
    pub(crate) id: ClaimId,
    pub(crate) session: SessionId,
    pub(crate) weight: u32,
    pub(crate) capacity: u32,
    pub(crate) state: State,
    delay: Micros,
    keep_until: Micros,
    pub(crate) since: Micros,
    until: Option<Micros>,
    pub(crate) meta: Meta,
    pub(crate) broken: Option<Broken>,
    pub(crate) asked: Option<Asked>,
    /// The number of the last change of the claim.
    pub(crate) changed: u64,
    /// The client whose death ends the claim; `None` if only time ends it, or the death is
    /// recorded.
    pub(crate) client: Option<ClientId>,
    hold_until: Micros,
    wait_until: Micros,
    ttl: Micros,
    wait_ttl: Micros,
    /// Since when no renewal has listed the claim, as far as a client has looked.
    pub(crate) unlisted: Option<Micros>,
    /// Whether its session is detached, or was, if the claim is kept.
    pub(crate) detached: bool,
}

/// A query for claims. A claim without its session counts as expired.
macro_rules! claim_rows {
    ($rest:literal) => {
        concat!(
            "SELECT c.name, c.ord, c.id, c.session, c.weight, c.capacity, c.state, c.delay_us, c.since_us, c.until_us, ",
            "c.owner, c.reason, c.value, c.epoch, c.broken_by, c.broken_reason, ",
            "CASE WHEN s.dead = 0 AND s.detached = 0 THEN s.client END, ",
            "coalesce(s.hold_until_us, 0), coalesce(s.wait_until_us, 0), ",
            "coalesce(s.ttl_us, 0), coalesce(s.wait_ttl_us, 0), c.asked_by, c.asked_reason, c.keep_until_us, c.change, ",
            "c.unlisted_us, coalesce(s.detached, c.lasts) ",
            "FROM lk_claim c LEFT JOIN lk_session s ON s.id = c.session ",
            $rest
        )
    };
}
pub(crate) use claim_rows;

/// The file stores a name as bytes.
pub(crate) fn name_of(row: &Row<'_>, column: usize) -> rusqlite::Result<LockName> {
    let bytes: Vec<u8> = row.get(column)?;
    let text = std::str::from_utf8(&bytes)?;
    LockName::new(text)
        .map_err(|e| rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, Box::new(e)))
}

impl ClaimRow {
    /// Reads a row of `claim_rows!`.
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let broken_by: Option<Arc<str>> = row.get(14)?;
        let broken_reason: Option<Arc<str>> = row.get(15)?;
        let (asked_by, asked_reason): (Option<Arc<str>>, Option<Arc<str>>) =
            (row.get(21)?, row.get(22)?);
        Ok(Self {
            name: name_of(row, 0)?,
            ord: row.get(1)?,
            id: ClaimId::from_bytes(row.get(2)?),
            session: SessionId::new(row.get::<_, Arc<str>>(3)?),
            weight: row.get(4)?,
            capacity: row.get(5)?,
            state: match row.get(6)? {
                0 => State::Waiting,
                1 => State::Pushed,
                2 => State::Held,
                _ => State::Kept,
            },
            delay: row.get(7)?,
            keep_until: row.get(23)?,
            since: row.get(8)?,
            until: row.get(9)?,
            meta: Meta {
                owner: row.get(10)?,
                reason: row.get(11)?,
                value: row.get(12)?,
                epoch: row.get(13)?,
            },
            broken: broken_by.zip(broken_reason).map(|(by, reason)| Broken {
                by,
                reason,
                removed: false,
            }),
            asked: asked_by.zip(asked_reason).map(|(by, reason)| Asked { by, reason }),
            changed: row.get::<_, i64>(24)?.unsigned_abs(),
            client: row.get(16)?,
            hold_until: row.get(17)?,
            wait_until: row.get(18)?,
            ttl: row.get(19)?,
            wait_ttl: row.get(20)?,
            unlisted: row.get(25)?,
            detached: row.get(26)?,
        })
    }

    /// When the claim ends without a renewal of its session.
    pub(crate) fn expires(&self) -> Micros {
        let lease = match self.state {
            State::Held => self.hold_until.saturating_add(self.delay),
            State::Waiting | State::Pushed => self.wait_until,
            State::Kept => Micros::MAX,
        };
        self.until.map_or(lease, |until| until.min(lease))
    }

    /// The remaining time that clients see: not more than the requested time, though the file has a
    /// small reserve.
    pub(crate) fn left(&self, now: Micros) -> Duration {
        let whole = match self.state {
            State::Held => self.ttl.saturating_add(self.delay),
            State::Waiting | State::Pushed => self.wait_ttl,
            State::Kept => Micros::MAX,
        };
        until(self.expires(), now).min(until(whole, 0))
    }

    /// The ttl of its session.
    pub(crate) fn ttl(&self) -> Duration {
        until(self.ttl, 0)
    }

    pub(crate) fn delay(&self) -> Micros {
        self.delay
    }

    /// The process of the claim has ended: a lock-delay begins now.
    pub(crate) fn orphan(&mut self, now: Micros) {
        self.hold_until = self.hold_until.min(now);
        self.wait_until = self.wait_until.min(now);
        self.client = None;
    }

    /// When the claim's minimum hold is over.
    pub(crate) fn keep_until(&self) -> Micros {
        self.keep_until
    }

    /// The claim has no holder any more. Returns whether its minimum hold keeps it.
    pub(crate) fn keep(&mut self, now: Micros) -> bool {
        if self.is_kept() || self.keep_until <= now {
            return false;
        }
        (self.state, self.until) = (State::Kept, Some(self.keep_until));
        (self.client, self.asked) = (None, None);
        true
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.state == State::Kept
    }

    pub(crate) fn granted(&self) -> bool {
        self.state != State::Waiting
    }

    pub(crate) fn token(&self) -> u64 {
        self.ord.unsigned_abs()
    }

    pub(crate) fn demand(&self) -> Demand {
        Demand { weight: self.weight, capacity: self.capacity, granted: self.granted() }
    }
}
