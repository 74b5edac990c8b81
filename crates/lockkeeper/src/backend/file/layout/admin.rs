//! Breaking a claim, and asking holders to let go.

use rusqlite::params;

use super::Turn;
use super::place::{Place, places};
use crate::LockName;
use crate::backend::file::fault::Outcome;
use crate::store::{Evict, Evicted, Target};

impl Turn<'_> {
    pub(in crate::backend::file) fn evict(
        &mut self,
        name: &LockName,
        target: &Target,
        how: Evict,
        by: &str,
        reason: &str,
    ) -> Outcome<Evicted> {
        self.settle(name)?;
        let claims = self.all(places!("WHERE c.name = ?1"), [name.as_str().as_bytes()], Place::read)?;
        let meant = |place: &Place| match target {
            Target::Token(token) => place.granted() && place.token() == *token,
            Target::Id(hash) => place.id.hash() == *hash,
        };
        let Some(place) = claims.into_iter().find(meant) else { return Ok(Evicted::Absent) };
        match how {
            // Nobody is left to be told.
            _ if place.is_kept() => self.remove(&place)?,
            Evict::Mark => self.mark(&place, by, reason)?,
            Evict::Now => {
                // Nobody believes in it for longer than it would have lived.
                self.spend(place.id, place.expires(), Some((by, reason)))?;
                self.remove(&place)?;
            }
        }
        Ok(Evicted::Done)
    }

    fn remove(&mut self, place: &Place) -> Outcome<()> {
        self.forget(place)?;
        self.settle(&place.name).map(drop)
    }

    /// Its life stays as it is, whatever becomes of its session; a minimum hold is over.
    fn mark(&mut self, place: &Place, by: &str, reason: &str) -> Outcome<()> {
        self.change(
            "UPDATE lk_claim SET broken_by = ?3, broken_reason = ?4, until_us = ?5, keep_until_us = 0
             WHERE name = ?1 AND ord = ?2",
            params![place.name.as_str().as_bytes(), place.ord, by, reason, place.expires()],
        )?;
        self.touch(&place.name)
    }

    /// Holders hear of it by their next renewals, observers by the change of the line.
    pub(in crate::backend::file) fn request_release(
        &mut self,
        name: &LockName,
        by: &str,
        reason: &str,
    ) -> Outcome<bool> {
        self.settle(name)?;
        let asked = self.change(
            "UPDATE lk_claim SET asked_by = ?2, asked_reason = ?3 WHERE name = ?1 AND state IN (1, 2)
             AND broken_by IS NULL",
            params![name.as_str().as_bytes(), by, reason],
        )?;
        self.touch(name)?;
        Ok(asked > 0)
    }
}
