//! RENEW: a claim is held as long as a majority confirms its token.

use super::quorum;

/// What is known of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Nothing,
    /// The node holds the claim with its token.
    Confirmed,
    /// The node holds nothing of the claim, and no other claim keeps it out.
    Absent,
    /// The claim cannot be confirmed there in this life: another claim has the lock, or the claim
    /// has another number.
    Taken,
    /// The node is silent, or does not count now.
    Unknown,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RenewStep {
    /// Wait for the next answer.
    Wait,
    /// Take these nodes again, which have lost the claim: their answers decide.
    Take(Vec<usize>),
    /// A majority has confirmed the token.
    Held,
    /// The lock is lost.
    Lost,
    /// Neither is proven.
    Unknown,
}

/// The renewal of one claim.
#[derive(Debug)]
pub(crate) struct Renewing {
    token: u64,
    quorum: usize,
    nodes: Vec<Standing>,
    /// Whether nodes without the claim were asked to take it again.
    taking: bool,
}

impl Renewing {
    pub(crate) fn new(nodes: usize, token: u64) -> Self {
        Self { token, quorum: quorum(nodes), nodes: vec![Standing::Nothing; nodes], taking: false }
    }

    /// A node holds the claim with this number. Only the token itself confirms the token: another
    /// claim may have been granted before a higher number.
    pub(crate) fn held(&mut self, node: usize, number: u64) {
        self.nodes[node] = if number == self.token { Standing::Confirmed } else { Standing::Taken };
    }

    pub(crate) fn absent(&mut self, node: usize) {
        self.nodes[node] = Standing::Absent;
    }

    pub(crate) fn taken(&mut self, node: usize) {
        self.nodes[node] = Standing::Taken;
    }

    pub(crate) fn unknown(&mut self, node: usize) {
        self.nodes[node] = Standing::Unknown;
    }

    /// The time is over: nodes without an answer are unknown. Returns these nodes.
    pub(crate) fn silence(&mut self) -> Vec<usize> {
        let silent = |at: &usize| self.nodes[*at] == Standing::Nothing;
        let nodes: Vec<_> = (0..self.nodes.len()).filter(silent).collect();
        nodes.iter().for_each(|node| self.nodes[*node] = Standing::Unknown);
        nodes
    }

    /// The nodes that have lost the claim.
    pub(crate) fn without(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|at| self.nodes[*at] == Standing::Absent).collect()
    }

    /// What follows from the answers so far. A claim that no node has any more has expired or was
    /// withdrawn, and is never revived.
    pub(crate) fn step(&mut self) -> RenewStep {
        let count = |said: Standing| self.nodes.iter().filter(|other| **other == said).count();
        let (confirmed, open) = (count(Standing::Confirmed), count(Standing::Nothing));
        let absent = count(Standing::Absent);
        if confirmed >= self.quorum {
            return RenewStep::Held;
        }
        if confirmed + open >= self.quorum {
            return RenewStep::Wait;
        }
        let lives = confirmed > 0 && !self.taking;
        if lives && confirmed + open + absent >= self.quorum {
            if open > 0 {
                return RenewStep::Wait;
            }
            let nodes = self.without();
            nodes.iter().for_each(|node| self.nodes[*node] = Standing::Nothing);
            self.taking = true;
            return RenewStep::Take(nodes);
        }
        if confirmed + open + count(Standing::Unknown) < self.quorum {
            return RenewStep::Lost;
        }
        if open > 0 { RenewStep::Wait } else { RenewStep::Unknown }
    }
}
