//! Transactions of etcd, in shorter words than those of its messages.

use std::slice;

use bytes::Bytes;

use super::leaver::{Leaver, LeaverState};
use super::span::Span;
use crate::wire::messages::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::wire::messages::range_request::{SortOrder, SortTarget};
use crate::wire::messages::request_op::Request;
use crate::wire::messages::response_op::Response;
use crate::wire::messages::{
    Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RangeResponse, RequestOp,
    ResponseOp, TxnRequest, TxnResponse,
};

/// If all comparisons hold, etcd does the first list of operations, else the second one.
pub(crate) fn transaction(
    when: Vec<Compare>,
    then: Vec<RequestOp>,
    otherwise: Vec<RequestOp>,
) -> TxnRequest {
    TxnRequest { compare: when, success: then, failure: otherwise }
}

/// The key is not there.
pub(crate) fn absent(key: &Bytes) -> Compare {
    created(key, 0)
}

/// This revision created the key; 0 for a key that is not there.
pub(crate) fn created(key: &Bytes, revision: i64) -> Compare {
    compare(key, CompareResult::Equal, CompareTarget::Create, TargetUnion::CreateRevision(revision))
}

/// This revision was the last to change the key; 0 for a key that is not there.
pub(crate) fn changed(key: &Bytes, revision: i64) -> Compare {
    compare(key, CompareResult::Equal, CompareTarget::Mod, TargetUnion::ModRevision(revision))
}

/// The key is there, in any incarnation.
pub(crate) fn present(key: &Bytes) -> Compare {
    compare(key, CompareResult::Greater, CompareTarget::Create, TargetUnion::CreateRevision(0))
}

/// The key is on this lease.
pub(crate) fn leased(key: &Bytes, lease: i64) -> Compare {
    compare(key, CompareResult::Equal, CompareTarget::Lease, TargetUnion::Lease(lease))
}

/// No key of the range was created after this revision.
pub(crate) fn nobody_since(span: &Span, revision: i64) -> Compare {
    let compare = compare(
        &span.from,
        CompareResult::Less,
        CompareTarget::Create,
        TargetUnion::CreateRevision(revision + 1),
    );
    Compare { range_end: span.to.clone(), ..compare }
}

/// The range has no keys but these, which may be there or not.
pub(crate) fn empty_but_for(span: &Span, but: &[Leaver]) -> Vec<Compare> {
    let mut but: Vec<_> = but.iter().collect();
    but.sort_unstable();
    let (mut from, mut compares) = (span.from.clone(), Vec::with_capacity(2 * but.len() + 1));
    for leaver in but {
        if from < leaver.key {
            compares.push(nothing_between(&from, &leaver.key));
        }
        compares.push(no_later_than(leaver));
        from = next(&leaver.key);
    }
    if from < span.to {
        compares.push(nothing_between(&from, &span.to));
    }
    compares
}

pub(crate) fn put(key: &Bytes, value: Bytes, lease: i64) -> RequestOp {
    op(Request::RequestPut(PutRequest { key: key.clone(), value, lease, ..PutRequest::default() }))
}

/// Moves a key to another lease. Its value stays, and its create revision.
pub(crate) fn move_to(key: &Bytes, lease: i64) -> RequestOp {
    let put = PutRequest { key: key.clone(), lease, ignore_value: true, ..PutRequest::default() };
    op(Request::RequestPut(put))
}

/// Gives a key another value. It stays on its lease, and its create revision stays.
pub(crate) fn rewrite(key: &Bytes, value: Bytes) -> RequestOp {
    op(Request::RequestPut(PutRequest {
        key: key.clone(),
        value,
        ignore_lease: true,
        ..PutRequest::default()
    }))
}

/// Writes a key as it is, so that its watches report a change.
pub(crate) fn touch(key: &Bytes) -> RequestOp {
    let put = PutRequest {
        key: key.clone(),
        ignore_value: true,
        ignore_lease: true,
        ..PutRequest::default()
    };
    op(Request::RequestPut(put))
}

pub(crate) fn delete(key: &Bytes) -> RequestOp {
    op(Request::RequestDeleteRange(DeleteRangeRequest {
        key: key.clone(),
        range_end: Bytes::new(),
    }))
}

/// Deletes this incarnation of a key, and no other one. If its revision is not known, the key is
/// deleted.
pub(crate) fn delete_made(key: &Bytes, revision: i64) -> RequestOp {
    match revision {
        0 => delete(key),
        revision => {
            nested(transaction(vec![created(key, revision)], vec![delete(key)], Vec::new()))
        }
    }
}

