//! Changes of claims, upgrades, breaks, and the ends of sessions.

use super::*;

impl World {
    pub(super) fn amend(&mut self, a: usize, c: usize) {
        self.expire();
        let cl = &self.agents[a].claims[c];
        if cl.dead || cl.released || cl.stage != Stage::Granted || self.agents[a].gone {
            return;
        }
        let change = match self.rng.below(2) {
            0 => Amend::Lower(1),
            _ => Amend::MinHold(Duration::from_millis(1 + self.rng.below(10_000) as u64)),
        };
        let cl = &mut self.agents[a].claims[c];
        let number = cl.change + (1 << 30) + (self.t as u64 & 0xffff);
        cl.change = number;
        let (key, sent) = (cl.claim.key.clone(), self.t);
        if let Amend::Lower(weight) = change {
            for cl in self
                .agents
                .iter_mut()
                .flat_map(|agent| &mut agent.claims)
                .filter(|cl| cl.claim.key.id == key.id)
            {
                cl.weight = cl.weight.min(weight);
            }
        }
        let p = self.proc_of(a);
        let id = key.id;
        let what = change.clone();
        let name = key.name.clone();
        let answer = self.exec(p, Commit::InOrder, move |txn| txn.amend(&key, number, &what));
        self.check_line(&name);
        self.note(format!("agent {a} amends {c} {change:?} -> {answer:?}"));
        if let (Ok(Amended::Done), Amend::MinHold(hold), false) =
            (answer, change, self.evicted.contains(&id))
        {
            let cl = &mut self.agents[a].claims[c];
            cl.keep_until = cl.keep_until.max(sent + us(hold));
        }
    }

    pub(super) fn upgrade(&mut self, a: usize, c: usize) {
        self.expire();
        let cl = &self.agents[a].claims[c];
        if cl.dead
            || cl.released
            || cl.stage != Stage::Granted
            || cl.claim.key.name.as_str() != "a"
            || self.agents[a].gone
        {
            return;
        }
        if self
            .agents
            .iter()
            .flat_map(|agent| &agent.claims)
            .filter(|x| x.claim.key.id == cl.claim.key.id)
            .count()
            > 1
        {
            return;
        }
        let old = cl.clone();
        let sent = self.t;
        let until = self.believed(a, sent);
        let key = ClaimKey { id: ClaimId::random(), ..old.claim.key.clone() };
        let mut claim = Claim::exclusive(key, &self.agents[a].spec);
        claim.replaces = Some(old.claim.key.id);
        claim.queue = false;
        let p = self.proc_of(a);
        let copy = claim.clone();
        let answer = self.exec(p, Commit::OnDisk, move |txn| txn.claim(&copy));
        let lost = self.lost();
        self.note(format!("agent {a} upgrades {c} -> {answer:?} lost {lost}"));
        let mut new = Cl {
            claim,
            weight: MAX,
            stage: Stage::InFlight,
            sent: true,
            unsettled: lost,
            change: 0,
            ..old.clone()
        };
        new.deadline = self.waits(a, sent);
        if lost {
            // Both are given up.
            new.uncertain = true;
            self.agents[a].claims[c].uncertain = true;
            self.agents[a].claims[c].keep_until = 0;
            new.keep_until = 0;
            self.agents[a].claims.push(new);
            let n = self.agents[a].claims.len() - 1;
            self.withdraw(a, c);
            self.withdraw(a, n);
            return;
        }
        match answer {
            Ok(Verdict::Granted { token, .. }) => {
                self.agents[a].claims[c].released = true;
                self.agents[a].claims[c].keep_until = 0;
                self.agents[a].claims.push(new);
                let n = self.agents[a].claims.len() - 1;
                if let Some(until) = until
                    && self.raise(a, n, until)
                {
                    self.granted(a, n, token);
                } else {
                    self.withdraw(a, n);
                }
            }
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::SessionLost);
                self.session_lost(a);
            }
        }
    }

    pub(super) fn evict(&mut self, a: usize, c: usize) {
        let cl = &self.agents[a].claims[c];
        let (name, id) = (cl.claim.key.name.clone(), cl.claim.key.id);
        let how = if self.rng.one_in(2) { Evict::Mark } else { Evict::Now };
        let p = self.any_proc();
        let target = Target::Id(id.hash());
        let of = name.clone();
        let answer =
            self.exec(p, Commit::InOrder, move |txn| txn.evict(&name, &target, how, "ops", "why"));
        self.check_line(&of);
        self.note(format!("evicts {c} of {a} {how:?} -> {answer:?}"));
        self.evicted.insert(id);
        for cl in self
            .agents
            .iter_mut()
            .flat_map(|agent| &mut agent.claims)
            .filter(|cl| cl.claim.key.id == id)
        {
            cl.keep_until = 0;
            if how == Evict::Now {
                cl.dead = true;
                cl.cool_until = 0;
            }
        }
    }

    pub(super) fn close(&mut self, a: usize) {
        let id = self.agents[a].session.clone();
        self.closed.insert(id.as_str().to_owned());
        for agent in self.agents.iter_mut().filter(|agent| agent.session == id) {
            for cl in &mut agent.claims {
                cl.released = true;
                cl.cool_until = 0;
            }
            agent.gone = true;
        }
        let p = self.proc_of(a);
        let of = id.clone();
        self.exec(p, Commit::InOrder, move |txn| txn.close(&of)).unwrap();
        self.note(format!("agent {a} closes"));
    }
}
