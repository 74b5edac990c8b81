//! The scripts in lock step with the memory store, on a real server whose clock is ours: random
//! operations on a few lines, which have to have the same answers and to leave the same lines.

mod admin;
mod back;
mod faults;
mod operations;
mod server;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::time::Duration;

use lockkeeper::MemoryStore;
use lockkeeper_live::{Redis, redis};

use self::server::Server;
use crate::layout::{self, ClientId, Push};
use crate::store::admit::{self, admitted};
use crate::store::{Claim, ClaimId, Entry, Line, Revision, SessionId, Store};
use crate::time::{Clock, Instant};
use crate::{LockName, random};
use lockkeeper_core::kit::seeded::Seeded;

const LINES: usize = 3;
const CLIENTS: usize = 3;

/// A few that are always the same.
const SEEDS: [u64; 3] = [1, 20, 300];
const STEPS: u32 = 2500;

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Agreement {
    /// Operations.
    steps: u32,
    /// Claims that were granted, at once or later.
    grants: u32,
    /// Grants that were pushed.
    pushes: u32,
    /// Answers that are less exact than the memory store's where they may be: a line was full of
    /// dead waiters that had been looked for less than a second before.
    #[allow(dead_code, reason = "each run prints it")]
    lenient: u32,
    /// Claims that were found to be kept by their minimum hold.
    kept: u32,
    /// Requests that the server refused half-way, and that had changed nothing.
    refused: u32,
    /// Requests that went through although something was refused.
    passed: u32,
}

/// Random operations on the server, in lock step with a memory store. `faults` of 1000 requests
/// meet one fault each: the user may not run one command or not publish, the memory is full, or a
/// side key is of another kind. A request that fails has to have changed nothing, and one that
/// passes everything. The same seed makes the same operations.
fn against_memory(redis: &Redis, seed: u64, faults: u16) -> Agreement {
    eprintln!("seed {seed}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let agreement = runtime.block_on(async {
        let mut world = World::new(&redis.address().to_string(), seed);
        world.server.faults = faults;
        for _ in 0..STEPS {
            world.step().await;
        }
        let (refused, passed) = (world.server.refused, world.server.passed);
        Agreement { refused, passed, ..world.agreement }
    });
    eprintln!("seed {seed}: {agreement:?}");
    agreement
}

/// Random operations on three lines: the same answers, the same lines, messages for each granted
/// claim and each watcher, and the holders that the rule admits.
fn agree(seed: u64) {
    let agreement = against_memory(redis().unwrap(), seed, 0);
    let Agreement { steps, grants, pushes, kept, .. } = agreement;
    assert_eq!(steps, STEPS);
    // Otherwise the run has shown little.
    let is_much = grants > STEPS / 20 && pushes > STEPS / 200 && kept > 0;
    assert!(is_much, "{agreement:?}");
}

#[test]
fn the_scripts_agree_with_the_memory_store() {
    SEEDS.into_iter().for_each(agree);
}

/// With a new seed; a failed run has printed it.
#[test]
fn the_scripts_agree_with_the_memory_store_on_what_nobody_has_tried() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    agree(now.as_micros().try_into().unwrap());
}

/// A right, the right to publish, memory, or the kind of a side key is missing in a third of all
/// requests, on a server without other users. A refused request has changed and reported nothing;
/// an accepted request has done everything.
#[test]
fn a_script_with_a_refused_command_does_everything_or_nothing() {
    let redis = Redis::start().unwrap();
    for seed in SEEDS {
        let agreement = against_memory(&redis, seed, 330);
        let Agreement { grants, refused, passed, .. } = agreement;
        assert!(
            grants > STEPS / 20 && refused > STEPS / 50 && passed > STEPS / 50,
            "{agreement:?}"
        );
    }
}

/// The clock of the server goes back by up to ten minutes, again and again. The rule admits all
/// holders, tokens rise, and no claim lives, or is kept, for longer than it may from now on.
#[test]
fn a_clock_that_goes_back_breaks_no_rule_and_prolongs_no_lease() {
    let redis = redis().unwrap();
    for seed in SEEDS {
        let agreement = back::run(&redis.address().to_string(), seed, STEPS);
        eprintln!("seed {seed}: {agreement:?}");
        let Agreement { steps, grants, kept, .. } = agreement;
        assert!(steps == STEPS && grants > STEPS / 20 && kept > STEPS / 20, "{agreement:?}");
    }
}

