//! What this client knows of its own claims: their tokens, and the requests without an answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lockkeeper_core::store::{Claim, ClaimId, ClaimKey, MAX, TOMBSTONE_MIN};
use lockkeeper_core::sync::lock;
use lockkeeper_core::time::Instant;
use lockkeeper_redis_client::wire::Link;

use crate::fault::NodeFault;
use crate::layout::{ClaimRequest, Keys, NodeAnswer, Texts, claim, withdraw};
use crate::nodes::{Coming, Nodes, Reply, garbled};
use crate::protocol::{Release, Released};

/// At least this number of claims is kept without a look for dead ones.
const MIN_BEFORE_SWEEP: usize = 1024;

/// The claims of this client that may be live.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    all: HashMap<ClaimId, Arc<OwnClaim>>,
    /// The number of claims at which the next sweep looks for dead ones.
    look_at: usize,
}

/// One claim of this client.
#[derive(Debug)]
pub(crate) struct OwnClaim {
    pub(crate) key: ClaimKey,
    pub(crate) ttl: Duration,
    /// How long a node keeps the claim.
    pub(crate) keep: Duration,
    pub(crate) exclusive: bool,
    keys: Keys,
    texts: Vec<u8>,
    /// Who removes the claim and why, if an administrator does.
    why: Vec<u8>,
    max_keep: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    token: Option<u64>,
    /// From this instant on no node can have anything left of the claim.
    until: Instant,
    unanswered: Vec<Unanswered>,
    is_withdrawn: bool,
    /// The longest tombstone that a withdrawal was to leave.
    tombstone: Option<Duration>,
    /// Whether a task repeats the withdrawals.
    is_repeated: bool,
    release: Release,
}

/// The requests of a claim that a node has not answered.
#[derive(Clone, Debug, Default)]
struct Unanswered {
    count: u32,
    /// The number of the connection of the last one.
    connection: Option<u64>,
    /// Whether one was sent on an earlier connection.
    is_stale: bool,
    /// Whether the node has ever answered that it holds the claim.
    was_held: bool,
}

/// The answer of a node about a claim.
pub(crate) type Said = Result<NodeAnswer, NodeFault>;

/// How a claim is sent to a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sending<'a> {
    pub(crate) floor: u64,
    /// The claim to replace, and its token.
    pub(crate) replaces: Option<(&'a ClaimId, u64)>,
    pub(crate) waiter: &'a str,
    pub(crate) only_here: bool,
}

impl Claims {
    pub(crate) fn get(&self, id: &ClaimId) -> Option<Arc<OwnClaim>> {
        self.lock().all.get(id).cloned()
    }

    /// The claim of this request, which may be known.
    pub(crate) fn begin(
        &self,
        of: &Claim,
        nodes: &Nodes,
        (max_keep, now): (Duration, Instant),
    ) -> Arc<OwnClaim> {
        let mut known = self.lock();
        if known.all.len() >= known.look_at.max(MIN_BEFORE_SWEEP) {
            known.all.retain(|_, own| own.lock().until > now);
            known.look_at = known.all.len() * 2;
        }
        let own = || {
            let keep = of.ttl.saturating_add(of.lock_delay);
            Arc::new(OwnClaim {
                key: of.key.clone(),
                ttl: of.ttl,
                keep,
                exclusive: of.weight == MAX,
                keys: Keys::of(&of.key.name),
                texts: Texts::of(&of.key.name, &of.meta).write(),
                why: Vec::new(),
                max_keep,
                state: Mutex::new(State::new(nodes.len(), now + 2 * keep)),
            })
        };
        Arc::clone(known.all.entry(of.key.id).or_insert_with(own))
    }

    /// Nothing is left of the claim, and it is not claimed again.
    pub(crate) fn forget(&self, id: &ClaimId) {
        self.lock().all.remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        lock(&self.0)
    }
}

impl State {
    fn new(nodes: usize, until: Instant) -> Self {
        Self {
            token: None,
            until,
            unanswered: vec![Unanswered::default(); nodes],
            is_withdrawn: false,
            tombstone: None,
            is_repeated: false,
            release: Release::new(nodes),
        }
    }
}

impl Unanswered {
    fn sent(&mut self, on: Option<u64>) {
        self.is_stale |= self.count > 0 && self.connection != on;
        self.connection = on;
        self.count += 1;
    }

