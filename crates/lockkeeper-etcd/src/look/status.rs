//! The status of a claim, as a look found it: what blocks it, if anything does.

use crate::layout::{Contender, Record};
use crate::look::Neighbours;
use crate::store::Broken;

/// The status of a claim in its line.
#[derive(Clone, Debug)]
pub(crate) enum ClaimStatus {
    /// The claim is not there, or only its minimum hold is.
    Absent,
    /// The claim is marked as broken.
    Broken(Broken),
    /// The claim is admitted.
    Admitted(Box<Found>),
    /// The claim waits, and these neighbours block it.
    Blocked { created: i64, lease: i64, neighbours: Neighbours },
}

/// A claim that is admitted, as it was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) created: i64,
    /// The revision that changed it last.
    pub(crate) changed: i64,
    pub(crate) lease: i64,
    pub(crate) record: Option<Record>,
}

impl Found {
    /// Whether the claim is on the timer of its minimum hold.
    pub(crate) fn is_timed(&self) -> bool {
        self.record
            .as_ref()
            .and_then(|record| record.keep.as_ref())
            .is_some_and(|keep| keep.lease == self.lease)
    }
}

impl ClaimStatus {
    /// The status of a claim behind these predecessors, of which [`Neighbours::of`] needs the last
    /// few.
    pub(crate) fn of(own: &Contender, ahead: &[Contender], short_queue: bool) -> Self {
        if let Some(broken) = own.record.as_ref().and_then(Record::broken) {
            return Self::Broken(broken);
        }
        if own.is_released() {
            return Self::Absent;
        }
        let (created, lease) = (own.created, own.lease);
        match Neighbours::of(own, ahead, short_queue) {
            Some(neighbours) => Self::Blocked { created, lease, neighbours },
            None => {
                let record = own.record.clone();
                Self::Admitted(Box::new(Found { created, changed: own.changed, lease, record }))
            }
        }
    }
}

/// Whether a claim is admitted behind these predecessors, marked as broken or not.
pub(crate) fn is_admitted(own: &Contender, ahead: &[Contender]) -> bool {
    Neighbours::of(own, ahead, false).is_none()
}