/// A claim that was made once.
#[derive(Clone)]
struct Tried {
    claim: Claim,
    client: usize,
    /// The client that has sent the claim last, and receives the messages about a holder.
    sender: usize,
    /// The client that got the last answer that the claim waits, and receives the grant.
    waits_at: usize,
    line: usize,
    /// The client that waits for the grant knows about the grant, from the answer to its claim or
    /// from a push. The answer to a renewal may be another client's.
    notified: bool,
    /// A push reported the grant.
    pushed: bool,
}

struct Watched {
    until: Instant,
    notified: bool,
    fingerprint: Vec<String>,
}

struct World {
    seed: Seeded,
    server: Server,
    memory: MemoryStore,
    clock: Clock,
    began: Instant,
    session: SessionId,
    names: Vec<LockName>,
    clients: Vec<ClientId>,
    tried: Vec<Tried>,
    /// From the memory store's tokens to those of the server, of each line.
    tokens: Vec<BTreeMap<u64, u64>>,
    watched: HashMap<usize, Watched>,
    seen: HashMap<(usize, Revision), Vec<String>>,
    changes: u64,
    agreement: Agreement,
    /// The last operations, for a run that fails.
    log: VecDeque<String>,
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.log.iter().for_each(|step| eprintln!("{step}"));
        }
    }
}

impl World {
    fn new(address: &str, seed: u64) -> Self {
        let run = format!("{seed}-{:x}", random::below(1 << 40));
        let clock = Clock::tokio();
        let long = format!("{run}{}", "/".repeat(100));
        let names = [format!("{run}/0"), long, format!("{run}/2")]
            .map(|name| LockName::new(&name).unwrap());
        let clients: Vec<_> = (0..CLIENTS).map(|_| ClientId::random()).collect();
        let changes = |name: &LockName| {
            String::from_utf8(layout::changes_channel(name.encoded().as_bytes())).unwrap()
        };
        let channels =
            clients.iter().map(ClientId::channel).chain(names.iter().map(changes)).collect();
        Self {
            seed: Seeded::new(seed),
            server: Server::connect(address, &run, channels, seed, &names),
            memory: MemoryStore::with_clock(clock.clone()),
            began: clock.now(),
            clock,
            session: SessionId::random(),
            names: names.to_vec(),
            clients,
            tried: Vec::new(),
            tokens: vec![BTreeMap::new(); LINES],
            watched: HashMap::new(),
            seen: HashMap::new(),
            changes: 0,
            agreement: Agreement::default(),
            log: VecDeque::new(),
        }
    }

    fn note(&mut self, line: usize, what: &str, id: ClaimId, answer: &dyn fmt::Debug) {
        let since = self.clock.now().saturating_since(self.began);
        self.log.push_back(format!("{since:?} line {line} {what} {} {answer:?}", id.hash()));
        if self.log.len() > 60 {
            self.log.pop_front();
        }
    }

    fn pick(&mut self, bound: usize) -> usize {
        usize::try_from(self.seed.below(bound as u64)).unwrap()
    }

    async fn step(&mut self) {
        self.agreement.steps += 1;
        if self.seed.happens(300) {
            let most = if self.seed.happens(50) { 90_000 } else { 1500 };
            let pass = self.seed.below(most);
            self.clock.sleep(Duration::from_millis(pass)).await;
        }
        self.server.set_clock(self.clock.now().saturating_since(self.began));
        if self.tried.len() > 12 {
            self.tried.remove(0);
        }
        let line = match (self.tried.len(), self.pick(24)) {
            (0, _) | (_, 0..6) => self.new_claim().await,
            (_, 6..8) => self.again().await,
            (_, 8..13) => self.withdraw().await,
            (_, 13..16) => self.renew().await,
            (_, 16..18) => self.amend().await,
            (_, 18) => self.evict().await,
            (_, 19) => self.observe(),
            (_, 20) => self.request().await,
            (_, 21) => self.look().await,
            (_, 22) => self.names().await,
            _ => self.pick(LINES),
        };
        self.take_pushes(line).await;
        if self.seed.happens(500) {
            self.compare(line).await;
        }
    }

    fn notified(&mut self, which: usize) {
        if !self.tried[which].notified {
            self.agreement.grants += 1;
        }
        self.tried[which].notified = true;
    }

    /// The two stores count differently, but in the same order.
    fn token(&mut self, line: usize, theirs: u64, ours: u64) {
        let known = *self.tokens[line].entry(theirs).or_insert(ours);
        assert_eq!(known, ours, "the token of a claim changed");
        let before = self.tokens[line].range(..theirs).next_back();
        let after = self.tokens[line].range(theirs + 1..).next();
        assert!(
            before.is_none_or(|(_, token)| *token < ours)
                && after.is_none_or(|(_, token)| *token > ours)
        );
    }

