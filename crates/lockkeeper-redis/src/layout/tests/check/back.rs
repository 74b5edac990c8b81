//! The scripts on a clock that goes back now and then. The clock of the memory store only goes on,
//! so this checks what has to hold for a line whatever the clock did: the rule of admission, rising
//! tokens, and an end of each claim that is no further away than its life.

use std::time::Duration;

use super::server::Server;
use super::{Agreement, the_rule_holds};
use crate::layout::{self, Channel, ClientId, Victim};
use crate::store::{
    Amend, Claim, ClaimId, ClaimKey, Evict, Line, Live, LiveState, MAX, Meta, SessionId,
    TOMBSTONE_MIN, Verdict,
};
use crate::{LockName, random};
use lockkeeper_core::kit::seeded::Seeded;

const LINES: usize = 2;
/// The most that a claim lives after its last request, and its longest minimum hold.
const LEASE: Duration = Duration::from_secs(12);
const HOLD: Duration = Duration::from_secs(60);
/// The clock goes back by no more, and never before this.
const BACK: Duration = Duration::from_secs(600);

struct Back {
    seed: Seeded,
    server: Server,
    names: [LockName; LINES],
    client: ClientId,
    now: Duration,
    tried: Vec<(usize, Claim)>,
    last: [u64; LINES],
    changes: u64,
    agreement: Agreement,
}

pub(super) fn run(address: &str, seed: u64, steps: u32) -> Agreement {
    let mut back = Back::new(address, seed);
    for _ in 0..steps {
        back.time_passes();
        let line = back.pick(LINES);
        back.step(line);
        back.look(line);
    }
    // Nothing is left behind, however often the clock went back.
    back.now += HOLD + LEASE + TOMBSTONE_MIN;
    back.server.set_clock(back.now);
    assert!(
        (0..LINES).all(|line| back.look(line).entries.is_empty()),
        "something lives for too long"
    );
    back.agreement
}

impl Back {
    fn new(address: &str, seed: u64) -> Self {
        let run = format!("back-{seed}-{:x}", random::below(1 << 40));
        let names = [0, 1].map(|line| LockName::new(&format!("{run}/{line}")).unwrap());
        let client = ClientId::random();
        Self {
            server: Server::connect(address, &run, vec![client.channel()], seed, &names),
            seed: Seeded::new(seed),
            names,
            client,
            now: BACK,
            tried: Vec::new(),
            last: [0; LINES],
            changes: 0,
            agreement: Agreement::default(),
        }
    }

    fn pick(&mut self, bound: usize) -> usize {
        usize::try_from(self.seed.below(bound as u64)).unwrap()
    }

    fn time_passes(&mut self) {
        match self.pick(100) {
            0..35 => self.now += Duration::from_millis(self.seed.below(1500)),
            35..37 => self.now += Duration::from_millis(self.seed.below(100_000)),
            37..40 => {
                self.now -= Duration::from_millis(self.seed.below(600_000)).min(self.now - BACK)
            }
            _ => {}
        }
        self.server.set_clock(self.now);
    }

    fn step(&mut self, line: usize) {
        self.agreement.steps += 1;
        let known: Vec<Claim> = self
            .tried
            .iter()
            .filter(|(of, _)| *of == line)
            .map(|(_, claim)| claim.clone())
            .collect();
        let known = &known[known.len().saturating_sub(8)..];
        if known.is_empty() {
            return self.send_new_claim(line);
        }
        let claim = known[self.pick(known.len())].clone();
        match self.pick(18) {
            0..6 => self.send_new_claim(line),
            6..8 => drop(self.claim(&claim)),
            8..11 => {
                let answer = self.server.ask(&layout::withdraw(&claim.key, None));
                layout::withdraw_answer(&answer).unwrap();
            }
            11..14 => {
                let live = [Live { key: claim.key, state: LiveState::Granted }];
                layout::renew_answer(&live, &self.server.ask(&layout::renew(&live))).unwrap();
            }
            14..17 => {
                let hold = Duration::from_millis([300, 2000, 60_000][self.pick(3)]);
                self.changes += 1;
                let request = layout::amend(&claim.key, self.changes, &Amend::MinHold(hold));
                layout::amend_answer(&claim.key, &self.server.ask(&request)).unwrap();
            }
            _ => {
                let how = if self.seed.happens(500) { Evict::Mark } else { Evict::Now };
                let request =
                    layout::evict(&claim.key.name, &Victim::Id(claim.key.id), how, "op", "stuck");
                layout::evict_answer(&self.server.ask(&request)).unwrap();
            }
        }
    }

    /// The first line has readers and writers, the second one has permits.
    fn send_new_claim(&mut self, line: usize) {
        let capacity = if line == 0 { MAX } else { [1, 2, 3, 5][self.pick(4)] };
        let weight = match capacity {
            MAX => [1, MAX][self.pick(2)],
            permits => 1 + u32::try_from(self.pick(permits as usize)).unwrap(),
        };
        let claim = Claim {
            key: ClaimKey {
                name: self.names[line].clone(),
                session: SessionId::new("s"),
                id: ClaimId::random(),
            },
            ttl: Duration::from_millis(500 + self.seed.below(11_500)),
            wait_ttl: Duration::from_millis(500 + self.seed.below(4000)),
            lock_delay: Duration::ZERO,
            weight,
            capacity,
            queue: self.seed.happens(800),
            resend: false,
            replaces: None,
            max_waiters: 1000,
            meta: Meta::default(),
        };
        self.tried.push((line, claim.clone()));
        if let Verdict::Granted { token, .. } = self.claim(&claim) {
            self.agreement.grants += 1;
            assert!(token > self.last[line], "{token} after {}", self.last[line]);
            self.last[line] = token;
        }
    }

    fn claim(&mut self, claim: &Claim) -> Verdict {
        let channel = self.client.channel();
        let channel = Channel { bytes: channel.as_bytes().into(), sharded: false };
        let answer = self.server.ask(&layout::claim(claim, &self.client, &channel));
        layout::claim_answer(claim, &answer).unwrap()
    }

    fn look(&mut self, line: usize) -> Line {
        let name = self.names[line].clone();
        let there =
            layout::line_answer(&name, &self.server.ask(&layout::line(&name, None))).unwrap();
        the_rule_holds(&there);
        for entry in &there.entries {
            self.agreement.kept += u32::from(entry.kept);
            let most = if entry.kept { HOLD } else { LEASE };
            assert!(entry.expires_in.is_some_and(|left| left <= most), "{entry:?}");
            let token = entry.token.unwrap();
            self.last[line] = self.last[line].max(token);
        }
        there
    }
}
