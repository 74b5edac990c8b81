//! Sessions and claims: what clients send, and what they believe of the answers.

use super::*;

impl World {
    pub(super) fn open(&mut self) {
        let ttl = [1000, 4000, 10_000, 30_000][self.rng.below(4)];
        let delay = [0, 0, 500, 3000][self.rng.below(4)];
        let mut spec = SessionSpec::new(Duration::from_millis(ttl), Duration::from_millis(delay));
        spec.detached = self.rng.one_in(2);
        let p = self.any_proc();
        let id = SessionId::random();
        let sent = self.t;
        let client = self.procs[p].id.clone();
        let (i, s) = (id.clone(), spec.clone());
        self.exec(p, Commit::InOrder, move |txn| txn.open(&i, &s, &client)).unwrap();
        self.note(format!("agent {} opens {spec:?} at {p}", self.agents.len()));
        let proc = (!spec.detached).then_some(p);
        self.agents.push(Agent {
            session: id,
            spec,
            proc,
            proven: Some(sent),
            gone: false,
            claims: Vec::new(),
        });
    }

    /// Another client of a detached session, with what another one holds.
    pub(super) fn adopt(&mut self, a: usize) {
        let p = self.any_proc();
        let agent = &self.agents[a];
        if !agent.spec.detached || agent.gone {
            return;
        }
        let mut copy = Agent {
            session: agent.session.clone(),
            spec: agent.spec.clone(),
            proc: None,
            proven: None,
            gone: false,
            claims: Vec::new(),
        };
        let t = self.t;
        let sent = self.t;
        let live: Vec<_> = agent
            .claims
            .iter()
            .filter(|cl| !cl.dead && !cl.released && cl.stage == Stage::Granted && cl.deadline > t)
            .cloned()
            .collect();
        let list = live
            .iter()
            .map(|cl| Live { key: cl.claim.key.clone(), state: LiveState::Granted })
            .collect::<Vec<_>>();
        let id = copy.session.clone();
        self.note(format!(
            "agent {} adopts {} claims of {a} at {p}",
            self.agents.len(),
            live.len()
        ));
        let Ok(renewed) = self.exec(p, Commit::InOrder, move |txn| txn.renew(&id, &list)) else {
            return;
        };
        copy.proven = Some(sent);
        let until = sent + us(believed(copy.spec.ttl));
        for (mut cl, renewal) in live.into_iter().zip(renewed.claims) {
            if let Renewal::Held { token, .. } = renewal {
                assert_eq!(token, cl.token);
                cl.deadline = until;
                copy.claims.push(cl);
            }
        }
        // The one that gave it away believes as long as it did, and does nothing more.
        self.agents.push(copy);
    }

    pub(super) fn claim(&mut self, a: usize) {
        if self.agents[a].gone || self.agents[a].proven.is_none() {
            return;
        }
        let name: LockName = ["a", "b"][self.rng.below(2)].parse().unwrap();
        let agent = &self.agents[a];
        let key =
            ClaimKey { name: name.clone(), session: agent.session.clone(), id: ClaimId::random() };
        let mut claim = Claim::exclusive(key, &agent.spec);
        if name.as_str() == "b" {
            claim.capacity = 2 + self.rng.below(2) as u32;
            claim.weight = 1 + self.rng.below(claim.capacity as usize) as u32;
        } else if self.rng.one_in(2) {
            claim.weight = 1;
        }
        claim.queue = !self.rng.one_in(4);
        let deadline = self.waits(a, self.t);
        if deadline <= self.t {
            return;
        }
        let weight = claim.weight;
        self.agents[a].claims.push(Cl {
            claim,
            weight,
            stage: Stage::InFlight,
            token: 0,
            deadline,
            dead: false,
            released: false,
            sent: false,
            unsettled: false,
            keep_until: 0,
            cool_until: 0,
            change: 0,
            uncertain: false,
        });
        let c = self.agents[a].claims.len() - 1;
        self.send(a, c);
    }

