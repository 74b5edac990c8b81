//! The operations, one each on the server and on the memory store.

use std::sync::Arc;
use std::time::Duration;

use super::{CLIENTS, LINES, Tried, Watched, World};
use crate::layout::{self, Channel, ClaimStatus};
use crate::store::{
    Amend, Amended, Claim, ClaimId, ClaimKey, Entry, Live, LiveState, MAX, Meta, Renewal, Store,
    Verdict,
};

impl World {
    /// The first two lines get a mutex and readers, the third a semaphore of changing size; seldom
    /// the other way round.
    pub(super) async fn new_claim(&mut self) -> usize {
        let line = self.pick(LINES);
        let is_lock = (line < 2) != self.seed.happens(50);
        let capacity = if is_lock { MAX } else { [1, 2, 3, 3, 4, 7][self.pick(6)] };
        let weight = match capacity {
            MAX => [1, 1, MAX][self.pick(3)],
            permits => 1 + u32::try_from(self.pick(permits as usize)).unwrap(),
        };
        let key = ClaimKey {
            name: self.names[line].clone(),
            session: self.session.clone(),
            id: ClaimId::random(),
        };
        let client = self.pick(CLIENTS);
        let replaces = match self.pick(10) {
            0 => self.tried.iter().rev().find(|t| t.line == line).map(|t| t.claim.key.id),
            _ => None,
        };
        let claim = Claim {
            key,
            ttl: Duration::from_millis(500 + self.seed.below(10_000)),
            wait_ttl: Duration::from_millis(500 + self.seed.below(4_000)),
            lock_delay: Duration::from_secs(self.seed.below(2) * 2),
            weight,
            capacity,
            queue: self.seed.happens(800),
            resend: self.seed.happens(20),
            replaces,
            max_waiters: 3,
            meta: self.meta(if self.seed.clone().happens(30) { 1 } else { 0 }),
        };
        let waits_at = client;
        self.tried.push(Tried {
            claim,
            client,
            sender: client,
            waits_at,
            line,
            notified: false,
            pushed: false,
        });
        self.claim(self.tried.len() - 1, false).await;
        line
    }

    /// The entry of a claim in the memory store, which grants at a look.
    pub(super) async fn entry(&self, which: usize) -> Option<Entry> {
        let Tried { claim, .. } = &self.tried[which];
        let there = self.memory.line(&claim.key.name).await.unwrap();
        there.entries.into_iter().find(|entry| entry.id == claim.key.id.hash())
    }

    fn meta(&mut self, epoch: u16) -> Meta {
        let reason = self.seed.happens(500).then(|| Arc::from("why"));
        let value = self.seed.happens(500).then(|| Arc::from(self.seed.number().to_le_bytes()));
        Meta { owner: format!("owner {}", self.seed.below(1000)).into(), reason, value, epoch }
    }

    pub(super) async fn again(&mut self) -> usize {
        let which = self.pick(self.tried.len());
        let there = self.entry(which).await;
        let is_known = there.is_some();
        // An id that is kept is retired: a client that sends it again is mistaken about it.
        self.tried[which].claim.resend =
            self.seed.happens(300) || there.is_some_and(|entry| entry.kept);
        if self.seed.happens(300) {
            // Through another client, and with another ttl: the first ttl counts while the claim is
            // known.
            self.tried[which].client = self.pick(CLIENTS);
            self.tried[which].claim.ttl = Duration::from_millis(500 + self.seed.below(10_000));
        }
        self.claim(which, is_known).await;
        self.tried[which].line
    }

