//! The status of a claim, as a look found it.

use super::layout::{Contender, Record};
use super::neighbours::Neighbours;
use crate::store::Broken;

/// The status of a claim in its line.
#[derive(Clone, Debug)]
pub(super) enum ClaimStatus {
    /// The claim is not there, or only its minimum hold is.
    Absent,
    /// The claim is marked as broken.
    Broken(Broken),
    /// The claim is admitted.
    First(Box<Found>),
    /// The claim waits.
    Behind { created: i64, lease: i64, neighbours: Neighbours },
}

/// A claim that is admitted, as it was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) created: i64,
    /// The revision that changed it last.
    pub(super) changed: i64,
    pub(super) lease: i64,
    pub(super) record: Option<Record>,
}

impl Found {
    /// Whether the claim is on the timer of its minimum hold.
    pub(super) fn is_timed(&self) -> bool {
        self.record
            .as_ref()
            .and_then(|record| record.keep.as_ref())
            .is_some_and(|keep| keep.lease == self.lease)
    }
}

impl ClaimStatus {
    /// The status of a claim behind these predecessors, of which [`Neighbours::of`] needs the last
    /// few.
    pub(super) fn of(own: &Contender, ahead: &[Contender], short_queue: bool) -> Self {
        if let Some(broken) = own.record.as_ref().and_then(Record::broken) {
            return Self::Broken(broken);
        }
        if own.is_released() {
            return Self::Absent;
        }
        let (created, lease) = (own.created, own.lease);
        match Neighbours::of(own, ahead, short_queue) {
            Some(neighbours) => Self::Behind { created, lease, neighbours },
            None => {
                let record = own.record.clone();
                Self::First(Box::new(Found { created, changed: own.changed, lease, record }))
            }
        }
    }
}

/// Whether a claim is admitted behind these predecessors, marked as broken or not.
pub(super) fn is_admitted(own: &Contender, ahead: &[Contender]) -> bool {
    Neighbours::of(own, ahead, false).is_none()
}
