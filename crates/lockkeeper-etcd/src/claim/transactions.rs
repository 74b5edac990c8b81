//! What the transactions of a claim are made of, and how their answers are read.

use bytes::Bytes;

use super::{Claiming, Earlier, Outcome};
use crate::client::Carrying;
use crate::layout::transaction::{
    absent, all, changed, created, delete, delete_leaver, get, inners, last, nested, only, put,
    range, ranges, transaction,
};
use crate::layout::unix_ms;
use crate::layout::{Contender, Layout, Leaver};
use crate::wire::messages::{
    Compare, RangeRequest, RangeResponse, RequestOp, ResponseOp, TxnRequest, TxnResponse,
};
use crate::{Error, ErrorKind, Result, fault, sessions};

impl Claiming {
    /// Neither the key of the claim nor its tombstone is there.
    pub(super) fn is_new(&self) -> Vec<Compare> {
        vec![absent(&self.key), absent(&self.tombstone)]
    }

    /// Reads the key of the claim. In a detached session, also reads the report that another client
    /// has missed the claim.
    pub(super) fn own_reads(&self) -> Vec<RequestOp> {
        [get(&self.key)].into_iter().chain(self.report.as_ref().map(get)).collect()
    }

    /// The same, and reads the tombstone of the claim, for a claim that is not new.
    pub(super) fn known(&self) -> Vec<RequestOp> {
        let mut reads = self.own_reads();
        reads.push(get(&self.tombstone));
        reads
    }

    /// What [`own_reads`](Self::own_reads) has read, if the key of the claim was there.
    pub(super) fn found(
        &self,
        ranges: &mut impl Iterator<Item = RangeResponse>,
    ) -> Option<Box<Earlier>> {
        let own = only(ranges.next());
        let is_reported = self.report.is_some() && only(ranges.next()).is_some();
        own.map(|own| Box::new(Earlier { own: Contender::read(own), is_reported }))
    }

    /// Reads the key of the claim, its tombstone, and the whole line.
    pub(super) fn known_and_line(&self) -> Vec<RequestOp> {
        let mut reads = self.known();
        reads.push(range(all(&self.line)));
        reads
    }

    /// Puts the key of the claim on this lease. If the claim `holds` once this is done, its record
    /// says since when. A report that a client has missed the claim is about an earlier key.
    pub(super) fn put(&self, lease: i64, holds: bool) -> impl Iterator<Item = RequestOp> {
        let mut record = (*self.record).clone();
        record.held_ms = holds.then(unix_ms);
        let put = put(&self.key, record.written(), lease);
        [put].into_iter().chain(self.report.as_ref().map(delete))
    }

    /// Reads the claims ahead. For a writer the last of them are enough, since every key of a
    /// native line is a contender. The read is in the transaction that puts the claim, so its
    /// answer has the claim too.
    pub(super) fn ahead(&self) -> RangeRequest {
        match self.is_exclusive() && self.store.0.lines.layout == Layout::Native {
            true => last(3, &self.line, None),
            false => all(&self.line),
        }
    }

    /// The keys that are leaving: the next transaction deletes them, in case it overtakes their
    /// releases. `replaced` is a key that the transaction deletes in any case.
    pub(super) fn leaving(&self, replaced: Option<&Bytes>) -> (Vec<Leaver>, Carrying) {
        let but = [&*self.key, replaced.map_or(&[][..], |key| key)];
        self.store.0.order.carry(&self.claim.key.name, &but)
    }

    /// The claims that a range of the line shows.
    pub(super) fn read(&self, range: RangeResponse) -> Vec<Contender> {
        Contender::all(&self.store.0.lines, &self.line, range.kvs)
    }

    /// The claim as its transaction has put it, or would put it.
    pub(super) fn own(&self, lease: i64, created: i64) -> Contender {
        Contender {
            key: self.key.clone(),
            created,
            changed: created,
            lease,
            id: Some(self.claim.key.id),
            record: Some((*self.record).clone()),
            value: Bytes::new(),
        }
    }