    /// `is_known`: the line has the claim.
    async fn claim(&mut self, which: usize, is_known: bool) {
        let Tried { claim, client: sender, line, waits_at, .. } = self.tried[which].clone();
        let client = self.clients[sender];
        let channel = client.channel();
        let channel = Channel { bytes: channel.as_bytes().into(), sharded: false };
        let answer = self.server.ask(&layout::claim(&claim, &client, &channel));
        let ours = layout::claim_answer(&claim, &answer);
        let theirs = self.memory.claim(&claim).await;
        self.note(line, &format!("claim {claim:?}"), claim.key.id, &(&ours, &theirs));
        if let Ok(Verdict::Granted { .. } | Verdict::Queued { .. }) = &ours {
            self.tried[which].sender = sender;
        }
        match (ours, theirs) {
            (
                Ok(Verdict::Granted { token, ttl }),
                Ok(Verdict::Granted { token: theirs, ttl: kept }),
            ) => {
                assert_eq!(ttl, kept);
                self.token(line, theirs, token);
                // The client that waits for a grant gets a message, although another client has the
                // grant in its answer.
                if sender == waits_at || !is_known {
                    self.tried[which].waits_at = sender;
                    self.notified(which);
                }
            }
            (
                Ok(Verdict::Queued { ahead, look_again, .. }),
                Ok(Verdict::Queued { ahead: theirs, look_again: then, .. }),
            ) => {
                // The server still counts waiters that died in the middle of the line.
                assert!(ahead >= theirs && ahead <= theirs + 3, "{ahead} ahead, not {theirs}");
                assert!(
                    look_again <= then || look_again >= Duration::from_secs(5),
                    "{look_again:?}, not {then:?}"
                );
                // The claim may have left before, and wait again.
                self.tried[which].waits_at = sender;
                self.tried[which].notified = false;
                self.tried[which].pushed = false;
            }
            (
                Ok(Verdict::Busy { holder, retry_after, .. }),
                Ok(Verdict::Busy { holder: first, retry_after: then, .. }),
            ) => {
                assert!(
                    holder == first || holder.as_deref() == Some(""),
                    "{holder:?}, not {first:?}"
                );
                assert!(retry_after <= then, "{retry_after:?}, not {then:?}");
            }
            (Ok(Verdict::Gone), Ok(Verdict::Gone)) => {}
            (Err(ours), Err(theirs)) => assert_eq!(ours.to_string(), theirs.to_string()),
            (Err(ours), Ok(Verdict::Queued { .. }))
                if ours.kind() == crate::ErrorKind::QueueFull =>
            {
                self.agreement.lenient += 1;
                self.memory.withdraw(&claim.key, None).await.unwrap();
            }
            (ours, theirs) => panic!("{ours:?}, not {theirs:?}, for {claim:?}"),
        }
    }

    pub(super) async fn withdraw(&mut self) -> usize {
        let which = self.pick(self.tried.len());
        self.leave(which).await
    }

    async fn leave(&mut self, which: usize) -> usize {
        let Tried { claim, line, .. } = self.tried[which].clone();
        let tombstone =
            self.seed.happens(200).then(|| Duration::from_secs(1 + self.seed.below(90)));
        let ours =
            layout::withdraw_answer(&self.server.ask(&layout::withdraw(&claim.key, tombstone)))
                .unwrap();
        let theirs = self.memory.withdraw(&claim.key, tombstone).await.unwrap();
        self.note(line, "withdraw", claim.key.id, &(tombstone, ours, theirs));
        assert_eq!(ours, theirs);
        line
    }

    pub(super) async fn renew(&mut self) -> usize {
        let count = 1 + self.pick(4);
        let states = [LiveState::InFlight, LiveState::Queued, LiveState::Granted];
        let which: Vec<usize> = (0..count).map(|_| self.pick(self.tried.len())).collect();
        let live: Vec<Live> = which
            .iter()
            .map(|w| Live { key: self.tried[*w].claim.key.clone(), state: states[self.pick(3)] })
            .collect();
        let ours = layout::renew_answer(&live, &self.server.ask(&layout::renew(&live))).unwrap();
        let theirs = self.memory.renew(&self.session, &live).await.unwrap();
        assert_eq!(ours.requests, theirs.requests, "who asks for {live:?}");
        for (i, (ours, theirs)) in ours.claims.into_iter().zip(theirs.claims).enumerate() {
            self.note(self.tried[which[i]].line, "renew", live[i].key.id, &(&ours, &theirs));
            match (ours, theirs) {
                (Renewal::Held { token, ttl }, Renewal::Held { token: theirs, ttl: kept }) => {
                    assert_eq!(ttl, kept);
                    self.token(self.tried[which[i]].line, theirs, token);
                }
                // Redis says by a push who removed a claim, and keeps nothing for a renewal to
                // find.
                (Renewal::Lost(None), Renewal::Lost(Some(broken))) if broken.removed => {}
                (ours, theirs) => assert_eq!(ours, theirs, "{:?}", live[i]),
            }
        }
        self.tried[which[0]].line
    }

