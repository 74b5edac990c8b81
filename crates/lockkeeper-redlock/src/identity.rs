//! The id of the store: the clients choose one, and a majority of the nodes keeps it.
//!
//! A client chooses under a lock of the store's own. The token of the lock is its ballot. First it
//! asks the nodes for the id with this ballot, which keeps lower ballots out; then a majority takes
//! the id that was found, or a new one. So the id that one majority has taken is the only one.

use std::time::Duration;

use lockkeeper_core::kit::random::{bits128, jittered};
use lockkeeper_core::store::{ClaimId, ClaimKey, SessionId, StoreId};
use lockkeeper_core::{Error, ErrorKind, LockName, Result};

use crate::RedlockStore;
use crate::claims::OwnClaim;
use crate::fault::{NodeFault, too_few};
use crate::layout::{Keys, vote, voted};
use crate::line::REST;
use crate::nodes::{Round, garbled};
use crate::{claim, withdraw};

/// How long the lock of a client that chooses is kept.
const TTL: Duration = Duration::from_secs(2);
/// How often a client tries to choose.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(50);
/// How an id begins if lockkeeper has written it.
const OURS: &[u8] = b"lockkeeper-store:";

/// The id of the store.
pub(super) async fn id(store: &RedlockStore) -> Result<StoreId> {
    store.check_process()?;
    for _ in 0..TRIES {
        if let Some(id) = kept(store, &asked(store, 0, &[]).await?, 0)? {
            return Ok(id);
        }
        if let Some(id) = chosen(store).await? {
            return Ok(id);
        }
        store.0.clock.sleep(jittered(PAUSE)).await;
    }
    Err(Error::new(ErrorKind::Unavailable, "other clients choose the id of the store")
        .with_remedy("again in a moment"))
}

/// A ballot and an id on each node that has answered.
type Votes = Vec<(u64, Vec<u8>)>;

/// The id that a majority keeps with one ballot, not lower than this one.
fn kept(store: &RedlockStore, votes: &Votes, least: u64) -> Result<Option<StoreId>> {
    let count = |vote: &(u64, Vec<u8>)| votes.iter().filter(|other| *other == vote).count();
    let is_kept = |vote: &&(u64, Vec<u8>)| {
        !vote.1.is_empty() && vote.0 >= least && count(vote) >= store.0.nodes.quorum()
    };
    votes.iter().find(is_kept).map(|(_, id)| read(id)).transpose()
}

fn read(stored: &[u8]) -> Result<StoreId> {
    stored.strip_prefix(OURS).and_then(StoreId::read).ok_or_else(|| {
        let problem = "the key lk:r:id holds something that lockkeeper has not written";
        Error::new(ErrorKind::Unsupported, problem)
            .with_remedy("redis-cli RENAME 'lk:r:id' to another name on each server")
    })
}

/// Chooses the id under a lock; `None` if other clients have the lock, or have taken it over.
async fn chosen(store: &RedlockStore) -> Result<Option<StoreId>> {
    let name = LockName::new("lockkeeper")?;
    let key = ClaimKey { name, session: SessionId::random(), id: ClaimId::random() };
    let at = (store.0.nodes.len(), store.0.clock.now());
    let own = OwnClaim::alone(key, Keys::of_id(), (TTL, store.0.setup.max_keep), at);
    let Some(ballot) = claim::alone(store, &own).await? else { return Ok(None) };
    let chosen = async {
        let votes = asked(store, ballot, &[]).await?;
        let found = votes.into_iter().filter(|(_, id)| !id.is_empty()).max_by_key(|vote| vote.0);
        let id = match found {
            Some((_, id)) => id,
            None => [OURS, StoreId::from_bytes(bits128()).to_string().as_bytes()].concat(),
        };
        kept(store, &asked(store, ballot, &id).await?, ballot)
    }
    .await;
    withdraw::from_all(store, &own, None).await;
    chosen
}

/// Asks all nodes, with a ballot and perhaps an id to take. A majority has to answer.
async fn asked(store: &RedlockStore, ballot: u64, id: &[u8]) -> Result<Votes> {
    let (nodes, clock) = (&store.0.nodes, &store.0.clock);
    let mut round = Round::new();
    for node in 0..nodes.len() {
        round.add(node, nodes.ask(node, |_| vote(ballot, id)));
    }
    let (mut votes, mut faults) = (Vec::new(), Vec::new());
    let mut until = clock.now() + store.0.setup.hosts.timeout;
    while let Some(Some((node, reply))) =
        clock.timeout(until.saturating_since(clock.now()), round.next()).await
    {
        let vote = reply.and_then(|value| voted(&value).ok_or_else(|| garbled(nodes.link(node))));
        match vote {
            Ok(Ok(vote)) => votes.push(vote),
            Ok(Err(answer)) => {
                let fault = NodeFault::of_answer(&answer).unwrap_or(NodeFault::Busy);
                faults.push((nodes.shown(node).to_owned(), fault));
            }
            Err(fault) => faults.push((nodes.shown(node).to_owned(), fault)),
        }
        if votes.len() >= nodes.quorum() {
            until = until.min(clock.now() + REST);
        }
    }
    match votes.len() < nodes.quorum() {
        true => Err(too_few(&faults, nodes.len(), nodes.quorum()).without_effect()),
        false => Ok(votes),
    }
}
