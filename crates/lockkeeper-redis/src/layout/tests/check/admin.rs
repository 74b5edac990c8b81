//! The operations of an administrator, each on the server and on the memory store.

use super::{LINES, Tried, World};
use crate::layout::{self, Keys, Push, Victim};
use crate::store::{Entry, Evict, Evicted, Store, Target};

impl World {
    pub(super) async fn evict(&mut self) -> usize {
        let which = self.pick_of_holders();
        let Tried { sender: client, line, .. } = self.tried[which].clone();
        let name = &self.names[line].clone();
        let how = if self.seed.happens(600) { Evict::Mark } else { Evict::Now };
        let (victim, target) = self.victim(which).await;
        self.take_pushes(line).await;
        let there = self.memory.line(name).await.unwrap().entries;
        let is_kept = there.iter().any(|entry| entry.kept && is_target(entry, &target));
        let ours = layout::evict_answer(
            &self.server.ask(&layout::evict(name, &victim, how, "op", "stuck")),
        )
        .unwrap();
        let theirs =
            self.memory.admin().unwrap().evict(name, &target, how, "op", "stuck").await.unwrap();
        self.note(
            line,
            &format!("evict {how:?} {target:?}"),
            self.tried[which].claim.key.id,
            &(ours, theirs),
        );
        assert_eq!(ours, theirs);
        let lost: Vec<_> = self.server.pushes().collect();
        let first = lost.iter().find(|(_, push)| matches!(push, Push::Lost { .. }));
        // A kept claim has no client that could get a message.
        let is_reported = ours == Evicted::Done && !is_kept;
        assert!(first.is_some() == is_reported || self.server.loses_pushes, "{lost:?}");
        if let (Some((channel, Push::Lost { id, .. })), Victim::Id(victim_id)) = (first, victim) {
            assert_eq!((channel, *id), (&self.clients[client].channel(), victim_id));
        }
        for (_, push) in lost {
            self.take(line, push).await;
        }
        line
    }

    /// The claim to break: the latest holder of a line by its token, or a claim by its id.
    async fn victim(&mut self, which: usize) -> (Victim, Target) {
        let Tried { claim, line, .. } = self.tried[which].clone();
        if let Some((theirs, ours)) = self.tokens[line].last_key_value()
            && self.seed.happens(500)
        {
            return (Victim::Token(*ours), Target::Token(*theirs));
        }
        let hash = claim.key.id.hash();
        let listed = self.server.ask(&layout::line(&claim.key.name, None));
        let found = layout::find(&claim.key.name, &listed, hash).unwrap();
        let is_kept = self.entry(which).await.is_some_and(|entry| entry.kept);
        assert!(is_kept || found.is_none_or(|id| id == claim.key.id));
        // An administrator may have found the claim before its release, or not.
        let id = found.filter(|_| self.seed.happens(500)).unwrap_or(claim.key.id);
        (Victim::Id(id), Target::Id(hash))
    }

    pub(super) async fn request(&mut self) -> usize {
        let line = self.pick(LINES);
        let name = &self.names[line].clone();
        let reason = format!("why {}", self.seed.below(3));
        self.take_pushes(line).await;
        let holders = layout::holders_answer(&self.server.ask(&layout::holders(name))).unwrap();
        let request = layout::request_release(name, &holders, "op", &reason);
        let ours =
            !holders.is_empty() && layout::request_answer(&self.server.ask(&request)).unwrap();
        assert_eq!(
            ours,
            self.memory.admin().unwrap().request_release(name, "op", &reason).await.unwrap()
        );
        let pushes: Vec<_> = self.server.pushes().collect();
        let asked: Vec<_> =
            pushes.iter().filter(|(_, push)| matches!(push, Push::Requested { .. })).collect();
        assert!(asked.is_empty() != ours || self.server.loses_pushes, "{pushes:?}");
        for (_, push) in pushes {
            self.take(line, push).await;
        }
        line
    }

    pub(super) async fn names(&mut self) -> usize {
        let keys: Vec<Keys> =
            self.names.iter().map(|name| Keys::scanned(Keys::of(name).all()[0]).unwrap()).collect();
        let ours =
            layout::lines_answer(&keys, &self.server.ask(&layout::lines(&keys, u32::MAX))).unwrap();
        let (whole, long) = ours;
        assert!(long.is_empty());
        let mut ours: Vec<_> =
            whole.into_iter().map(|(name, line)| (name, line.unwrap().entries.len())).collect();
        ours.sort();
        // Both stores grant in each line.
        for name in &self.names {
            self.memory.line(name).await.unwrap();
        }
        let theirs = self.memory.admin().unwrap().lines("", None, 10).await.unwrap();
        let theirs: Vec<_> =
            theirs.into_iter().map(|(name, line)| (name, line.unwrap().entries.len())).collect();
        assert_eq!(ours, theirs);
        for line in 1..LINES {
            self.take_pushes(line).await;
        }
        0
    }
}

fn is_target(entry: &Entry, target: &Target) -> bool {
    match target {
        Target::Token(token) => entry.token == Some(*token),
        Target::Id(hash) => entry.id == *hash,
    }
}
