//! Random operations of several clients, compared step by step with a model: a list of claims, and
//! the rule of admission.

use std::time::Duration;

use crate::{Case, Client, Contender, Seeded, Time, Ttls};
use lockkeeper::store::admit::{Demand, admitted};
use lockkeeper::store::{Amend, Amended, Expiry, MAX, Renewal, Verdict, Withdrawal};
use lockkeeper::time::Instant;

const CLIENTS: usize = 5;
const STEPS: usize = 80;

/// For any operations of readers and writers, the store answers as the model does.
pub async fn readers_and_writers(case: &Case) {
    check(case, &[MAX], &[1, MAX]).await;
}

/// For any operations on a semaphore, the store answers as the model does.
pub async fn permits(case: &Case) {
    check(case, &[4], &[1, 2, 3, 4]).await;
}

/// For any operations on a semaphore whose claims name different capacities, the store answers as
/// the model does.
pub async fn permits_of_changing_size(case: &Case) {
    check(case, &[1, 2, 3, 5], &[1, 2, 3, 5]).await;
}

async fn check(case: &Case, capacities: &'static [u32], weights: &'static [u32]) {
    let seeds = if case.harness().time() == Time::Virtual { 60 } else { 4 };
    for seed in 0..seeds {
        eprintln!("seed {seed}");
        let mut model = Model::new(case, seed, capacities, weights).await;
        for _ in 0..STEPS {
            model.step().await;
            model.compare().await;
        }
        model.leave().await;
    }
}

/// A claim in line, in the model.
struct Member {
    client: usize,
    contender: Contender,
    granted: bool,
    expires: Instant,
    /// The highest token that the model had seen before the claim came.
    floor: u64,
}

struct Model<'a> {
    case: &'a Case,
    seed: Seeded,
    clients: Vec<Client>,
    observer: Contender,
    weights: &'static [u32],
    capacities: &'static [u32],
    line: Vec<Member>,
    highest: u64,
    dies: bool,
}

