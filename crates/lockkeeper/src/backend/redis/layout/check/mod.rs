//! The scripts in lock step with the memory store, on a real server whose clock is ours: random operations on a few
//! lines, which have to have the same answers and to leave the same lines.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod server;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::server::Server;
use super::{Channel, ClientId, Keys, Push, Standing, Victim};
use redis::Value;

use crate::backend::memory::MemoryStore;
use crate::backend::redis::wire::Request;
use crate::store::admit::{self, admitted};
use crate::store::{
    Admin, Amend, Claim, ClaimId, ClaimKey, Entry, Evict, Evicted, Line, Live, LiveState, MAX, Meta, Renewal, Revision,
    SessionId, Store, Target, Verdict, Withdrawal,
};
use crate::testing::Seeded;
use crate::time::{Clock, Instant};
use crate::{LockName, random};

const LINES: usize = 3;
const CLIENTS: usize = 3;
/// How often of 1000 times the form with fewer keys is tried first.
const OPEN: u16 = 300;

/// What a run was made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Operations.
    pub steps: u32,
    /// Claims that were granted, at once or later.
    pub grants: u32,
    /// Grants that were pushed.
    pub pushes: u32,
    /// Answers that are less exact than the memory store's where they may be: a claim that was withdrawn was there, but
    /// dead; a line was full of dead waiters that had been looked for less than a second before.
    pub lenient: u32,
    /// Answers of the forms that name fewer keys.
    pub open: u32,
}

/// Random operations on the Redis server at `address` (`host:port`), in lock step with a memory store. Panics where they
/// differ. The same seed makes the same operations.
///
/// # Panics
/// When they differ, or the server cannot be reached.
pub fn against_memory(address: &str, seed: u64, steps: u32) -> Agreement {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(address, seed);
        for _ in 0..steps {
            world.step().await;
        }
        world.agreement
    })
}

/// A claim that was made once.
#[derive(Clone)]
struct Tried {
    claim: Claim,
    client: usize,
    line: usize,
    /// That it is granted was answered or pushed.
    told: bool,
    /// It was pushed.
    pushed: bool,
}

