//! Tries: claims that take the lock if that is possible now, and leave no key if it is not.

use super::transactions::{deletions, held, staying};
use super::{Claiming, Joined, Outcome};
use crate::Result;
use crate::layout::ahead_of;
use crate::layout::transaction::{empty_but_for, nobody_since, none_was_changed, transaction};
use crate::look::is_admitted;
use crate::sessions::Purpose;

/// How often a try looks again because another claim has joined meanwhile. Then it joins, and looks
/// whether it holds.
const TRIES: u32 = 32;

impl Claiming {
    /// Takes the lock if that is possible now.
    pub(super) async fn attempt(&self) -> Result<Outcome> {
        let lease = self.store.lease(&self.session, Purpose::Hold).await?;
        let leaving = self.leaving();
        let mut is_free = empty_but_for(&self.line, &leaving);
        for _ in 0..TRIES {
            let mut when = self.is_new();
            when.extend(is_free.iter().cloned());
            let mut then = deletions(&leaving);
            then.extend(self.put(lease, true));
            let request = transaction(when, then, self.known_and_line());
            let answer = self.txn_carrying(request, &leaving).await;
            self.end_turn();
            let answer = answer?;
            if answer.succeeded {
                return Ok(held(lease, &answer));
            }
            let (line, revision) = match self.outside(answer) {
                Outcome::Outside { line, revision } => (line, revision),
                known => return Ok(known),
            };
            let stay = staying(&line, &leaving);
            self.check(&stay)?;
            if is_admitted(&self.own(lease, i64::MAX), &stay) {
                // If no claim joins after this read, the lock is free: a claim that leaves does not
                // block this one.
                is_free = vec![nobody_since(&self.line, revision)];
                is_free.extend(none_was_changed(&leaving));
            } else if !self.store.ends_overdue(&stay).await {
                return Ok(Outcome::Outside { line, revision });
            }
        }
        self.join_and_see(lease).await
    }

    /// Puts a try in line, and takes it out again if it does not hold there.
    async fn join_and_see(&self, lease: i64) -> Result<Outcome> {
        let (created, line) = match self.join_behind(lease).await? {
            Outcome::Joined(Joined { created, line, .. }) => (created, line),
            known => return Ok(known),
        };
        let ahead = ahead_of(&line, created);
        if self.check(ahead).is_ok() && is_admitted(&self.own(lease, created), ahead) {
            return Ok(Outcome::Held { lease, created, is_dated: false });
        }
        self.leave(created, created).await?;
        self.check(ahead)?;
        Ok(Outcome::Outside { line: ahead.to_vec(), revision: created })
    }
}
