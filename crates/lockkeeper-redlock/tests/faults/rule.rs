//! The script of a node is the rule that the models check: both do the same on random operations.

use std::collections::{HashMap, HashSet};

use lockkeeper::store::{Claim, ClaimId};
use lockkeeper_live::{Redlock, with};
use lockkeeper_testing::Seeded;

use crate::support::{ByHand, SLOW, name};

/// A node by the rule, without time.
#[derive(Default)]
struct Rule {
    fence: u64,
    last: Option<ClaimId>,
    /// Number, and whether it is exclusive.
    holders: HashMap<ClaimId, (u64, bool)>,
    gone: HashSet<ClaimId>,
}

/// The token if three equal nodes do the same, and they are never asked for a raise.
impl Rule {
    fn claim(&mut self, id: ClaimId, exclusive: bool) -> Option<u64> {
        if let Some((number, _)) = self.holders.get(&id) {
            return Some(*number);
        }
        let keeps_out =
            |(other, (_, alone)): (&ClaimId, &(u64, bool))| *other != id && (exclusive || *alone);
        if self.holders.iter().any(keeps_out) {
            return None;
        }
        if self.last != Some(id) {
            self.fence += 1;
            self.last = Some(id);
        }
        self.holders.insert(id, (self.fence, exclusive));
        Some(self.fence)
    }

    fn withdraw(&mut self, id: ClaimId) {
        self.holders.remove(&id);
        if self.last == Some(id) {
            self.last = None;
        }
    }
}

/// Random claims and withdrawals of readers and writers. The first token comes from the clock, and
/// the rule goes on from there; all happens within one step of the rounded clock, or the rule
/// follows the jump.
#[tokio::test]
async fn the_scripts_do_as_the_rule() {
    let servers = Redlock::start().unwrap();
    for seed in 0..12 {
        let (mut draw, mut rule) = (Seeded::new(seed), Rule::default());
        let client = ByHand::connect(&with(&servers.url(), SLOW), &name()).await;
        let mut ids: Vec<(ClaimId, bool)> = Vec::new();
        for _ in 0..120 {
            if ids.len() < 4 {
                ids.push((ClaimId::random(), draw.below(2) == 0));
            }
            let at = usize::try_from(draw.below(ids.len() as u64)).unwrap();
            let (id, exclusive) = ids[at];
            if draw.below(3) == 0 {
                let claim = client.with_id(id);
                client.store.withdraw(&claim.key, None).await.unwrap();
                rule.withdraw(id);
                rule.gone.insert(id);
                ids.remove(at);
                continue;
            }
            let writer = client.with_id(id);
            let weight = if exclusive { writer.weight } else { 1 };
            let got = client.token(&Claim { weight, ..writer }).await;
            let want = rule.claim(id, exclusive);
            assert_eq!(got.is_some(), want.is_some(), "seed {seed}: {id:?}");
            if let (Some(got), Some(want)) = (got, want)
                && got != want
            {
                assert!(got > want, "seed {seed}: {got} and not {want}");
                // The clock has gone on: the rule takes its number.
                assert!(rule.last == Some(id), "seed {seed}: an old number has changed");
                rule.fence = got;
                rule.holders.insert(id, (got, exclusive));
            }
        }
    }
}