/// Deletes this key in this state.
pub(crate) fn delete_leaver(leaver: &Leaver) -> RequestOp {
    match leaver.state {
        LeaverState::Created(revision) => delete_made(&leaver.key, revision),
        LeaverState::Changed(revision) => nested(transaction(
            vec![changed(&leaver.key, revision)],
            vec![delete(&leaver.key)],
            Vec::new(),
        )),
    }
}

pub(crate) fn get(key: &Bytes) -> RequestOp {
    op(Request::RequestRange(RangeRequest { key: key.clone(), ..RangeRequest::default() }))
}

/// All keys of the range, in the order of their create revisions.
pub(crate) fn all(span: &Span) -> RangeRequest {
    RangeRequest {
        key: span.from.clone(),
        range_end: span.to.clone(),
        sort_order: SortOrder::Ascend.into(),
        sort_target: SortTarget::Create.into(),
        ..RangeRequest::default()
    }
}

/// The last keys of the range by create revision; with `before`, of those that were created before
/// that revision.
pub(crate) fn last(most: usize, span: &Span, before: Option<i64>) -> RangeRequest {
    RangeRequest {
        sort_order: SortOrder::Descend.into(),
        limit: i64::try_from(most).unwrap_or(i64::MAX),
        // 0 is no limit.
        max_create_revision: before.map_or(0, |before| before - 1),
        ..all(span)
    }
}

pub(crate) fn range(request: RangeRequest) -> RequestOp {
    op(Request::RequestRange(request))
}

pub(crate) fn nested(transaction: TxnRequest) -> RequestOp {
    op(Request::RequestTxn(transaction))
}

/// The answers to the reads of a transaction, in their order.
pub(crate) fn ranges(responses: Vec<ResponseOp>) -> impl Iterator<Item = RangeResponse> {
    responses.into_iter().filter_map(|response| match response.response {
        Some(Response::ResponseRange(range)) => Some(range),
        _ => None,
    })
}

/// The answers to the nested transactions, in their order.
pub(crate) fn inners(responses: Vec<ResponseOp>) -> impl Iterator<Item = TxnResponse> {
    responses.into_iter().filter_map(|response| match response.response {
        Some(Response::ResponseTxn(inner)) => Some(inner),
        _ => None,
    })
}

/// How many keys the deletions of a transaction have deleted, in nested transactions too.
pub(crate) fn deleted(responses: &[ResponseOp]) -> i64 {
    let count = |response: &ResponseOp| match &response.response {
        Some(Response::ResponseDeleteRange(deleted)) => deleted.deleted,
        Some(Response::ResponseTxn(inner)) => self::deleted(&inner.responses),
        _ => 0,
    };
    responses.iter().map(count).sum()
}

/// How many keys each operation of the branch that etcd has taken has deleted. The branch that is
/// nested in the other one counts as that.
pub(crate) fn deletions_of(answer: &TxnResponse) -> Vec<i64> {
    match (answer.succeeded, answer.responses.as_slice()) {
        (true, responses) => responses.iter().map(|one| deleted(slice::from_ref(one))).collect(),
        (false, [ResponseOp { response: Some(Response::ResponseTxn(inner)) }])
            if inner.succeeded =>
        {
            deletions_of(inner)
        }
        (false, _) => Vec::new(),
    }
}

/// The only key of an answer.
pub(crate) fn only(range: Option<RangeResponse>) -> Option<KeyValue> {
    range.and_then(|range| range.kvs.into_iter().next())
}

/// No client has changed the keys that this transaction deletes: a changed key would stay, and
/// block.
pub(crate) fn none_was_changed(leaving: &[Leaver]) -> impl Iterator<Item = Compare> {
    leaving
        .iter()
        .filter(|leaver| matches!(leaver.state, LeaverState::Changed(_)))
        .map(no_later_than)
}

/// The key is in this state, or in an earlier one. A key that is not there has the revision 0.
fn no_later_than(leaver: &Leaver) -> Compare {
    let (target, to) = match leaver.state {
        LeaverState::Created(revision) => {
            (CompareTarget::Create, TargetUnion::CreateRevision(revision + 1))
        }
        LeaverState::Changed(revision) => {
            (CompareTarget::Mod, TargetUnion::ModRevision(revision + 1))
        }
    };
    compare(&leaver.key, CompareResult::Less, target, to)
}

fn nothing_between(from: &Bytes, to: &Bytes) -> Compare {
    let compare =
        compare(from, CompareResult::Equal, CompareTarget::Create, TargetUnion::CreateRevision(0));
    Compare { range_end: to.clone(), ..compare }
}

fn next(key: &Bytes) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}

fn compare(key: &Bytes, result: CompareResult, target: CompareTarget, to: TargetUnion) -> Compare {
    Compare {
        key: key.clone(),
        result: result.into(),
        target: target.into(),
        target_union: Some(to),
        range_end: Bytes::new(),
    }
}

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}
