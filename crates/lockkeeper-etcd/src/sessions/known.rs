//! The sessions of this client.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use lockkeeper_core::sync::lock;

use super::session::Session;
use super::tombstones::REMEMBERED;
use crate::gates::SharingGate;
use crate::store::{ClaimId, SessionId};
use crate::time::Instant;

/// Up to so many sessions are kept without a look whether they are over.
pub(super) const SESSIONS: usize = 64;

/// All sessions of a client.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    known: Mutex<Known>,
    /// The sessions of other clients for which calls look.
    sought: Mutex<HashMap<SessionId, Arc<SharingGate>>>,
}

/// A call that looks for a session which another client has opened, until this is dropped.
#[derive(Debug)]
pub(crate) struct Lookup<'a> {
    sessions: &'a Sessions,
    id: SessionId,
    /// Keeps the order of the calls that look for this session (`gates` has the order).
    pub(crate) gate: Arc<SharingGate>,
}

#[derive(Debug, Default)]
struct Known {
    all: HashMap<SessionId, Arc<Session>>,
    /// With so many sessions, the client forgets the sessions that are over.
    most: usize,
    /// The sessions that this client has closed, and until when it remembers that.
    closed: HashMap<SessionId, Instant>,
    /// The same in the order of the closes.
    closes: VecDeque<(Instant, SessionId)>,
}

impl Known {
    /// Forgets the sessions that are over: no call closes a session that was lost, or that was left
    /// to another client. This looks at all sessions, but only when their number has doubled.
    fn forget_over(&mut self, now: Instant) {
        if self.all.len() >= self.most {
            self.all.retain(|_, session| !session.leases.are_over(now));
            self.most = (2 * self.all.len()).max(SESSIONS);
        }
    }

    /// Forgets the closes that were to be remembered until this moment.
    fn forget_closes(&mut self, now: Instant) {
        while self.closes.front().is_some_and(|(until, _)| *until <= now) {
            let Some((_, id)) = self.closes.pop_front() else { return };
            if self.closed.get(&id).is_some_and(|until| *until <= now) {
                self.closed.remove(&id);
            }
        }
    }
}

impl Sessions {
    /// Adds a session that was opened, unless it is known, and returns the known session.
    pub(super) fn insert(&self, session: Session, now: Instant) -> Arc<Session> {
        let mut known = self.lock();
        known.forget_over(now);
        Arc::clone(known.all.entry(session.id.clone()).or_insert_with(|| Arc::new(session)))
    }

    #[cfg(test)]
    pub(crate) fn opened(
        &self,
        id: &SessionId,
        spec: &crate::store::SessionSpec,
        is_new: bool,
        sent: Instant,
    ) -> Arc<Session> {
        let lines = crate::layout::Lines::new(crate::layout::Layout::Native, None);
        self.insert(Session::opened(&lines, id, spec, is_new, 0, sent), sent)
    }

    /// The session with this id, if this client has used the session before.
    pub(crate) fn known(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.lock().all.get(id).cloned()
    }

    /// The same, unless calls look for the session. A claim and its withdrawal must not overtake
    /// the claims among these calls.
    pub(crate) fn known_in_order(&self, id: &SessionId) -> Option<Arc<Session>> {
        let is_sought = lock(&self.sought).contains_key(id);
        self.known(id).filter(|_| !is_sought)
    }

    /// Joins behind the calls that look for this session.
    pub(crate) fn lookup(&self, id: &SessionId) -> Lookup<'_> {
        let gate = Arc::clone(lock(&self.sought).entry(id.clone()).or_default());
        Lookup { sessions: self, id: id.clone(), gate }
    }

    /// Whether this client has closed the session a short while ago.
    pub(super) fn was_closed(&self, id: &SessionId, now: Instant) -> bool {
        self.lock().closed.get(id).is_some_and(|until| *until > now)
    }

    /// Notes that the session was closed, and remembers that until then.
    pub(super) fn closed(&self, id: &SessionId, until: Instant) {
        let mut known = self.lock();
        known.all.remove(id);
        known.forget_closes(until - REMEMBERED);
        known.closed.insert(id.clone(), until);
        known.closes.push_back((until, id.clone()));
    }

    /// The session of this claim.
    pub(crate) fn of(&self, id: ClaimId) -> Option<Arc<Session>> {
        self.lock().all.values().find(|session| session.claims.state(id).is_some()).cloned()
    }

    /// Forgets a detached session that etcd has ended: no call of this client may close it.
    pub(crate) fn lost(&self, lost: &Session) {
        let mut known = self.lock();
        // The id may belong to a later session.
        let is_lost =
            |session: &Arc<Session>| session.is_shared() && session.recorded == lost.recorded;
        if known.all.get(&lost.id).is_some_and(is_lost) {
            known.all.remove(&lost.id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

impl Drop for Lookup<'_> {
    fn drop(&mut self) {
        let mut sought = lock(&self.sessions.sought);
        // Gates are cloned and dropped under this lock alone: if only the map has the gate, no
        // other call looks for the session.
        drop(std::mem::take(&mut self.gate));
        if sought.get(&self.id).is_some_and(|gate| Arc::strong_count(gate) == 1) {
            sought.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_end_at_a_time_leave_no_gate() {
        let (sessions, id) = (Sessions::default(), SessionId::random());
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| (0..20_000).for_each(|_| drop(sessions.lookup(&id))));
            }
        });
        assert_eq!(lock(&sessions.sought).len(), 0);
        let (one, other) = (sessions.lookup(&id), sessions.lookup(&id));
        assert!(Arc::ptr_eq(&one.gate, &other.gate));
        drop(one);
        assert!(
            Arc::ptr_eq(&other.gate, &sessions.lookup(&id).gate),
            "the other call has it still"
        );
    }
}
