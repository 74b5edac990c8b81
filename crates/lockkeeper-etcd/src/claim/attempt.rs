//! Tries: claims that take the lock if that is possible now, and leave no key if it is not.

use super::transactions::{deletions, held, staying};
use super::{Claiming, Joined, Outcome};
use crate::Result;
use crate::layout::transaction::{empty_but_for, nobody_since, none_was_changed, transaction};
use crate::layout::{Contender, ahead_of};
use crate::look::is_admitted;
use crate::sessions::Purpose;

/// How often a try looks again because another claim has joined meanwhile. Then it joins, and looks
/// whether it holds.
const TRIES: u32 = 32;

impl Claiming {
    /// Takes the lock if that is possible now.
    pub(super) async fn attempt(&self) -> Result<Outcome> {
        let lease = self.store.lease(&self.session, Purpose::Hold).await?;
        let is_admitted_to = |stay: &[Contender]| is_admitted(&self.own(lease, i64::MAX), stay);
        let mut seen: Option<(Vec<Contender>, i64)> = None;
        for _ in 0..TRIES {
            let (leaving, carrying) = self.leaving(None);
            let mut when = self.is_new();
            match seen.take().filter(|(line, _)| is_admitted_to(&staying(line, &leaving))) {
                // If no claim has joined since this look, the lock is free: a claim that leaves
                // does not block this one.
                Some((_, revision)) => {
                    when.push(nobody_since(&self.line, revision));
                    when.extend(none_was_changed(&leaving));
                }
                None => when.extend(empty_but_for(&self.line, &leaving)),
            }
            let mut then = deletions(&leaving);
            then.extend(self.put(lease, true));
            let request = transaction(when, then, self.known_and_line());
            let answer = self.txn_carrying(request, carrying).await;
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
            if is_admitted_to(&stay) {
                seen = Some((line, revision));
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
