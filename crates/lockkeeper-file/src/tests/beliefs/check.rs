//! What has to be true after each step, and at the end.

use super::*;

impl World {
    pub(super) fn check(&self) {
        for name in ["a", "b"] {
            let mut seen = HashSet::new();
            let taken: Vec<(usize, &Cl)> = self
                .agents
                .iter()
                .enumerate()
                .flat_map(|(a, agent)| agent.claims.iter().map(move |cl| (a, cl)))
                .filter(|(_, cl)| cl.claim.key.name.as_str() == name && !cl.uncertain)
                .filter(|(_, cl)| {
                    let holds = cl.stage == Stage::Granted
                        && !cl.dead
                        && !cl.released
                        && cl.deadline > self.t;
                    holds || cl.keep_until > self.t || cl.cool_until > self.t
                })
                .filter(|(_, cl)| seen.insert(cl.claim.key.id))
                .collect();
            let sum: u64 = taken.iter().map(|(_, cl)| u64::from(cl.weight)).sum();
            let capacity = taken.iter().map(|(_, cl)| cl.claim.capacity).min().unwrap_or(MAX);
            if sum > u64::from(capacity) {
                for line in self.log.iter().rev().take(60).rev() {
                    eprintln!("{line}");
                }
                panic!(
                    "too many on {name} at {}: {taken:#?}",
                    (self.t - 1_700_000_000 * S) as f64 / 1e6
                );
            }
        }
    }

    /// After any request that has looked at a line, the line has no waiter that could hold, and no
    /// more holders than fit.
    pub(super) fn check_line(&self, name: &LockName) {
        let mut dead = DeadClientCheck::new(&self.clients, "");
        // In the request's own time.
        let line = read::line(self.db.as_ref().unwrap(), name, self.b(), &mut dead).unwrap();
        let mut rule = Admission::new();
        let (mut sum, mut capacity) = (0, MAX);
        for entry in &line.entries {
            let demand = Demand { weight: entry.weight, capacity: entry.capacity, granted: false };
            let fits = rule.admit(demand);
            assert!(entry.granted || !fits, "one waits that could hold: {line:#?}");
            if entry.granted {
                sum += u64::from(entry.weight);
                capacity = capacity.min(entry.capacity);
            }
        }
        assert!(sum <= u64::from(capacity), "too many hold: {line:#?}");
    }

    /// In the end nothing is left.
    pub(super) fn clean_up(&mut self) {
        self.t += 3 * 86_400 * S;
        self.procs.clear();
        self.new_proc();
        for _ in 0..400 {
            let id = SessionId::random();
            let client = self.procs[0].id.clone();
            let (i, spec) = (id.clone(), SessionSpec::new(Duration::from_secs(1), Duration::ZERO));
            self.exec(0, Commit::InOrder, move |txn| txn.open(&i, &spec, &client)).unwrap();
            self.exec(0, Commit::InOrder, move |txn| txn.close(&id)).unwrap();
        }
        let count = |sql: &str| -> i64 {
            self.db.as_ref().unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(count("SELECT count(*) FROM lk_claim"), 0, "claims are left");
        assert_eq!(count("SELECT count(*) FROM lk_session"), 0, "sessions are left");
        let files = fs::read_dir(self.dir.path().join("live")).unwrap().count();
        assert!(files <= 1, "{files} files are left");
    }
}