struct Watched {
    until: Instant,
    heard: bool,
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
    observer: ClientId,
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
        let names = [format!("{run}/0"), long, format!("{run}/2")];
        let clients: Vec<_> = (0..CLIENTS).map(|_| ClientId::random()).collect();
        let observer = ClientId::random();
        let channels = clients.iter().chain([&observer]).map(ClientId::channel).collect();
        Self {
            seed: Seeded::new(seed),
            server: Server::connect(address, &run, channels),
            memory: MemoryStore::with_clock(clock.clone()),
            began: clock.now(),
            clock,
            session: SessionId::random(),
            names: names.iter().map(|name| LockName::new(name).unwrap()).collect(),
            clients,
            observer,
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
            (_, 20) => self.touch().await,
            (_, 21) => self.look().await,
            (_, 22) => self.names().await,
            _ => self.pick(LINES),
        };
        self.hear(line).await;
        if self.seed.happens(500) {
            self.compare(line).await;
        }
    }

    /// Of the first two lines a mutex and readers, of the third a semaphore.
    async fn new_claim(&mut self) -> usize {
        let line = self.pick(LINES);
        let capacity = if line < 2 { MAX } else { [3, 3, 3, 3, 4][self.pick(5)] };
        let weight = match capacity {
            MAX => [1, 1, MAX][self.pick(3)],
            permits => 1 + u32::try_from(self.pick(permits as usize)).unwrap(),
        };
        let key = ClaimKey { name: self.names[line].clone(), session: self.session.clone(), id: ClaimId::random() };
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
        self.tried.push(Tried { claim, client, line, told: false, pushed: false });
        self.claim(self.tried.len() - 1).await;
        line
    }

    fn meta(&mut self, epoch: u16) -> Meta {
        let reason = self.seed.happens(500).then(|| Arc::from("why"));
        let value = self.seed.happens(500).then(|| Arc::from(self.seed.number().to_le_bytes()));
        Meta { owner: format!("owner {}", self.seed.below(1000)).into(), reason, value, epoch }
    }

    async fn again(&mut self) -> usize {
        let which = self.pick(self.tried.len());
        self.tried[which].claim.resend = self.seed.happens(300);
        self.claim(which).await;
        self.tried[which].line
    }

    async fn claim(&mut self, which: usize) {
        let Tried { claim, client, line, .. } = self.tried[which].clone();
        let client = self.clients[client];
        let channel = client.channel();
        let channel = Channel { bytes: channel.as_bytes().into(), sharded: false };
        let open = self.seed.happens(OPEN).then(|| super::claim_open(&claim, &client, &channel));
        let answer = self.ask(open, &super::claim(&claim, &client, &channel));
        let ours = super::claim_answer(&claim, &answer).map(|answered| answered.value);
        let theirs = self.memory.claim(&claim).await;
        self.note(line, &format!("claim {claim:?}"), claim.key.id, &(&ours, &theirs));
        match (ours, theirs) {
            (Ok(Verdict::Granted { token, .. }), Ok(Verdict::Granted { token: theirs, .. })) => {
                self.token(line, theirs, token);
                self.told(which);
            }
            (
                Ok(Verdict::Queued { ahead, look_again, .. }),
                Ok(Verdict::Queued { ahead: theirs, look_again: then, .. }),
            ) => {
                // Those who died in the middle of the line are still counted.
                assert!(ahead >= theirs && ahead <= theirs + 3, "{ahead} ahead, not {theirs}");
                assert!(look_again <= then || look_again >= Duration::from_secs(5), "{look_again:?}, not {then:?}");
                // It may be a new stay of one that has left.
                self.tried[which].told = false;
                self.tried[which].pushed = false;
            }
            (
                Ok(Verdict::Busy { holder, retry_after, .. }),
                Ok(Verdict::Busy { holder: first, retry_after: then, .. }),
            ) => {
                assert!(holder == first || holder.as_deref() == Some(""), "{holder:?}, not {first:?}");
                assert!(retry_after <= then, "{retry_after:?}, not {then:?}");
            }
            (Ok(Verdict::Gone), Ok(Verdict::Gone)) => {}
            (Err(ours), Err(theirs)) => assert_eq!(ours.to_string(), theirs.to_string()),
            (Err(ours), Ok(Verdict::Queued { .. })) if ours.kind() == crate::ErrorKind::QueueFull => {
                self.agreement.lenient += 1;
                self.memory.withdraw(&claim.key, None).await.unwrap();
            }
            (ours, theirs) => panic!("{ours:?}, not {theirs:?}, for {claim:?}"),
        }
    }

    fn told(&mut self, which: usize) {
        if !self.tried[which].told {
            self.agreement.grants += 1;
        }
        self.tried[which].told = true;
    }

    /// The two stores count differently, but in the same order.
    fn token(&mut self, line: usize, theirs: u64, ours: u64) {
        let known = *self.tokens[line].entry(theirs).or_insert(ours);
        assert_eq!(known, ours, "the token of a claim changed");
        let before = self.tokens[line].range(..theirs).next_back();
        let after = self.tokens[line].range(theirs + 1..).next();
        assert!(before.is_none_or(|(_, token)| *token < ours) && after.is_none_or(|(_, token)| *token > ours));
    }

    async fn withdraw(&mut self) -> usize {
        let which = self.pick(self.tried.len());
        let Tried { claim, line, .. } = self.tried[which].clone();
        let tombstone = self.seed.happens(200).then(|| Duration::from_secs(1 + self.seed.below(90)));
        let open = self.seed.happens(OPEN).then(|| super::withdraw_open(&claim.key, tombstone)).flatten();
        let ours = super::withdraw_answer(&self.ask(open, &super::withdraw(&claim.key, tombstone))).unwrap();
        let theirs = self.memory.withdraw(&claim.key, tombstone).await.unwrap();
        self.note(line, "withdraw", claim.key.id, &(tombstone, ours, theirs));
        if ours != theirs {
            assert_eq!((ours, theirs), (Withdrawal::Removed, Withdrawal::Absent));
            self.agreement.lenient += 1;
        }
        line
    }

    async fn renew(&mut self) -> usize {
        let count = 1 + self.pick(4);
        let states = [LiveState::InFlight, LiveState::Queued, LiveState::Granted];
        let which: Vec<usize> = (0..count).map(|_| self.pick(self.tried.len())).collect();
        let live: Vec<Live> =
            which.iter().map(|w| Live { key: self.tried[*w].claim.key.clone(), state: states[self.pick(3)] }).collect();
        let ours = match self.seed.happens(OPEN) {
            true => live.iter().map(|live| self.renew_open(live)).collect(),
            false => super::renew_answer(&live, &self.server.ask(&super::renew(&live))).unwrap().value,
        };
        let theirs = self.memory.renew(&self.session, &live).await.unwrap().claims;
        for (i, (ours, theirs)) in ours.into_iter().zip(theirs).enumerate() {
            self.note(self.tried[which[i]].line, "renew", live[i].key.id, &(&ours, &theirs));
            match (ours, theirs) {
                (Renewal::Held { token }, Renewal::Held { token: theirs }) => {
                    self.token(self.tried[which[i]].line, theirs, token);
                    self.told(which[i]);
                }
                (ours, theirs) => assert_eq!(ours, theirs, "{:?}", live[i]),
            }
        }
        self.tried[which[0]].line
    }

    /// As while a slot is on its way. It grants nothing, so that is done before.
    fn renew_open(&mut self, live: &Live) -> Renewal {
        self.server.ask(&super::line(&live.key.name));
        let one = std::slice::from_ref(live);
        let open = (0..).map_while(|nth| super::renew_open(live, nth));
        let answer = open.map(|request| self.server.ask(&request)).find(|answer| *answer != Value::Nil);
        self.agreement.open += u32::from(answer.is_some());
        let answer = answer.unwrap_or_else(|| self.server.ask(&super::renew(one)));
        super::renew_answer(one, &answer).unwrap().value.remove(0)
    }

    /// The form with one key first, if there is one.
    fn ask(&mut self, open: Option<Request>, whole: &Request) -> Value {
        let answer = open.map(|open| self.server.ask(&open)).filter(|answer| *answer != Value::Nil);
        self.agreement.open += u32::from(answer.is_some());
        answer.unwrap_or_else(|| self.server.ask(whole))
    }

    async fn amend(&mut self) -> usize {
        let which = self.pick(self.tried.len());
        let Tried { claim, client, line, .. } = self.tried[which].clone();
        let change = match self.pick(3) {
            0 if line < 2 => Amend::Shared,
            0 | 1 => Amend::Value(self.seed.number().to_le_bytes()[..self.pick(8)].into()),
            _ => Amend::Meta(self.meta(claim.meta.epoch)),
        };
        self.changes += 1;
        let client = self.clients[client];
        let request = super::amend(&claim.key, &change, &client, self.changes);
        let ours = super::amend_answer(&self.server.ask(&request)).unwrap();
        let theirs = self.memory.amend(&claim.key, &change).await.unwrap();
        self.note(line, &format!("amend {change:?}"), claim.key.id, &(ours, theirs));
        assert_eq!(ours, theirs);
        if change != Amend::Shared && self.changes.is_multiple_of(3) {
            // A late copy of an older change does nothing.
            let late = super::amend(&claim.key, &Amend::Value(Arc::from(*b"late")), &client, self.changes - 1);
            assert_eq!(super::amend_answer(&self.server.ask(&late)).unwrap(), ours);
        }
        line
    }

    async fn evict(&mut self) -> usize {
        let which = self.pick(self.tried.len());
        let Tried { claim, client, line, .. } = self.tried[which].clone();
        let name = &self.names[line].clone();
        let how = if self.seed.happens(600) { Evict::Mark } else { Evict::Now };
        let (victim, target) = match self.tokens[line].last_key_value() {
            Some((theirs, ours)) if self.seed.happens(500) => (Victim::Token(*ours), Target::Token(*theirs)),
            _ => {
                let hash = claim.key.id.hash();
                let listed = self.server.ask(&super::line(name));
                let found = super::find(&listed, hash).unwrap();
                assert!(found.is_none_or(|id| id == claim.key.id));
                (Victim::Id(claim.key.id), Target::Id(hash))
            }
        };
        self.hear(line).await;
        let ours = super::evict_answer(&self.server.ask(&super::evict(name, &victim, how, "op", "stuck"))).unwrap();
        let theirs = self.memory.evict(name, &target, how, "op", "stuck").await.unwrap();
        self.note(line, &format!("evict {how:?} {target:?}"), claim.key.id, &(ours, theirs));
        assert_eq!(ours, theirs);
        let lost: Vec<_> = self.server.heard().collect();
        let first = lost.iter().find(|(_, push)| matches!(push, Push::Lost { .. }));
        assert_eq!(first.is_some(), ours == Evicted::Done, "{lost:?}");
        if let (Some((channel, Push::Lost { id, .. })), Victim::Id(whom)) = (first, victim) {
            assert_eq!((channel, *id), (&self.clients[client].channel(), whom));
        }
        for (_, push) in lost {
            self.take(line, push).await;
        }
        line
    }

    fn observe(&mut self) -> usize {
        let line = self.pick(LINES);
        let within = Duration::from_millis(1 + self.seed.below(60_000));
        let observer = self.observer.channel();
        let channel = Channel { bytes: observer.as_bytes().into(), sharded: false };
        let answer = self.server.ask(&super::observe(&self.names[line], &channel, within));
        super::observe_answer(&answer).unwrap();
        let until = self.clock.now() + within;
        let watched = self.watched.entry(line).or_insert(Watched { until, heard: true, fingerprint: Vec::new() });
        // What it watched until now may have ended in between.
        if watched.until <= self.clock.now() {
            watched.heard = true;
        }
        // Whoever watches for longer is not cut short by another of the same client.
        watched.until = watched.until.max(until);
        line
    }

    async fn touch(&mut self) -> usize {
        let line = self.pick(LINES);
        super::touch_answer(&self.server.ask(&super::touch(&self.names[line]))).unwrap();
        self.memory.request_release(&self.names[line]).await.unwrap();
        line
    }

    async fn look(&mut self) -> usize {
        let which = self.pick(self.tried.len());
        let Tried { claim, line, .. } = self.tried[which].clone();
        let ours = super::look_answer(&self.server.ask(&super::look(&claim.key))).unwrap();
        // The memory store grants when it is looked at; so let both.
        self.server.ask(&super::line(&claim.key.name));
        let there = self.memory.line(&claim.key.name).await.unwrap();
        let entry = there.entries.iter().find(|entry| entry.id == claim.key.id.hash());
        match (ours, entry) {
            (Standing::Granted { token }, Some(entry)) if entry.granted => {
                self.token(line, entry.token.unwrap(), token);
            }
            // It grants nothing.
            (Standing::Queued, Some(_)) | (Standing::Absent, None) => {}
            (ours, entry) => panic!("{ours:?}, not {entry:?}"),
        }
        line
    }

    async fn names(&mut self) -> usize {
        let keys: Vec<Keys> = self.names.iter().map(|name| Keys::scanned(Keys::of(name).all()[0]).unwrap()).collect();
        let mut ours = super::names_answer(&keys, &self.server.ask(&super::names(&keys))).unwrap();
        ours.sort();
        // Which lets everybody grant.
        for name in &self.names {
            self.memory.line(name).await.unwrap();
        }
        assert_eq!(ours, self.memory.names("", 10).await.unwrap());
        for line in 1..LINES {
            self.hear(line).await;
        }
        0
    }

    async fn hear(&mut self, line: usize) {
        let heard: Vec<_> = self.server.heard().collect();
        for (channel, push) in heard {
            if matches!(push, Push::Granted { .. }) {
                assert!(self.clients.iter().any(|client| client.channel() == channel), "{channel}");
            }
            self.take(line, push).await;
        }
    }

    async fn take(&mut self, _line: usize, push: Push) {
        match push {
            Push::Granted { id, token } => {
                self.agreement.pushes += 1;
                let Some(which) = self.tried.iter().position(|t| t.claim.key.id == id) else { return };
                let line = self.tried[which].line;
                let there = self.memory.line(&self.names[line]).await.unwrap();
                if let Some(entry) = there.entries.iter().find(|entry| entry.id == id.hash()) {
                    assert!(entry.granted, "a push to one that waits");
                    self.token(line, entry.token.unwrap(), token);
                }
                assert!(!self.tried[which].pushed, "granted twice");
                self.tried[which].pushed = true;
                self.told(which);
            }
            Push::Changed { name } => {
                let line = self.names.iter().position(|n| n.encoded().as_bytes() == name).unwrap();
                let watched = self.watched.get_mut(&line);
                watched.expect("nobody watches, and somebody was told").heard = true;
            }
            Push::Lost { .. } => {}
        }
    }

    async fn compare(&mut self, line: usize) {
        let name = self.names[line].clone();
        let theirs = self.memory.line(&name).await.unwrap();
        let ours = super::line_answer(&self.server.ask(&super::line(&name))).unwrap().value;
        self.hear(line).await;
        assert_eq!(ours.entries.len(), theirs.entries.len(), "{ours:#?}\nnot\n{theirs:#?}");
        assert_eq!(ours.capacity, (!theirs.entries.is_empty()).then_some(theirs.capacity).flatten());
        for (ours, theirs) in ours.entries.iter().zip(&theirs.entries) {
            self.token(line, theirs.token.unwrap(), ours.token.unwrap());
            let ours = Entry { token: theirs.token, ..ours.clone() };
            assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
        }
        self.everybody_was_told(&theirs);
        self.the_rule_holds(&ours);
        self.observers_were_told(line, &theirs, ours.revision);
    }

    fn everybody_was_told(&self, theirs: &Line) {
        let holders: HashSet<_> = theirs.entries.iter().filter(|e| e.granted).map(|e| e.id.to_string()).collect();
        let untold = self.tried.iter().find(|t| !t.told && holders.contains(&t.claim.key.id.hash().to_string()));
        assert!(untold.is_none(), "nobody told {:?}", untold.map(|t| &t.claim));
    }

    fn the_rule_holds(&self, ours: &Line) {
        let capacity = ours.capacity.unwrap_or(MAX);
        let standings = ours.entries.iter().map(|e| admit::Standing { weight: e.weight, capacity, granted: e.granted });
        assert_eq!(admitted(standings), ours.entries.iter().filter(|e| e.granted).count(), "{ours:?}");
    }

    /// The holders as they are shown. Waiters that die in the middle of the line are found later.
    fn observers_were_told(&mut self, line: usize, theirs: &Line, revision: Revision) {
        let shown = |e: &Entry| format!("{} {} {:?} {:?}", e.id, e.weight, e.meta, e.broken);
        let fingerprint: Vec<_> = theirs.entries.iter().filter(|e| e.granted).map(shown).collect();
        let before = self.seen.entry((line, revision)).or_insert_with(|| fingerprint.clone());
        assert_eq!(*before, fingerprint, "one revision for two lines");
        let Some(watched) = self.watched.get_mut(&line) else { return };
        if watched.until > self.clock.now() {
            assert!(watched.heard || watched.fingerprint == fingerprint, "no observer was told");
            *watched = Watched { until: watched.until, heard: false, fingerprint };
        } else {
            self.watched.remove(&line);
        }
    }
}
