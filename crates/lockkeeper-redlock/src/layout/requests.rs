//! The requests to the scripts of a node.

use std::time::Duration;

use lockkeeper_core::store::ClaimId;
use lockkeeper_redis_client::wire::{Request, Script};

use super::keys::{BORN_KEY, ID_KEY, Keys};
use super::scripts;

/// A claim, without what differs between the nodes.
#[derive(Clone, Debug)]
pub(crate) struct ClaimRequest<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) id: &'a ClaimId,
    pub(crate) max_keep: Duration,
    /// The number that the claim is to have at least.
    pub(crate) floor: u64,
    /// How long the node keeps the claim: the ttl and the lock-delay.
    pub(crate) keep: Duration,
    pub(crate) exclusive: bool,
    pub(crate) replaces: Option<(&'a ClaimId, u64)>,
    /// The place of the client among the waiters; empty if it did not wait.
    pub(crate) waiter: &'a str,
    pub(crate) texts: &'a [u8],
    /// A claim that is not there is not made: a renewal.
    pub(crate) only_here: bool,
    /// The servers of this client.
    pub(crate) members: &'a str,
}

/// CLAIM, to a server with this run.
pub(crate) fn claim(of: &ClaimRequest<'_>, run: &str) -> Request {
    let flag = |set: bool| if set { &b"1"[..] } else { &b"0"[..] };
    let (max_keep, keep, floor) = (millis(of.max_keep), millis(of.keep), of.floor.to_string());
    let (old, number) = match of.replaces {
        Some((id, number)) => (&id.as_bytes()[..], number.to_string()),
        None => (&[][..], String::new()),
    };
    let args: [&[u8]; 12] = [
        of.id.as_bytes(),
        run.as_bytes(),
        &max_keep,
        floor.as_bytes(),
        &keep,
        flag(of.exclusive),
        old,
        of.waiter.as_bytes(),
        of.texts,
        flag(of.only_here),
        number.as_bytes(),
        of.members.as_bytes(),
    ];
    call(&scripts::CLAIM, of.keys, of.id, &args)
}

/// WITHDRAW, with a tombstone for this time, if any, and who removes the claim and why, if an
/// administrator does.
pub(crate) fn withdraw(
    keys: &Keys,
    id: &ClaimId,
    tombstone: Option<Duration>,
    why: &[u8],
) -> Request {
    let lasts = millis(tombstone.unwrap_or_default());
    call(&scripts::WITHDRAW, keys, id, &[id.as_bytes(), &lasts, why])
}

/// WAIT, or the end of a wait without a ticket.
pub(crate) fn wait(keys: &Keys, waiter: &str, ticket: Option<u64>) -> Request {
    let ticket = ticket.map(|ticket| ticket.to_string()).unwrap_or_default();
    let waiters = keys.waiters();
    let all: [&[u8]; 4] =
        [keys.line().as_bytes(), keys.line().as_bytes(), BORN_KEY.as_bytes(), waiters.as_bytes()];
    Request::eval(&scripts::WAIT, &all, &[waiter.as_bytes(), ticket.as_bytes()])
}

/// READ, of these lines.
pub(crate) fn read(all: &[Keys], run: &str, max_keep: Duration) -> Request {
    let born = std::iter::once(BORN_KEY.as_bytes());
    let keys: Vec<&[u8]> = all.iter().map(|keys| keys.line().as_bytes()).chain(born).collect();
    Request::eval(&scripts::READ, &keys, &[run.as_bytes(), &millis(max_keep)])
}

/// NOTE: a break or a request for this holder.
pub(crate) fn note(keys: &Keys, id: &ClaimId, kind: &[u8], text: &[u8]) -> Request {
    let args: [&[u8]; 3] = [id.as_bytes(), kind, text];
    Request::eval(&scripts::NOTE, &[keys.line().as_bytes()], &args)
}

/// ID: asks for the id of the store. With a ballot, lower ballots are refused from now on; with an
/// id, the node takes the id.
pub(crate) fn vote(ballot: u64, id: &[u8]) -> Request {
    let ballot = ballot.to_string();
    Request::eval(&scripts::VOTE, &[ID_KEY.as_bytes()], &[ballot.as_bytes(), id])
}

/// Which claims of a node count after its initialization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// All: it has forgotten none.
    All,
    /// Those that counted before.
    AsBefore,
    /// A life after now: others may have locks that it has not.
    FromNow,
}

/// INIT: the servers of all clients, in the place of those that are known, and which claims of this
/// run count.
pub(crate) fn init(
    run: &str,
    (known, members): (&str, &str),
    max_keep: Duration,
    counts: Counts,
) -> Request {
    let counts: &[u8] = match counts {
        Counts::All => b"all",
        Counts::AsBefore => b"as",
        Counts::FromNow => b"now",
    };
    let args = [run.as_bytes(), members.as_bytes(), known.as_bytes(), &millis(max_keep), counts];
    Request::eval(&scripts::INIT, &[BORN_KEY.as_bytes()], &args)
}

/// What a node does with the `max-keep` of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// Only says which one it has.
    Look,
    /// Takes it if it has none.
    TakeIfNone,
    Take,
}

/// KEEP: the `max-keep` and the servers that a node has of its clients.
pub(crate) fn keep(max_keep: Duration, how: Keeping, run: &str) -> Request {
    let how: &[u8] = match how {
        Keeping::Look => b"",
        Keeping::TakeIfNone => b"new",
        Keeping::Take => b"set",
    };
    let keys = [ID_KEY.as_bytes(), BORN_KEY.as_bytes()];
    Request::eval(&scripts::KEEP, &keys, &[&millis(max_keep), how, run.as_bytes()])
}

fn call(script: &'static Script, keys: &Keys, id: &ClaimId, args: &[&[u8]]) -> Request {
    let (tombstone, waiters) = (keys.tombstone(id), keys.waiters());
    let all: [&[u8]; 4] =
        [keys.line().as_bytes(), tombstone.as_bytes(), BORN_KEY.as_bytes(), waiters.as_bytes()];
    Request::eval(script, &all, args)
}

/// In ms, rounded up: a node keeps nothing for less than it was asked to.
fn millis(time: Duration) -> Vec<u8> {
    time.as_micros().div_ceil(1000).to_string().into_bytes()
}
