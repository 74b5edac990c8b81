//! What is asked of etcd, in words that are shorter than its own.

use bytes::Bytes;

use super::super::wire::messages::compare::{CompareResult, CompareTarget, TargetUnion};
use super::super::wire::messages::range_request::{SortOrder, SortTarget};
use super::super::wire::messages::request_op::Request;
use super::super::wire::messages::response_op::Response;
use super::super::wire::messages::{
    Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RangeResponse, RequestOp, ResponseOp, TxnRequest,
    TxnResponse,
};
use super::keys::Span;

/// If all of this holds, then that is done, else that.
pub(in super::super) fn transaction(when: Vec<Compare>, then: Vec<RequestOp>, otherwise: Vec<RequestOp>) -> TxnRequest {
    TxnRequest { compare: when, success: then, failure: otherwise }
}

/// There is no such key.
pub(in super::super) fn absent(key: &Bytes) -> Compare {
    created(key, 0)
}

/// The key is there, and was made by this revision; 0 for one that is not there.
pub(in super::super) fn created(key: &Bytes, revision: i64) -> Compare {
    compare(key, CompareResult::Equal, CompareTarget::Create, TargetUnion::CreateRevision(revision))
}

/// The key was changed last by this revision; 0 for one that is not there.
pub(in super::super) fn changed(key: &Bytes, revision: i64) -> Compare {
    compare(key, CompareResult::Equal, CompareTarget::Mod, TargetUnion::ModRevision(revision))
}

/// The key is there, whoever made it.
pub(in super::super) fn present(key: &Bytes) -> Compare {
    compare(key, CompareResult::Greater, CompareTarget::Create, TargetUnion::CreateRevision(0))
}

/// The key is on this lease.
pub(in super::super) fn leased(key: &Bytes, lease: i64) -> Compare {
    compare(key, CompareResult::Equal, CompareTarget::Lease, TargetUnion::Lease(lease))
}

/// Nothing in there was made after this revision, if anything is there.
pub(in super::super) fn nobody_since(span: &Span, revision: i64) -> Compare {
    let compare =
        compare(&span.from, CompareResult::Less, CompareTarget::Create, TargetUnion::CreateRevision(revision + 1));
    Compare { range_end: span.to.clone(), ..compare }
}

/// There is nothing in there but these keys, which need not be there either: as these revisions have made them.
pub(in super::super) fn empty_but_for(span: &Span, but: &[(Bytes, i64)]) -> Vec<Compare> {
    let mut but: Vec<_> = but.iter().collect();
    but.sort_unstable();
    let (mut from, mut compares) = (span.from.clone(), Vec::with_capacity(2 * but.len() + 1));
    for (key, made) in but {
        if from < *key {
            compares.push(nothing_between(&from, key));
        }
        // It is another one's otherwise, who has come later.
        compares.push(compare(key, CompareResult::Less, CompareTarget::Create, TargetUnion::CreateRevision(made + 1)));
        from = next(key);
    }
    if from < span.to {
        compares.push(nothing_between(&from, &span.to));
    }
    compares
}

pub(in super::super) fn put(key: &Bytes, value: Bytes, lease: i64) -> RequestOp {
    op(Request::RequestPut(PutRequest { key: key.clone(), value, lease, ..PutRequest::default() }))
}

/// On another lease, with the value that it has.
pub(in super::super) fn move_to(key: &Bytes, lease: i64) -> RequestOp {
    let put = PutRequest { key: key.clone(), lease, ignore_value: true, ..PutRequest::default() };
    op(Request::RequestPut(put))
}

/// Another value, on the lease that it is on.
pub(in super::super) fn rewrite(key: &Bytes, value: Bytes) -> RequestOp {
    op(Request::RequestPut(PutRequest { key: key.clone(), value, ignore_lease: true, ..PutRequest::default() }))
}

/// The same again: those who watch hear of it.
pub(in super::super) fn touch(key: &Bytes) -> RequestOp {
    let put = PutRequest { key: key.clone(), ignore_value: true, ignore_lease: true, ..PutRequest::default() };
    op(Request::RequestPut(put))
}

pub(in super::super) fn delete(key: &Bytes) -> RequestOp {
    op(Request::RequestDeleteRange(DeleteRangeRequest { key: key.clone(), range_end: Bytes::new() }))
}

/// The key goes if this revision has made it; whoever has, if that is not known.
pub(in super::super) fn delete_made(key: &Bytes, revision: i64) -> RequestOp {
    match revision {
        0 => delete(key),
        revision => nested(transaction(vec![created(key, revision)], vec![delete(key)], Vec::new())),
    }
}

pub(in super::super) fn get(key: &Bytes) -> RequestOp {
    op(Request::RequestRange(RangeRequest { key: key.clone(), ..RangeRequest::default() }))
}

/// Everything in there, in the order in which it was made.
pub(in super::super) fn all(span: &Span) -> RangeRequest {
    RangeRequest {
        key: span.from.clone(),
        range_end: span.to.clone(),
        sort_order: SortOrder::Ascend.into(),
        sort_target: SortTarget::Create.into(),
        ..RangeRequest::default()
    }
}

/// The last so many that were made before this revision; of all, without one.
pub(in super::super) fn last(most: usize, span: &Span, before: Option<i64>) -> RangeRequest {
    RangeRequest {
        sort_order: SortOrder::Descend.into(),
        limit: i64::try_from(most).unwrap_or(i64::MAX),
        // 0 is no limit.
        max_create_revision: before.map_or(0, |before| before - 1),
        ..all(span)
    }
}

pub(in super::super) fn range(request: RangeRequest) -> RequestOp {
    op(Request::RequestRange(request))
}

pub(in super::super) fn nested(transaction: TxnRequest) -> RequestOp {
    op(Request::RequestTxn(transaction))
}

/// The answers to the ranges of a transaction, in their order.
pub(in super::super) fn ranges(responses: Vec<ResponseOp>) -> impl Iterator<Item = RangeResponse> {
    responses.into_iter().filter_map(|response| match response.response {
        Some(Response::ResponseRange(range)) => Some(range),
        _ => None,
    })
}

/// The answers to the nested transactions, in their order.
pub(in super::super) fn inners(responses: Vec<ResponseOp>) -> impl Iterator<Item = TxnResponse> {
    responses.into_iter().filter_map(|response| match response.response {
        Some(Response::ResponseTxn(inner)) => Some(inner),
        _ => None,
    })
}

/// How many keys all deletions of a transaction have deleted, those of nested ones too.
pub(in super::super) fn deleted(responses: &[ResponseOp]) -> i64 {
    let count = |response: &ResponseOp| match &response.response {
        Some(Response::ResponseDeleteRange(deleted)) => deleted.deleted,
        Some(Response::ResponseTxn(inner)) => self::deleted(&inner.responses),
        _ => 0,
    };
    responses.iter().map(count).sum()
}

/// The only key of an answer.
pub(in super::super) fn only(range: Option<RangeResponse>) -> Option<KeyValue> {
    range.and_then(|range| range.kvs.into_iter().next())
}

fn nothing_between(from: &Bytes, to: &Bytes) -> Compare {
    let compare = compare(from, CompareResult::Equal, CompareTarget::Create, TargetUnion::CreateRevision(0));
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