    /// The node has answered a request, or the request was never sent.
    fn answered(&mut self, said: &Said) {
        self.count = self.count.saturating_sub(1);
        self.was_held |= matches!(said, Ok(NodeAnswer::Held { .. }));
    }

    /// Whether the node may hold the claim, now or when a late request arrives.
    fn may_have(&self) -> bool {
        self.was_held || self.is_stale || self.count > 0
    }

    /// Whether one of the requests may arrive after a request on this connection.
    fn may_arrive_after(&self, connection: Option<u64>) -> bool {
        self.is_stale || self.count > 0 && self.connection != connection
    }
}

impl OwnClaim {
    /// A claim that this client does not know, to be withdrawn. Each node may have it.
    pub(crate) fn unknown(
        key: ClaimKey,
        keys: Keys,
        keep: (Duration, Duration),
        at: (usize, Instant),
    ) -> Arc<Self> {
        Self::removed(key, keys, keep, at, Vec::new())
    }

    /// The same for a claim that an administrator removes, with who does so and why.
    pub(crate) fn removed(
        key: ClaimKey,
        keys: Keys,
        (keep, max_keep): (Duration, Duration),
        at: (usize, Instant),
        why: Vec<u8>,
    ) -> Arc<Self> {
        let own = Self { why, ..Self::of_store(key, keys, (keep, max_keep), at) };
        own.lock().unanswered.iter_mut().for_each(|node| node.was_held = true);
        Arc::new(own)
    }

    /// A claim of the store itself. It is exclusive and shows nothing.
    pub(crate) fn alone(
        key: ClaimKey,
        keys: Keys,
        keep: (Duration, Duration),
        at: (usize, Instant),
    ) -> Arc<Self> {
        Arc::new(Self::of_store(key, keys, keep, at))
    }

