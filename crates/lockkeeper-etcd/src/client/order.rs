//! The order of this client's requests about one line. etcd processes the requests of one
//! connection in any order. So the claims of a name are sent one after the other, and a claim
//! deletes, in its own transaction, the keys whose release is under way and may arrive after it.

use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard};

use lockkeeper_core::sync::lock;
use tokio::sync::{Mutex as Gate, watch};

use crate::layout::transaction::deletions_of;
use crate::layout::{Leaver, LeaverState};
use crate::wire::messages::TxnResponse;
use crate::{Effect, LockName, Result, fault};

/// A claim deletes at most so many keys of other releases.
const MOST: usize = 16;

/// The requests under way, by name.
#[derive(Debug, Default)]
pub(crate) struct Order(Mutex<HashMap<LockName, Line>>);

#[derive(Debug, Default)]
struct Line {
    gate: Arc<Gate<()>>,
    /// How many claims were in the line when a claim of this client joined last.
    queue_len: Arc<AtomicU32>,
    /// How many guards and releases it has.
    users: usize,
    leaving: Vec<Arc<Leaving>>,
}

/// A key whose deletion is under way.
#[derive(Debug)]
struct Leaving {
    leaver: Leaver,
    carried: watch::Sender<Carried>,
}

/// What the claims that delete a key too have done to it.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    /// How many requests are on their way.
    under_way: usize,
    /// One of them has deleted the key.
    deleted: bool,
    /// One of them may have deleted the key: its answer was lost.
    may_be_deleted: bool,
}

/// A request of a claim whose first operations delete keys which are leaving, until its answer.
#[derive(Debug)]
pub(crate) struct Carrying(Vec<Arc<Leaving>>);

/// The place of a claim among the claims of this client on its name, until this is dropped.
#[derive(Debug)]
pub(crate) struct OrderGuard {
    order: Arc<Order>,
    name: LockName,
    /// The turn of the name: the claim that has it sends its request (`gates` has the order).
    pub(crate) gate: Arc<Gate<()>>,
    /// How many claims were in the line a moment ago; 0 if none of this client has joined it.
    pub(crate) queue_len: Arc<AtomicU32>,
}

/// A withdrawal that is under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct LeaveGuard<'a> {
    order: &'a Order,
    name: LockName,
    one: Arc<Leaving>,
}

impl Order {
    /// Joins behind the claims of this name that are on their way.
    pub(crate) fn guard(self: &Arc<Self>, name: &LockName) -> OrderGuard {
        let mut lines = self.lock();
        let line = lines.entry(name.clone()).or_default();
        line.users += 1;
        let (gate, queue_len) = (Arc::clone(&line.gate), Arc::clone(&line.queue_len));
        OrderGuard { order: Arc::clone(self), name: name.clone(), gate, queue_len }
    }

