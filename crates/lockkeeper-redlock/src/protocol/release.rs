//! WITHDRAW: whether the claim was there, and which nodes have not answered.

use super::quorum;

/// The result of a withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// Too few nodes have answered.
    Unknown,
    /// A majority had the claim.
    Removed,
    /// No majority had the claim.
    Absent,
}

/// What the nodes have answered to the withdrawals of one claim, over all repetitions.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    quorum: usize,
    /// Whether a node had the claim.
    nodes: Vec<Option<bool>>,
}

impl Release {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { quorum: quorum(nodes), nodes: vec![None; nodes] }
    }

    /// A node has answered. Only its first answer says whether it had the claim.
    pub(crate) fn answered(&mut self, node: usize, had: bool) {
        self.nodes[node].get_or_insert(had);
    }

    pub(crate) fn result(&self) -> Released {
        let count = |had: Option<bool>| self.nodes.iter().filter(|said| **said == had).count();
        if count(Some(true)) >= self.quorum {
            Released::Removed
        } else if count(Some(true)) + count(None) < self.quorum {
            Released::Absent
        } else {
            Released::Unknown
        }
    }

    /// The nodes that have not answered.
    pub(crate) fn missing(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|at| self.nodes[*at].is_none()).collect()
    }
}