    fn of_store(
        key: ClaimKey,
        keys: Keys,
        (keep, max_keep): (Duration, Duration),
        (nodes, now): (usize, Instant),
    ) -> Self {
        let (texts, why) = (Texts::default().write(), Vec::new());
        let state = Mutex::new(State::new(nodes, now + keep));
        Self { key, ttl: keep, keep, exclusive: true, keys, texts, why, max_keep, state }
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn token(&self) -> Option<u64> {
        self.lock().token
    }

    /// The claim has this token, unless it was withdrawn meanwhile.
    pub(crate) fn granted(&self, token: u64) -> bool {
        let mut state = self.lock();
        if !state.is_withdrawn {
            state.token = Some(token);
        }
        !state.is_withdrawn
    }

    /// A request of the claim is about to be sent: the nodes keep it for longer.
    pub(crate) fn lives(&self, now: Instant) {
        self.lock().until = now + 2 * self.keep;
    }

    /// Sends the claim to a node; `None` if the claim was withdrawn: nothing is claimed behind its
    /// withdrawal.
    pub(crate) fn send(
        self: &Arc<Self>,
        nodes: &Nodes,
        node: usize,
        how: Sending<'_>,
    ) -> Option<Coming<Said>> {
        let mut state = self.lock();
        (!state.is_withdrawn).then(|| self.send_in(&mut state, (nodes, node), how))
    }

    /// Sends a claim that has its token to a node that has lost it, or has another number.
    pub(crate) fn take(
        self: &Arc<Self>,
        nodes: &Nodes,
        node: usize,
        token: u64,
    ) -> Option<Coming<Said>> {
        self.send(nodes, node, Sending { floor: token, ..Sending::default() })
    }

    /// Asks a node whether it has the claim with its token, and renews it there.
    pub(crate) fn confirm(
        self: &Arc<Self>,
        nodes: &Nodes,
        node: usize,
        token: u64,
    ) -> Coming<Said> {
        let how = Sending { floor: token, only_here: true, ..Sending::default() };
        self.send_in(&mut self.lock(), (nodes, node), how)
    }

    fn send_in(
        self: &Arc<Self>,
        state: &mut State,
        (nodes, node): (&Nodes, usize),
        how: Sending<'_>,
    ) -> Coming<Said> {
        state.unanswered[node].sent(nodes.link(node).connection());
        let texts: &[u8] = if how.only_here { &[] } else { &self.texts };
        let request = ClaimRequest {
            keys: &self.keys,
            id: &self.key.id,
            max_keep: self.max_keep,
            floor: how.floor,
            keep: self.keep,
            exclusive: self.exclusive,
            replaces: how.replaces,
            waiter: how.waiter,
            texts,
            only_here: how.only_here,
            members: nodes.members(),
        };
        let reply = match how.only_here {
            true => nodes.ask(node, |run| claim(&request, run)),
            false => nodes.ask_once(node, |run| claim(&request, run)),
        };
        let (own, link) = (Arc::clone(self), nodes.link(node).clone());
        let (others, connection) = (nodes.others(node), link.connection());
        Box::pin(async move {
            let said = own.read(reply.await, &link);
            others.note(connection, &said);
            // A request that may still arrive leaves the claim unsettled there.
            if !said.as_ref().is_err_and(NodeFault::may_have_effect) {
                own.lock().unanswered[node].answered(&said);
            }
            said
        })
    }

    /// Withdraws the claim from a node. A request without an answer may still arrive on another
    /// connection, so the node gets a tombstone then. A server takes the requests of one connection
    /// in their order.
    pub(crate) fn withdraw(
        self: &Arc<Self>,
        nodes: &Nodes,
        node: usize,
        tombstone: Option<Duration>,
    ) -> impl Future<Output = Said> + Send + use<> {
        let tombstone = {
            let mut state = self.lock();
            state.is_withdrawn = true;
            state.tombstone = state.tombstone.max(tombstone);
            let connection = nodes.link(node).connection();
            let may_arrive = state.unanswered[node].may_arrive_after(connection);
            state.tombstone.max(may_arrive.then(|| self.keep.max(TOMBSTONE_MIN)))
        };
        let request = withdraw(&self.keys, &self.key.id, tombstone, &self.why);
        let reply = nodes.ask(node, |_| request);
        let (own, link) = (Arc::clone(self), nodes.link(node).clone());
        async move {
            let said = own.read(reply.await, &link);
            let had = match &said {
                Ok(NodeAnswer::Released) => Some(true),
                // A value of another program is no claim.
                Ok(_) => Some(false),
                Err(_) => None,
            };
            if let Some(had) = had {
                own.lock().release.answered(node, had);
            }
            said
        }
    }

    /// The nodes that may have the claim. The others need no withdrawal.
    pub(crate) fn may_be_at(&self) -> Vec<usize> {
        let mut state = self.lock();
        state.is_withdrawn = true;
        for node in 0..state.unanswered.len() {
            if !state.unanswered[node].may_have() {
                state.release.answered(node, false);
            }
        }
        state.release.missing()
    }

    /// Whether no other task repeats the withdrawals: the caller does so now.
    pub(crate) fn begin_repeating(&self) -> bool {
        !std::mem::replace(&mut self.lock().is_repeated, true)
    }

    /// Whether a node may have the claim.
    pub(crate) fn may_be_anywhere(&self) -> bool {
        self.lock().unanswered.iter().any(Unanswered::may_have)
    }

    /// Whether the claim was withdrawn: its id may not be claimed any more.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.lock().is_withdrawn
    }

    /// The result of all withdrawals so far, and the nodes that have not answered.
    pub(crate) fn released(&self) -> (Released, Vec<usize>) {
        let state = self.lock();
        (state.release.result(), state.release.missing())
    }

    /// Whether the claim may still be anywhere.
    pub(crate) fn may_live(&self, now: Instant) -> bool {
        self.lock().until > now
    }

    fn read(&self, reply: Reply, link: &Link) -> Said {
        let value = reply?;
        NodeAnswer::read(&value, &self.key.id).ok_or_else(|| garbled(link))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that holds a claim, and could not be asked for a higher number, holds the claim.
    #[test]
    fn a_node_that_held_a_claim_may_have_it_until_it_answers_a_withdrawal() {
        let not_sent = || NodeFault::Unreachable { why: "no connection".into(), sent: false };
        let mut asked = Unanswered::default();
        asked.sent(None);
        asked.answered(&Err(not_sent()));
        assert!(!asked.may_have(), "nothing has reached the node");
        asked.sent(Some(1));
        assert!(asked.may_have(), "the answer is missing");
        asked.answered(&Ok(NodeAnswer::Absent));
        assert!(!asked.may_have());
        asked.sent(Some(1));
        asked.answered(&Ok(NodeAnswer::Held { number: 7, asked: None }));
        asked.sent(None);
        asked.answered(&Err(not_sent()));
        assert!(asked.may_have(), "it holds the number 7");
    }
}
