//! Renewals, withdrawals, and late copies.

use super::*;

impl World {
    pub(super) fn renew(&mut self, a: usize) {
        self.expire();
        if self.agents[a].gone {
            return;
        }
        let sent = self.t;
        let which: Vec<usize> = (0..self.agents[a].claims.len())
            .filter(|c| {
                let cl = &self.agents[a].claims[*c];
                !cl.dead && !cl.released
            })
            .collect();
        let list: Vec<Live> = which
            .iter()
            .map(|c| {
                let cl = &self.agents[a].claims[*c];
                let state = match cl.stage {
                    Stage::InFlight => LiveState::InFlight,
                    Stage::Queued => LiveState::Queued,
                    Stage::Granted => LiveState::Granted,
                };
                Live { key: cl.claim.key.clone(), state }
            })
            .collect();
        let id = self.agents[a].session.clone();
        let p = self.proc_of(a);
        let asked = list.clone();
        let answer = self.exec(p, Commit::InOrder, move |txn| txn.renew(&id, &asked));
        let lost = self.lost();
        self.note(format!("agent {a} renews {which:?} -> {answer:?} lost {lost}"));
        self.pass_a_little();
        if lost {
            return;
        }
        let renewed = match answer {
            Ok(renewed) => renewed,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::SessionLost);
                return self.session_lost(a);
            }
        };
        let agent = &mut self.agents[a];
        agent.proven = Some(agent.proven.map_or(sent, |proven| proven.max(sent)));
        let until = sent + us(believed(agent.spec.ttl));
        for ((c, live), renewal) in which.into_iter().zip(list).zip(renewed.claims) {
            match renewal {
                Renewal::Held { token, .. } if self.raise(a, c, until) => {
                    self.granted(a, c, token);
                }
                Renewal::Queued if live.state == LiveState::Granted => {
                    panic!("a grant was taken back")
                }
                Renewal::Queued => {
                    let until = self.waits(a, sent);
                    self.raise(a, c, until);
                }
                Renewal::Lost(broken) => {
                    let cl = &mut self.agents[a].claims[c];
                    let id = cl.claim.key.id;
                    if live.state == LiveState::Granted
                        && broken.is_none()
                        && !cl.dead
                        && !cl.uncertain
                    {
                        let shared = self
                            .agents
                            .iter()
                            .flat_map(|agent| &agent.claims)
                            .any(|cl| cl.claim.key.id == id && cl.released);
                        assert!(
                            shared || self.closed.contains(self.agents[a].session.as_str()),
                            "a loss without a reason"
                        );
                    }
                    self.agents[a].claims[c].dead = true;
                }
                _ => {}
            }
        }
    }

    pub(super) fn withdraw(&mut self, a: usize, c: usize) {
        let cl = &mut self.agents[a].claims[c];
        cl.released = true;
        let key = cl.claim.key.clone();
        // All clients that have it.
        let tombstone = cl.unsettled.then_some(TOMBSTONE_MIN);
        let is_dead = self.agents[a].proc == Some(usize::MAX);
        let cl = &self.agents[a].claims[c];
        let copy = cl.claim.clone();
        for cl in self
            .agents
            .iter_mut()
            .flat_map(|agent| &mut agent.claims)
            .filter(|cl| cl.claim.key.id == key.id)
        {
            cl.released = true;
            cl.cool_until = 0;
        }
        if is_dead || self.rng.one_in(10) {
            return self.note(format!("agent {a} never withdraws {c}"));
        }
        let p = self.proc_of(a);
        let name = key.name.clone();
        let found = self.exec(p, Commit::InOrder, move |txn| txn.withdraw(&key, tombstone));
        if matches!(found, Ok(crate::store::Withdrawal::Removed)) {
            self.check_line(&name);
        }
        self.note(format!("agent {a} withdraws {c} tombstone {tombstone:?} -> {found:?}"));
        if tombstone.is_some() {
            let until = self.t + us(TOMBSTONE_MIN) - 1;
            self.withdrawn.push((copy, until));
        }
    }

    pub(super) fn late_copy(&mut self) {
        if self.withdrawn.is_empty() {
            return;
        }
        let i = self.rng.below(self.withdrawn.len());
        let (mut claim, until) = self.withdrawn[i].clone();
        claim.replaces = None;
        if until <= self.t {
            self.withdrawn.swap_remove(i);
            return;
        }
        let p = self.any_proc();
        let answer = self.exec(p, Commit::OnDisk, move |txn| txn.claim(&claim));
        self.note(format!("a late copy -> {answer:?}"));
        let is_refused = matches!(answer, Ok(Verdict::Gone)) || answer.is_err();
        assert!(is_refused, "a late copy was granted: {answer:?}");
    }
}