    /// Notes a key whose deletion is about to be sent. If its revision is not known, no claim
    /// deletes it first.
    pub(crate) fn leave(&self, name: &LockName, leaver: Leaver) -> LeaveGuard<'_> {
        let is_known = !matches!(leaver.state, LeaverState::Created(0) | LeaverState::Changed(0));
        let one = Arc::new(Leaving { leaver, carried: watch::Sender::default() });
        let mut lines = self.lock();
        let line = lines.entry(name.clone()).or_default();
        line.users += 1;
        if is_known {
            line.leaving.push(Arc::clone(&one));
        }
        LeaveGuard { order: self, name: name.clone(), one }
    }

    /// The keys of this name that one request of a claim deletes in its own transaction, and the
    /// note that the request is on its way. These are not the keys that the claim puts or deletes
    /// itself: etcd refuses to change one key twice in one transaction.
    pub(crate) fn carry(&self, name: &LockName, but: &[&[u8]]) -> (Vec<Leaver>, Carrying) {
        let lines = self.lock();
        let all = lines.get(name).map_or(&[][..], |line| &line.leaving);
        let carried = all.iter().filter(|one| !but.contains(&&*one.leaver.key)).take(MOST);
        let carried: Vec<_> = carried.map(Arc::clone).collect();
        for one in &carried {
            one.carried.send_modify(|carried| carried.under_way += 1);
        }
        (carried.iter().map(|one| one.leaver.clone()).collect(), Carrying(carried))
    }

    fn remove(&self, name: &LockName, one: Option<&Arc<Leaving>>) {
        let mut lines = self.lock();
        let Some(line) = lines.get_mut(name) else { return };
        line.users -= 1;
        if let Some(one) = one {
            line.leaving.retain(|other| !Arc::ptr_eq(one, other));
        }
        if line.users == 0 {
            lines.remove(name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LockName, Line>> {
        lock(&self.0)
    }
}

impl Carrying {
    /// Notes which keys the request has deleted.
    pub(crate) fn answered(mut self, answer: &Result<TxnResponse>) {
        let deletions = match answer {
            Ok(answer) => deletions_of(answer),
            Err(error) if error.effect() == Effect::Unknown => return,
            Err(_) => Vec::new(),
        };
        for (at, one) in self.0.drain(..).enumerate() {
            let is_deleted = deletions.get(at).is_some_and(|deleted| *deleted > 0);
            one.carried.send_modify(|carried| {
                carried.under_way -= 1;
                carried.deleted |= is_deleted;
            });
        }
    }
}

impl LeaveGuard<'_> {
    /// The answer to the request of the withdrawal. The error has an unknown effect if a claim has
    /// deleted the key, or may have done so or do so. After an error no other claim deletes it.
    pub(crate) fn answered<T>(self, answer: Result<T>) -> Result<(Self, T)> {
        let error = match answer {
            Ok(answer) => return Ok((self, answer)),
            Err(error) => error,
        };
        let one = Arc::clone(&self.one);
        drop(self);
        let carried = *one.carried.borrow();
        match carried.deleted || carried.may_be_deleted || carried.under_way > 0 {
            true => Err(error.with_unknown_effect()),
            false => Err(error),
        }
    }

    /// Whether the key was deleted: by the request of the withdrawal `itself`, or else by a claim,
    /// as the answers to the claims that delete it too show. No other claim deletes the key from
    /// now on.
    ///
    /// # Errors
    /// `Unavailable` with an unknown effect if the answer to such a claim was lost.
    pub(crate) async fn was_deleted(self, itself: bool) -> Result<bool> {
        let mut carried = self.one.carried.subscribe();
        drop(self);
        if itself {
            return Ok(true);
        }
        // The sender may be gone: then no request is on its way.
        let _ = carried.wait_for(|carried| carried.deleted || carried.under_way == 0).await;
        let carried = *carried.borrow();
        match carried.may_be_deleted && !carried.deleted {
            true => Err(fault::lost_with_a_claim()),
            false => Ok(carried.deleted),
        }
    }
}

impl Drop for Carrying {
    /// The answer was lost.
    fn drop(&mut self) {
        for one in self.0.drain(..) {
            one.carried.send_modify(|carried| {
                carried.under_way -= 1;
                carried.may_be_deleted = true;
            });
        }
    }
}

impl Drop for OrderGuard {
    fn drop(&mut self) {
        self.order.remove(&self.name, None);
    }
}

impl Drop for LeaveGuard<'_> {
    fn drop(&mut self) {
        self.order.remove(&self.name, Some(&self.one));
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::wire::messages::response_op::Response;
    use crate::wire::messages::{DeleteRangeResponse, ResponseOp};
    use crate::{Error, ErrorKind};

    /// The answer to a request that has deleted so many keys in each of its first operations.
    fn answer(deleted: &[i64]) -> TxnResponse {
        let response = |deleted: &i64| {
            let deletion = DeleteRangeResponse { deleted: *deleted, ..Default::default() };
            ResponseOp { response: Some(Response::ResponseDeleteRange(deletion)) }
        };
        let responses = deleted.iter().map(response).collect();
        TxnResponse { succeeded: true, responses, ..TxnResponse::default() }
    }

    fn leaver(key: &'static str, created: i64) -> Leaver {
        Leaver { key: key.into(), state: LeaverState::Created(created) }
    }

    #[test]
    fn a_withdrawal_learns_what_the_claims_that_carry_it_have_deleted() {
        let (order, name) = (Order::default(), "a".parse().unwrap());
        let lost = || Err(Error::new(ErrorKind::Unavailable, "lost").with_unknown_effect());
        let refused = || Err(Error::new(ErrorKind::Unavailable, "refused"));
        let mut cx = Context::from_waker(Waker::noop());
        for (answers, deleted) in [
            (vec![], Some(false)),
            (vec![Ok(answer(&[0, 1]))], Some(true)),
            (vec![Ok(answer(&[1, 0]))], Some(false)),
            (vec![Ok(answer(&[])), refused()], Some(false)),
            (vec![lost(), Ok(answer(&[0, 0]))], None),
            (vec![lost(), Ok(answer(&[0, 1]))], Some(true)),
        ] {
            let other = order.leave(&name, leaver("j", 6));
            let leaves = order.leave(&name, leaver("k", 7));
            let requests: Vec<_> =
                answers.iter().map(|_| order.carry(&name, &[b"own"]).1).collect();
            drop(other);
            let mut asking = pin!(leaves.was_deleted(false));
            for (request, answer) in requests.into_iter().zip(&answers) {
                let is_known = asking.as_mut().poll(&mut cx).is_ready();
                assert!(!is_known, "before {answer:?}");
                request.answered(answer);
            }
            let Poll::Ready(found) = asking.as_mut().poll(&mut cx) else { panic!("{answers:?}") };
            match deleted {
                Some(deleted) => assert_eq!(found.unwrap(), deleted, "{answers:?}"),
                None => assert_eq!(found.unwrap_err().effect(), Effect::Unknown),
            }
            assert!(order.lock().is_empty());
        }
    }

    /// A withdrawal that is repeated finds nothing if a claim has deleted the key meanwhile.
    #[test]
    fn a_failed_withdrawal_is_without_effect_only_if_no_claim_deletes_its_key() {
        let (order, name) = (Order::default(), "a".parse().unwrap());
        let error = || Error::new(ErrorKind::Unavailable, "refused");
        let lost = error().with_unknown_effect();
        for (answers, effect) in [
            (vec![], Effect::None),
            (vec![None], Effect::Unknown),
            (vec![Some(Err(error()))], Effect::None),
            (vec![Some(Ok(answer(&[0])))], Effect::None),
            (vec![Some(Ok(answer(&[1])))], Effect::Unknown),
            (vec![Some(Err(lost))], Effect::Unknown),
        ] {
            let leaves = order.leave(&name, leaver("k", 7));
            let mut under_way = Vec::new();
            for answer in &answers {
                let (leaving, request) = order.carry(&name, &[b"own"]);
                assert_eq!(leaving, [leaver("k", 7)]);
                match answer {
                    Some(answer) => request.answered(answer),
                    None => under_way.push(request),
                }
            }
            let failed = leaves.answered(Err::<(), _>(error())).unwrap_err();
            assert_eq!(failed.effect(), effect, "{answers:?}");
            assert!(order.carry(&name, &[b"own"]).0.is_empty(), "no claim deletes it any more");
        }
    }

    #[test]
    fn a_claim_carries_the_withdrawals_of_its_line_and_none_is_remembered() {
        let (order, name, other) = (Order::default(), "a".parse().unwrap(), "b".parse().unwrap());
        let leaves = order.leave(&name, leaver("k", 7));
        let stays = order.leave(&other, leaver("l", 8));
        let of_whom_little_is_known = order.leave(&name, leaver("m", 0));
        let carried = |but| order.carry(&name, &[but]).0;
        assert_eq!(carried(b"own"), [leaver("k", 7)]);
        assert_eq!(carried(b"k"), [], "etcd refuses to delete and to put the same");
        drop((leaves, stays, of_whom_little_is_known));
        assert!(carried(b"own").is_empty() && order.lock().is_empty());
    }

    #[test]
    fn claims_of_one_name_run_in_the_order_of_their_first_polls() {
        let (order, name) = (Arc::new(Order::default()), "a".parse().unwrap());
        let guards = [order.guard(&name), order.guard(&name), order.guard(&name)];
        let mut cx = Context::from_waker(Waker::noop());
        let mut second = Box::pin(guards[1].gate.lock());
        let mut third = Box::pin(guards[2].gate.lock());
        let first = guards[0].gate.try_lock().unwrap();
        assert!(
            second.as_mut().poll(&mut cx).is_pending() && third.as_mut().poll(&mut cx).is_pending()
        );
        drop(first);
        assert!(third.as_mut().poll(&mut cx).is_pending());
        assert!(second.as_mut().poll(&mut cx).is_ready());
        let other = order.guard(&"b".parse().unwrap());
        assert!(other.gate.try_lock().is_ok());
        drop((second, third));
        drop((guards, other));
        assert!(order.lock().is_empty());
    }
}