    async fn take_pushes(&mut self, line: usize) {
        let pushes: Vec<_> = self.server.pushes().collect();
        for (channel, push) in pushes {
            if let Push::Granted { id, .. } = &push {
                assert!(self.clients.iter().any(|client| client.channel() == channel), "{channel}");
                let tried = self.tried.iter().find(|tried| tried.claim.key.id == *id);
                assert!(
                    tried.is_none_or(|tried| self.clients[tried.waits_at].channel() == channel),
                    "somebody else"
                );
            }
            self.take(line, push).await;
        }
        self.forgive().await;
    }

    async fn take(&mut self, _line: usize, push: Push) {
        match push {
            Push::Granted { id, token } => {
                self.agreement.pushes += 1;
                let Some(which) = self.tried.iter().position(|t| t.claim.key.id == id) else {
                    return;
                };
                let line = self.tried[which].line;
                let there = self.memory.line(&self.names[line]).await.unwrap();
                if let Some(entry) = there.entries.iter().find(|entry| entry.id == id.hash()) {
                    assert!(entry.granted, "a push to one that waits");
                    self.token(line, entry.token.unwrap(), token);
                }
                assert!(!self.tried[which].pushed, "granted twice");
                self.tried[which].pushed = true;
                self.notified(which);
            }
            Push::Changed { name } => {
                let line = self.names.iter().position(|n| n.encoded().as_bytes() == name).unwrap();
                let watched = self.watched.get_mut(&line);
                watched.expect("nobody watches, and somebody was told").notified = true;
            }
            Push::Again { .. }
            | Push::Taken { .. }
            | Push::Lost { .. }
            | Push::Requested { .. } => {}
        }
    }

    async fn compare(&mut self, line: usize) {
        let name = self.names[line].clone();
        let theirs = self.memory.line(&name).await.unwrap();
        let ours =
            layout::line_answer(&name, &self.server.ask(&layout::line(&name, None))).unwrap();
        self.take_pushes(line).await;
        assert_eq!(ours.entries.len(), theirs.entries.len(), "{ours:#?}\nnot\n{theirs:#?}");
        for (ours, theirs) in ours.entries.iter().zip(&theirs.entries) {
            self.token(line, theirs.token.unwrap(), ours.token.unwrap());
            let ours = Entry { token: theirs.token, ..ours.clone() };
            assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
        }
        self.agreement.kept +=
            u32::try_from(ours.entries.iter().filter(|entry| entry.kept).count()).unwrap();
        self.all_grantees_were_notified(&theirs);
        the_rule_holds(&ours);
        self.observers_were_notified(line, &theirs, ours.revision);
    }

    fn all_grantees_were_notified(&self, theirs: &Line) {
        let holders: HashSet<_> =
            theirs.entries.iter().filter(|e| e.granted).map(|e| e.id.to_string()).collect();
        let unnotified = self
            .tried
            .iter()
            .find(|t| !t.notified && holders.contains(&t.claim.key.id.hash().to_string()));
        assert!(unnotified.is_none(), "nobody told {:?}", unnotified.map(|t| &t.claim));
    }

    /// The holders in the answer of LINE. Waiters that die in the middle of the line are found
    /// later.
    fn observers_were_notified(&mut self, line: usize, theirs: &Line, revision: Revision) {
        let shown = |e: &Entry| format!("{} {} {:?} {:?}", e.id, e.weight, e.meta, e.broken);
        let fingerprint: Vec<_> = theirs.entries.iter().filter(|e| e.granted).map(shown).collect();
        let before = self.seen.entry((line, revision)).or_insert_with(|| fingerprint.clone());
        assert_eq!(*before, fingerprint, "one revision for two lines");
        let Some(watched) = self.watched.get_mut(&line) else { return };
        if watched.until > self.clock.now() {
            assert!(watched.notified || watched.fingerprint == fingerprint, "no observer was told");
            *watched = Watched { until: watched.until, notified: false, fingerprint };
        } else {
            self.watched.remove(&line);
        }
    }
}

/// Exactly the claims that the rule admits hold the lock.
fn the_rule_holds(ours: &Line) {
    let demand =
        |e: &Entry| admit::Demand { weight: e.weight, capacity: e.capacity, granted: e.granted };
    let weights = ours.entries.iter().map(demand);
    assert_eq!(admitted(weights), ours.entries.iter().filter(|e| e.granted).count(), "{ours:?}");
}
