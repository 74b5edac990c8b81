//! Random operations of several clients on one lock under faults, recorded as a history.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::{
    Contestant, Habits, History, Kind, LibraryClient, Recorder, Rules, Seed, Summary, Walker,
};
use crate::{Case, Seeded, TestClient, Ttls};
use lockkeeper::layer::{Fault, Faults};
use lockkeeper::{LockName, layer::Chaos};

/// The lock's name, in the history and in the store.
const LOCK: &str = "walked";

/// The clients, their operations, and the faults.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The kind of lock.
    pub kind: Kind,
    /// The number of clients, each as if in a process of its own.
    pub clients: u64,
    /// The number of tasks of each client.
    pub tasks: u64,
    /// The number of times that each task acquires the lock.
    pub rounds: usize,
    /// The behaviour of the tasks.
    pub habits: Habits,
    /// The faults of the connections.
    pub faults: Faults,
    /// Whether a client is sometimes cut off from the store for longer than a lease.
    pub cut_offs: bool,
    /// How long claims live.
    pub ttls: Ttls,
    /// How long a claim that its client gave up may stay in the store: longer than any request is
    /// late.
    pub lingers: Duration,
}

impl Plan {
    /// A plan without faults. Every refusal must have a reason.
    pub fn calm(kind: Kind, ttls: Ttls) -> Self {
        let habits = Habits { plain: false, careless: false, sure: true, pause: ttls.ttl / 4 };
        Self {
            kind,
            clients: 3,
            tasks: 2,
            rounds: 12,
            habits,
            faults: Faults::none(),
            cut_offs: false,
            ttls,
            lingers: ttls.ttl * 30,
        }
    }

    /// A plan in which requests and answers are lost, doubled and delayed, and clients are careless
    /// and sometimes cut off.
    pub fn stormy(kind: Kind, ttls: Ttls) -> Self {
        let faults = Faults::none()
            .with(Fault::Refused, 20)
            .with(Fault::LostRequest, 30)
            .with(Fault::LostReply, 50)
            .with(Fault::Twice, 40)
            .with(Fault::LateCopy, 40)
            .with(Fault::Overdue, 40)
            .with(Fault::LostWake, 50)
            .with(Fault::FalseWake, 50)
            .slow(150, ttls.ttl / 4)
            .late(ttls.ttl * 2);
        let habits = Habits { plain: false, careless: true, sure: false, pause: ttls.ttl / 2 };
        Self { habits, faults, cut_offs: true, clients: 4, ..Self::calm(kind, ttls) }
    }

    /// The same plan, but all tasks only wait and release.
    #[must_use]
    pub fn plain(mut self) -> Self {
        (self.habits.plain, self.habits.careless) = (true, false);
        self
    }

    /// The same plan, but with two clients of one task each, so that the lock is often free.
    #[must_use]
    pub fn few(self) -> Self {
        Self { clients: 2, tasks: 1, rounds: self.rounds * 3, ..self }
    }

    /// The rules that the lock has to keep.
    pub fn rules(&self) -> Rules {
        Rules::permits(self.kind.capacity()).delayed(self.ttls.lock_delay).lingering(self.lingers)
    }

    /// Runs the plan with clients of the library, and returns the history.
    pub async fn walk(&self, case: &Case, seed: Seed) -> History {
        let kind = self.kind;
        self.walk_as(case, seed, &|test_client, name| {
            Arc::new(LibraryClient::new(&test_client.keeper, name, kind))
        })
        .await
    }

    /// Runs the plan with the contestants that `make` makes from each connection.
    pub async fn walk_as(
        &self,
        case: &Case,
        seed: Seed,
        make: &dyn Fn(&TestClient, &LockName) -> Arc<dyn Contestant>,
    ) -> History {
        let _sown = seed.sow();
        let mut draw = Seeded::new(seed.number());
        let name = case.name(LOCK);
        let recorder = Recorder::new(case.clock().clone(), "all");
        let (mut test_clients, mut tasks) = (Vec::new(), JoinSet::new());
        for client in 0..self.clients {
            let test_client = case.test_client(self.ttls).await;
            test_client.line.sow(draw.number());
            test_client.line.set(self.faults.clone());
            for task in 0..self.tasks {
                let client = format!("client {client} task {task}");
                let contestant = make(&test_client, &name);
                let mut walker = self.walker(case, &recorder, &contestant, client, &mut draw);
                let rounds = self.rounds;
                tasks.spawn(async move {
                    for _ in 0..rounds {
                        walker.round().await;
                    }
                });
            }
            test_clients.push(test_client);
        }
        let lines: Vec<Arc<Chaos>> =
            test_clients.iter().map(|test_client| Arc::clone(&test_client.line)).collect();
        let fate = tokio::spawn(self.clone().cut_off_now_and_then(
            lines.clone(),
            case.clock().clone(),
            draw.clone(),
        ));
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        }
        fate.abort();
        for line in lines {
            line.quiet();
            line.settled().await;
        }
        case.pass(self.lingers + self.ttls.ttl + self.ttls.lock_delay).await;
        let last = case.test_client(self.ttls).await;
        let contestant: Arc<dyn Contestant> =
            Arc::new(LibraryClient::new(&last.keeper, &name, self.kind));
        // The history shows a refusal.
        self.walker(case, &recorder, &contestant, "who comes last".to_owned(), &mut draw)
            .ask_for_all()
            .await;
        recorder.history()
    }

    /// Runs the plan and checks the history.
    ///
    /// # Errors
    /// The violation, and the seed that repeats the run.
    pub async fn check(&self, case: &Case, seed: Seed) -> Result<Summary, String> {
        self.judge(&self.walk(case, seed).await, seed)
    }

    /// Checks a history of this plan.
    ///
    /// # Errors
    /// The violation, and the seed that repeats the run.
    pub fn judge(&self, history: &History, seed: Seed) -> Result<Summary, String> {
        history
            .check(LOCK, &self.rules())
            .map_err(|violation| format!("{violation}. To repeat it: {seed}"))
    }

    fn walker(
        &self,
        case: &Case,
        recorder: &Recorder,
        contestant: &Arc<dyn Contestant>,
        client: String,
        draw: &mut Seeded,
    ) -> Walker {
        Walker {
            contestant: Arc::clone(contestant),
            recorder: recorder.clone(),
            clock: case.clock().clone(),
            seed: Seeded::new(draw.number()),
            client,
            owner: draw.number(),
            lock: LOCK.to_owned(),
            kind: self.kind,
            habits: self.habits,
        }
    }

    async fn cut_off_now_and_then(
        self,
        lines: Vec<Arc<Chaos>>,
        clock: lockkeeper::time::Clock,
        mut draw: Seeded,
    ) {
        let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        if !self.cut_offs {
            return;
        }
        loop {
            clock.sleep(Duration::from_millis(draw.below(millis(self.ttls.ttl) * 3))).await;
            let chosen = usize::try_from(draw.below(self.clients)).unwrap_or(0);
            lines[chosen].set(Faults::cut_off());
            clock.sleep(Duration::from_millis(draw.below(millis(self.ttls.ttl) * 2))).await;
            lines[chosen].set(self.faults.clone());
        }
    }
}