impl<'a> Model<'a> {
    async fn new(
        case: &'a Case,
        seed: u64,
        capacities: &'static [u32],
        weights: &'static [u32],
    ) -> Self {
        // A slow machine must not let a waiter expire where no waiter has to expire.
        let wait_ttl = if case.harness().time() == Time::Virtual {
            Ttls::long().wait_ttl
        } else {
            Ttls::long().ttl
        };
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(case.client(Ttls { wait_ttl, ..Ttls::long() }).await);
        }
        let name = case.name(&format!("seed-{seed}"));
        let observer = case.client(Ttls::long()).await.permits(&name, 1, capacities[0]);
        let dies = case.harness().time() == Time::Virtual
            && observer.client.store.capabilities().expiry == Expiry::PerClaim;
        let seed = Seeded::new(seed);
        Self {
            case,
            seed,
            clients,
            observer,
            weights,
            capacities,
            line: Vec::new(),
            highest: 0,
            dies,
        }
    }

    async fn step(&mut self) {
        let client = self.pick(CLIENTS);
        match self.line.iter().position(|m| m.client == client) {
            _ if self.dies && self.seed.happens(100) => self.pass().await,
            None => self.join(client).await,
            Some(at) => match self.pick(6) {
                0 => self.send_again(at).await,
                1 => self.renew(at).await,
                2 => self.downgrade(at).await,
                3 => self.upgrade(at).await,
                _ => self.withdraw(at).await,
            },
        }
        self.settle();
    }

    fn pick(&mut self, bound: usize) -> usize {
        usize::try_from(self.seed.below(bound as u64)).expect("a small number")
    }

    /// The whole model: expired claims leave the line, and the rule of admission names the holders.
    fn settle(&mut self) {
        let now = self.case.now();
        let dies = self.dies;
        self.line.retain(|m| !dies || m.expires > now);
        let holders = admitted(self.line.iter().map(Member::demand));
        for member in &mut self.line[..holders] {
            member.granted = true;
        }
    }

    async fn pass(&mut self) {
        let millis = 1 + self.seed.below(4000);
        self.case.pass(Duration::from_millis(millis)).await;
    }

    async fn join(&mut self, client: usize) {
        let capacity = self.capacities[self.pick(self.capacities.len())];
        let weight = self.weights[self.pick(self.weights.len())].min(capacity);
        let mut contender =
            self.clients[client].permits(&self.observer.claim.key.name, weight, capacity);
        contender.claim.queue = self.seed.happens(700);
        let expires = self.case.now();
        let member = Member { client, contender, granted: false, expires, floor: self.highest };
        let verdict = member.contender.claim().await;
        let queue = member.contender.claim.queue;
        self.line.push(member);
        self.settle_newcomer();
        match verdict {
            Verdict::Granted { token, .. } => self.expect_token(token),
            Verdict::Queued { ahead, .. } => {
                assert!(queue && !self.newest().granted);
                assert_eq!(ahead as usize, self.line.len() - 1);
            }
            Verdict::Busy { .. } => {
                assert!(!queue && !self.newest().granted);
                self.line.pop();
            }
            Verdict::Gone => panic!("a new id is not gone"),
        }
    }

    /// The lease of a claim begins only when the model knows whether the claim was granted.
    fn settle_newcomer(&mut self) {
        let now = self.case.now();
        if let Some(newest) = self.line.last_mut() {
            newest.expires = now + newest.contender.ttls().wait_ttl;
        }
        self.settle();
        if let Some(newest) = self.line.last_mut().filter(|m| m.granted) {
            newest.expires = now + newest.contender.ttls().ttl;
        }
    }

    fn newest(&self) -> &Member {
        self.line.last().expect("somebody has just come")
    }

    fn expect_token(&mut self, token: u64) {
        let newest = self.newest();
        assert!(newest.granted, "granted against the rule");
        assert!(token > newest.floor, "{token} after {}", newest.floor);
        self.highest = self.highest.max(token);
    }

    async fn send_again(&mut self, at: usize) {
        let verdict = self.line[at].contender.resend().await;
        let member = &self.line[at];
        match verdict {
            Verdict::Granted { .. } => assert!(member.granted),
            Verdict::Queued { ahead, .. } => assert!(!member.granted && ahead as usize == at),
            other => panic!("{other:?} for a claim that is in line"),
        }
        self.renewed(at);
    }

    async fn renew(&mut self, at: usize) {
        let renewal = self.line[at].contender.renewed().await.expect("an answer");
        match renewal {
            Renewal::Held { .. } => assert!(self.line[at].granted),
            Renewal::Queued => assert!(!self.line[at].granted),
            other => panic!("{other:?} for a claim that is in line"),
        }
        self.renewed(at);
    }

    fn renewed(&mut self, at: usize) {
        let member = &mut self.line[at];
        let Ttls { ttl, wait_ttl, .. } = member.contender.ttls();
        member.expires = self.case.now() + if member.granted { ttl } else { wait_ttl };
    }

    async fn downgrade(&mut self, at: usize) {
        let member = &mut self.line[at];
        let amended = member.contender.amend(Amend::Lower(1)).await;
        assert_eq!(amended == Amended::Done, member.granted);
        if member.granted {
            member.contender.claim.weight = 1;
        }
    }

    async fn upgrade(&mut self, at: usize) {
        let old = &self.line[at].contender;
        let mut new = old.with_new_id().replacing(old).trying();
        new.claim.weight = new.claim.capacity;
        match new.claim().await {
            Verdict::Granted { token, .. } => {
                assert_eq!(self.line.len(), 1, "replaced although others are in line");
                self.line[0].contender = new;
                self.line[0].floor = self.highest;
                self.renewed(0);
                self.expect_token(token);
            }
            Verdict::Busy { .. } => {
                assert!(self.line.len() > 1, "refused although nobody else is in line")
            }
            other => panic!("{other:?}"),
        }
    }

    async fn withdraw(&mut self, at: usize) {
        let member = self.line.remove(at);
        let unsettled = self.seed.happens(300);
        let done = if unsettled {
            member.contender.withdraw_unsettled().await
        } else {
            member.contender.withdraw().await
        };
        assert_eq!(done, Withdrawal::Removed);
        if unsettled {
            member.contender.gone().await;
        }
    }

    async fn compare(&mut self) {
        let entries = self.observer.line().await.entries;
        let shown: Vec<_> =
            entries.iter().map(|e| (e.id, e.weight, e.capacity, e.granted)).collect();
        let expected: Vec<_> = self
            .line
            .iter()
            .map(|m| (m.contender.id(), m.weight(), m.contender.claim.capacity, m.granted))
            .collect();
        assert_eq!(shown, expected, "the line of the store, and that of the model");
        let tokens: Vec<_> = entries.iter().filter(|e| e.granted).filter_map(|e| e.token).collect();
        assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?} along the line");
        for (member, entry) in self.line.iter().zip(&entries).filter(|(m, _)| m.granted) {
            assert!(
                entry.token.is_none_or(|token| token > member.floor),
                "{entry:?} after {}",
                member.floor
            );
            self.highest = self.highest.max(entry.token.unwrap_or(0));
        }
    }

    async fn leave(&mut self) {
        while !self.line.is_empty() {
            self.withdraw(0).await;
            self.settle();
        }
        self.compare().await;
    }
}

impl Member {
    fn weight(&self) -> u32 {
        self.contender.claim.weight
    }

    fn demand(&self) -> Demand {
        let claim = &self.contender.claim;
        Demand { weight: claim.weight, capacity: claim.capacity, granted: self.granted }
    }
}
