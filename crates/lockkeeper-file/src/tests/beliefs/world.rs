//! The machine, its processes, and the requests that reach the file.

use super::*;

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("live")).unwrap();
        let clients = Clients::new(dir.path().join("live"));
        let mut world = Self {
            dir,
            db: None,
            clients,
            rng: Rng(seed | 1),
            t: 1_700_000_000 * S,
            boot_start: 1_700_000_000 * S - 500 * S,
            boots: 0,
            snaps: Vec::new(),
            procs: Vec::new(),
            agents: Vec::new(),
            closed: HashSet::new(),
            evicted: HashSet::new(),
            withdrawn: Vec::new(),
            tokens: HashMap::new(),
            log: Vec::new(),
        };
        File::create(world.path()).unwrap();
        let mut db = database::connect(&world.path()).unwrap();
        let boot = world.boot();
        database::prepare(&mut db, &world.path(), &boot, &world.clients).unwrap();
        db.execute_batch(
            "PRAGMA journal_mode = DELETE; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF",
        )
        .ok();
        world.db = Some(db);
        world.snaps.push(fs::read(world.path()).unwrap());
        world.new_proc();
        world
    }

    pub(super) fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("db")
    }

    pub(super) fn b(&self) -> i64 {
        self.t - self.boot_start
    }

    pub(super) fn boot(&self) -> Boot {
        Boot::at(format!("boot{}", self.boots), self.b(), self.boot_start)
    }

    pub(super) fn note(&mut self, what: String) {
        let line = format!(
            "{:.6} b={:.6} {what}",
            (self.t - 1_700_000_000 * S) as f64 / 1e6,
            self.b() as f64 / 1e6
        );
        self.log.push(line);
    }

    pub(super) fn exec<T>(
        &mut self,
        p: usize,
        commit: Commit,
        f: impl FnOnce(&mut Txn<'_>) -> Outcome<T>,
    ) -> Result<T, Error> {
        let now = self.b();
        let path = self.path();
        let db = self.db.as_ref().unwrap();
        let pushed = || -> HashSet<(i64, String)> {
            let mut query =
                db.prepare("SELECT ord, session FROM lk_claim WHERE state = 1").unwrap();
            query
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
                .unwrap()
                .map(|row| row.unwrap())
                .collect()
        };
        let before = pushed();
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        let proc = &mut self.procs[p];
        let dead = DeadClientCheck::new(&self.clients, &proc.id);
        let mut txn =
            Txn::new(db, &path, now, dead, &mut proc.memory, Kind { alone: true, commit });
        let result = txn.attempt(f);
        let needs = txn.needs_disk() || commit == Commit::OnDisk;
        let (failure, notifications, dead) = txn.finish();
        if let Some(failure) = failure {
            panic!("{failure}");
        }
        db.execute_batch("COMMIT").unwrap();
        for (_, session) in pushed().difference(&before) {
            assert!(
                notifications.has_session(&SessionId::new(session.as_str())),
                "nobody is woken"
            );
        }
        for client in dead {
            self.clients.remove_dead_client(&client);
        }
        let bytes = fs::read(&path).unwrap();
        // What a transaction that waits writes is more than nothing.
        if needs && self.snaps.last() != Some(&bytes) {
            self.snaps.clear();
        }
        if self.snaps.last() != Some(&bytes) {
            self.snaps.push(bytes);
        }
        result
    }

    pub(super) fn new_proc(&mut self) {
        let (id, file) = self.clients.enroll(Rights::of(&self.path()).unwrap()).unwrap();
        self.procs.push(Proc { id, _file: file, memory: Memory::default() });
        let p = self.procs.len() - 1;
        self.exec(p, Commit::InOrder, |txn| txn.clear_away()).unwrap();
        self.note(format!("process {p}"));
    }

    pub(super) fn any_proc(&mut self) -> usize {
        let n = self.procs.len();
        self.rng.below(n)
    }

    pub(super) fn proc_of(&mut self, a: usize) -> usize {
        match self.agents[a].proc {
            Some(p) if p < self.procs.len() => p,
            _ => self.any_proc(),
        }
    }

    pub(super) fn lost(&mut self) -> bool {
        self.rng.one_in(8)
    }

    pub(super) fn pass(&mut self) {
        let step = match self.rng.below(60) {
            0 => S * 8,
            1..=2 => S * 2,
            3..=10 => S / 2,
            _ => S / 20,
        };
        let by = self.rng.below(step as usize) as i64;
        self.t += by.max(1);
        self.expire();
    }

    pub(super) fn expire(&mut self) {
        let t = self.t;
        for agent in &mut self.agents {
            let delay = us(agent.spec.lock_delay);
            for cl in
                agent.claims.iter_mut().filter(|cl| !cl.dead && !cl.released && cl.deadline <= t)
            {
                cl.dead = true;
                if cl.stage == Stage::Granted && !self.closed.contains(agent.session.as_str()) {
                    cl.cool_until = cl.cool_until.max(cl.deadline + delay);
                }
            }
        }
    }

    pub(super) fn believed(&self, a: usize, sent: i64) -> Option<i64> {
        let agent = &self.agents[a];
        agent.proven.map(|proven| proven.min(sent) + us(believed(agent.spec.ttl)))
    }

    pub(super) fn waits(&self, a: usize, sent: i64) -> i64 {
        let agent = &self.agents[a];
        let wait = sent + us(believed(agent.spec.wait_ttl));
        self.believed(a, sent).map_or(wait, |until| until.min(wait))
    }

    pub(super) fn raise(&mut self, a: usize, c: usize, until: i64) -> bool {
        let t = self.t;
        let cl = &mut self.agents[a].claims[c];
        if cl.dead || cl.released || cl.deadline <= t {
            return false;
        }
        cl.deadline = cl.deadline.max(until);
        true
    }

    pub(super) fn session_lost(&mut self, a: usize) {
        let agent = &mut self.agents[a];
        agent.gone = true;
        for cl in &mut agent.claims {
            cl.dead = true;
        }
    }
}