    /// The outcome of a transaction that has read [`known_and_line`](Self::known_and_line).
    pub(super) fn outside(&self, answer: TxnResponse) -> Outcome {
        let revision = revision(&answer);
        let mut ranges = ranges(answer.responses);
        let own = self.found(&mut ranges);
        let (tombstone, line) = (only(ranges.next()), ranges.next());
        match (own, tombstone) {
            (Some(own), _) => Outcome::Known(own),
            (None, Some(_)) => Outcome::Retired,
            (None, None) => {
                Outcome::Outside { line: self.read(line.unwrap_or_default()), revision }
            }
        }
    }

    /// The outcome of a transaction that has read [`known`](Self::known).
    pub(super) fn known_or_retired(&self, responses: Vec<ResponseOp>) -> Outcome {
        self.found(&mut ranges(responses)).map_or(Outcome::Retired, Outcome::Known)
    }

    pub(super) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse> {
        self.store.txn(request).await.map_err(fault::of_a_put)
    }

    /// Processes a transaction that may put the key of the claim: only while its session is open. A
    /// session that is not detached has no other client that could close it, and needs no
    /// comparison.
    async fn txn_in_session(&self, request: TxnRequest) -> Result<TxnResponse> {
        if !self.session.is_shared() {
            return self.txn(request).await;
        }
        let is_open = self.store.is_open(&self.session);
        let TxnResponse { header, responses, succeeded } =
            self.txn(transaction(is_open, vec![nested(request)], Vec::new())).await?;
        if !succeeded {
            self.store.0.sessions.lost(&self.session);
            return Err(sessions::lost());
        }
        // The answer of a nested transaction has no header of its own.
        inners(responses).next().map(|inner| TxnResponse { header, ..inner }).ok_or_else(garbled)
    }

    /// Processes a transaction that may put the key of the claim, and whose first operations delete
    /// the keys that are leaving.
    pub(super) async fn txn_carrying(
        &self,
        request: TxnRequest,
        carrying: Carrying,
    ) -> Result<TxnResponse> {
        let answer = self.txn_in_session(request).await;
        carrying.answered(&answer);
        answer
    }

    /// Takes the claim out of the line again, as these revisions have created and changed it.
    /// Another client of its session may have changed it since: then that client has found that the
    /// claim waits or holds.
    pub(super) async fn leave(&self, made: i64, changed_last: i64) -> Result<()> {
        let when = match self.session.is_shared() {
            true => changed(&self.key, changed_last),
            false => created(&self.key, made),
        };
        let deleting = transaction(vec![when], vec![delete(&self.key)], Vec::new());
        self.txn(deleting).await.map_err(Error::with_unknown_effect).map(drop)
    }
}

/// Deletes the keys that are leaving.
pub(super) fn deletions(leaving: &[Leaver]) -> Vec<RequestOp> {
    leaving.iter().map(delete_leaver).collect()
}

/// The claims of a line without the leaving claims. A later claim in the slot of a leaving one
/// stays.
pub(super) fn staying(line: &[Contender], leaving: &[Leaver]) -> Vec<Contender> {
    line.iter().filter(|other| !other.is_leaving(leaving)).cloned().collect()
}

/// The revision of a transaction: the create revision of the keys that it has put first.
pub(super) fn revision(answer: &TxnResponse) -> i64 {
    answer.header.as_ref().map_or(0, |header| header.revision)
}

/// The outcome of a transaction that has put the claim where nothing blocks it.
pub(super) fn held(lease: i64, answer: &TxnResponse) -> Outcome {
    Outcome::Held { lease, created: revision(answer), is_dated: true }
}

/// etcd's answer does not have the parts that were asked for.
pub(super) fn garbled() -> Error {
    Error::new(ErrorKind::Internal, "etcd's answer is not one to this question")
        .with_unknown_effect()
        .with_remedy("a report of this bug")
}