    pub(super) fn send(&mut self, a: usize, c: usize) {
        let sent = self.t;
        self.expire();
        let cl = &self.agents[a].claims[c];
        if cl.dead || cl.released || cl.stage == Stage::Granted || self.agents[a].gone {
            return;
        }
        let until = self.believed(a, sent);
        let mut claim = cl.claim.clone();
        claim.resend = cl.sent;
        let p = self.proc_of(a);
        let commit = if claim.resend { Commit::InOrder } else { Commit::OnDisk };
        let copy = claim.clone();
        let answer = self.exec(p, commit, move |txn| txn.claim(&copy));
        if answer.is_ok() {
            self.check_line(&claim.key.name);
        }
        let lost = self.lost();
        self.note(format!(
            "agent {a} claim {c} {} w{}/{} resend {} -> {answer:?} lost {lost}",
            claim.key.name, claim.weight, claim.capacity as i32, claim.resend
        ));
        self.pass_a_little();
        if lost {
            let cl = &mut self.agents[a].claims[c];
            (cl.sent, cl.unsettled) = (true, true);
            return;
        }
        match answer {
            Ok(verdict) => self.judge(a, c, verdict, sent, until),
            Err(error) if error.kind() == ErrorKind::SessionLost => self.session_lost(a),
            Err(error) => {
                assert!(
                    matches!(error.kind(), ErrorKind::QueueFull | ErrorKind::Mismatch),
                    "{error}"
                );
                self.agents[a].claims[c].dead = true;
            }
        }
    }

    pub(super) fn pass_a_little(&mut self) {
        self.t += 1 + self.rng.below(3000) as i64;
        self.expire();
    }

    pub(super) fn judge(
        &mut self,
        a: usize,
        c: usize,
        verdict: Verdict,
        sent: i64,
        until: Option<i64>,
    ) {
        self.agents[a].claims[c].sent = true;
        match verdict {
            Verdict::Granted { token, ttl } => {
                assert_eq!(ttl, self.agents[a].spec.ttl);
                if let Some(until) = until
                    && self.raise(a, c, until)
                {
                    self.granted(a, c, token);
                }
            }
            Verdict::Queued { .. } => {
                let until = self.waits(a, sent);
                self.raise(a, c, until);
                let cl = &mut self.agents[a].claims[c];
                if cl.stage == Stage::InFlight {
                    cl.stage = Stage::Queued;
                }
            }
            Verdict::Busy { .. } => {
                self.agents[a].claims[c].dead = true;
            }
            Verdict::Gone => {
                self.agents[a].claims[c].dead = true;
                self.withdraw(a, c);
            }
        }
    }

    pub(super) fn granted(&mut self, a: usize, c: usize, token: u64) {
        let cl = &mut self.agents[a].claims[c];
        if cl.stage == Stage::Granted {
            assert_eq!(cl.token, token, "another token");
            return;
        }
        cl.stage = Stage::Granted;
        cl.token = token;
        let exclusive = cl.claim.weight == MAX;
        let name = cl.claim.key.name.as_str().to_owned();
        let last = self.tokens.entry(name).or_default();
        if exclusive {
            assert!(token > *last, "a token went back");
        }
        *last = (*last).max(token);
        self.check();
    }

    pub(super) fn look(&mut self, a: usize) {
        let now = self.b();
        self.expire();
        for c in 0..self.agents[a].claims.len() {
            let cl = &self.agents[a].claims[c];
            if cl.dead || cl.released || cl.stage != Stage::Queued || self.agents[a].gone {
                continue;
            }
            let status = read::status(self.db.as_ref().unwrap(), &cl.claim.key, now).unwrap();
            if let ClaimStatus::Granted(token) = status
                && self.agents[a].spec.lock_delay.is_zero()
            {
                self.note(format!("agent {a} sees that {c} was pushed"));
                self.granted(a, c, token);
            }
        }
    }
}