    /// Half of the time a claim whose client knows that it holds: most others are dead, or wait.
    pub(super) fn pick_of_holders(&mut self) -> usize {
        let holders: Vec<usize> =
            (0..self.tried.len()).filter(|which| self.tried[*which].notified).collect();
        match holders.is_empty() || self.seed.happens(500) {
            true => self.pick(self.tried.len()),
            false => holders[self.pick(holders.len())],
        }
    }

    pub(super) async fn amend(&mut self) -> usize {
        let which = self.pick_of_holders();
        let Tried { claim, line, .. } = self.tried[which].clone();
        let change = match self.pick(6) {
            3.. => {
                let most = if self.seed.happens(100) { 90_000 } else { 6000 };
                Amend::MinHold(Duration::from_millis(300 + self.seed.below(most)))
            }
            0 if line < 2 => Amend::Lower(1),
            1 if line >= 2 => Amend::Lower(u32::try_from(self.pick(3)).unwrap_or(0) + 1),
            0 | 1 => Amend::Value(self.seed.number().to_le_bytes()[..self.pick(8)].into()),
            _ => Amend::Meta(self.meta(claim.meta.epoch)),
        };
        self.changes += 1;
        // Now and then a late copy: of the last change of any claim, or of an older one.
        let number = if self.seed.happens(200) {
            self.changes - 1 - self.seed.below(3).min(self.changes - 1)
        } else {
            self.changes
        };
        let number = number.max(1);
        let ours = layout::amend_answer(
            &claim.key,
            &self.server.ask(&layout::amend(&claim.key, number, &change)),
        )
        .unwrap();
        let theirs = self.memory.amend(&claim.key, number, &change).await.unwrap();
        self.note(line, &format!("amend {change:?}"), claim.key.id, &(ours, theirs));
        assert_eq!(ours, theirs);
        if matches!(change, Amend::Value(_) | Amend::Meta(_)) && self.changes.is_multiple_of(3) {
            // A late copy of an older change does nothing.
            let late = Amend::Value(Arc::from(*b"late"));
            for number in [number, number.saturating_sub(1).max(1)] {
                let answer = self.server.ask(&layout::amend(&claim.key, number, &late));
                let again = self.memory.amend(&claim.key, number, &late).await.unwrap();
                assert_eq!(layout::amend_answer(&claim.key, &answer).unwrap(), again);
            }
        }
        if ours == Amended::Done && matches!(change, Amend::MinHold(_)) && self.seed.happens(500) {
            self.leave(which).await;
        }
        line
    }

    pub(super) fn observe(&mut self) -> usize {
        let line = self.pick(LINES);
        let within = Duration::from_millis(1 + self.seed.below(60_000));
        let answer = self.server.ask(&layout::observe(&self.names[line], false, within));
        layout::observe_answer(&answer).unwrap();
        let until = self.clock.now() + within;
        let watched = self.watched.entry(line).or_insert(Watched {
            until,
            notified: true,
            fingerprint: Vec::new(),
        });
        // The observation until now may have ended in between.
        if watched.until <= self.clock.now() {
            watched.notified = true;
        }
        // A short observation does not shorten a longer one of the same client.
        watched.until = watched.until.max(until);
        line
    }

    pub(super) async fn look(&mut self) -> usize {
        let which = self.pick(self.tried.len());
        let Tried { claim, line, waits_at, .. } = self.tried[which].clone();
        let client = if self.seed.happens(300) { self.pick(CLIENTS) } else { waits_at };
        let channel = self.clients[client].channel();
        let channel = Channel { bytes: channel.as_bytes().into(), sharded: false };
        let ours =
            layout::look_answer(&claim.key, &self.server.ask(&layout::look(&claim.key, &channel)))
                .unwrap();
        // The memory store grants at a look, so both stores look.
        self.server.ask(&layout::line(&claim.key.name, None));
        let entry = self.entry(which).await.filter(|entry| !entry.kept);
        match (ours, entry) {
            (ClaimStatus::Granted { token }, Some(entry)) if entry.granted => {
                self.token(line, entry.token.unwrap(), token);
            }
            // LOOK grants nothing.
            (ClaimStatus::Queued | ClaimStatus::First, Some(_)) => assert_eq!(client, waits_at),
            (ClaimStatus::Elsewhere, Some(_)) => assert_ne!(client, waits_at),
            (ClaimStatus::Absent, None) => {}
            (ours, entry) => panic!("{ours:?}, not {entry:?}"),
        }
        line
    }
}
