//! ACQUIRE: rounds of claims, until a majority of the nodes has one number.

use super::{agreed, quorum};

/// How often a number may be raised. More rounds mean that other readers raise theirs meanwhile.
const ROUNDS: u32 = 6;

/// What is known of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// The node has not answered yet.
    Nothing,
    /// The node holds the claim with this number.
    Held(u64),
    /// The node does not hold the claim: another claim does, or the node cannot be used.
    Refused,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Wait for the next answer.
    Wait,
    /// Send the claim with this floor to these nodes.
    Ask { floor: u64, nodes: Vec<usize> },
    /// A majority holds the claim with this number: the token.
    Granted(u64),
    /// No majority can be reached any more.
    Failed,
}

/// One attempt of one claim.
#[derive(Debug)]
pub(crate) struct Acquire {
    quorum: usize,
    floor: u64,
    rounds: u32,
    nodes: Vec<Position>,
}

impl Acquire {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { quorum: quorum(nodes), floor: 0, rounds: 0, nodes: vec![Position::Nothing; nodes] }
    }

    /// The first requests of the attempt.
    pub(crate) fn begin(&mut self) -> Step {
        self.rounds = 1;
        Step::Ask { floor: 0, nodes: (0..self.nodes.len()).collect() }
    }

    /// A node has answered a request with the floor `asked` that it holds the claim with this
    /// number. If the number is too low by now, a later request to the node is under way.
    pub(crate) fn held(&mut self, node: usize, asked: u64, number: u64) {
        if number < self.floor && asked < self.floor {
            return;
        }
        self.nodes[node] = match self.nodes[node] {
            Position::Held(before) => Position::Held(before.max(number)),
            _ => Position::Held(number),
        };
    }

    /// A node does not hold the claim. What it has answered before counts no more.
    pub(crate) fn refused(&mut self, node: usize) {
        self.nodes[node] = Position::Refused;
    }

    /// The time of a round is over: nodes without an answer count as refusals.
    pub(crate) fn silence(&mut self) {
        self.nodes.iter_mut().filter(|said| **said == Position::Nothing).for_each(|said| {
            *said = Position::Refused;
        });
    }

    /// What follows from the answers so far.
    pub(crate) fn step(&mut self) -> Step {
        if let Some(token) = agreed(self.numbers(), self.quorum) {
            return Step::Granted(token);
        }
        let held = self.numbers().count();
        let open = self.nodes.iter().filter(|said| **said == Position::Nothing).count();
        if held + open < self.quorum {
            return Step::Failed;
        }
        let highest = self.numbers().max().unwrap_or_default();
        if held < self.quorum || highest <= self.floor && open > 0 {
            return Step::Wait;
        }
        self.raise(highest)
    }

    /// Whether an answer of the node is to come.
    pub(crate) fn is_open(&self, node: usize) -> bool {
        self.nodes[node] == Position::Nothing
    }

    /// The number of a node that holds the claim.
    pub(crate) fn number(&self, node: usize) -> Option<u64> {
        match self.nodes[node] {
            Position::Held(number) => Some(number),
            _ => None,
        }
    }

    /// All nodes that hold the claim now take the highest of their numbers, or a higher one.
    fn raise(&mut self, floor: u64) -> Step {
        if self.rounds == ROUNDS {
            return Step::Failed;
        }
        self.rounds += 1;
        self.floor = floor;
        let below = |said: &Position| *said != Position::Refused && *said != Position::Held(floor);
        let nodes: Vec<_> = (0..self.nodes.len()).filter(|at| below(&self.nodes[*at])).collect();
        // Their earlier numbers count no more.
        nodes.iter().for_each(|node| self.nodes[*node] = Position::Nothing);
        Step::Ask { floor, nodes }
    }

    fn numbers(&self) -> impl Iterator<Item = u64> + Clone {
        self.nodes.iter().filter_map(|said| match said {
            Position::Held(number) => Some(*number),
            _ => None,
        })
    }
}
