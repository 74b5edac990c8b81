//! Transactions on the callers' data, each on a connection of its own.
//!
//! `WATCH` belongs to a connection. So a transaction takes a connection that is never made again
//! (`Link::alone`), and its requests go nowhere else. The transaction gives the connection back
//! only when nothing is watched there: after `EXEC`, or behind `UNWATCH`. A future that is dropped
//! before closes the connection.

mod attempt;
mod changes;
mod fence;
pub(super) mod idle;
mod refusal;
mod reply;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::attempt::Attempt;
pub use self::changes::Changes;
use self::fence::Fence;
pub use self::reply::Reply;
pub use self::watched::Watched;
use super::RedisStore;
use super::layout;
use crate::marks::redis::FencedKey;
use crate::registers::{Outcome, Policy};
use crate::{Error, ErrorKind, Result, Sequencer};

/// At most this many keys are named in an error.
const SHOWN: usize = 3;

/// Begins transactions. Each transaction that runs has a connection of its own. The store keeps up
/// to eight idle connections for the next transactions, and closes them when it is dropped. Cheap
/// to make and to clone.
#[derive(Clone, Debug)]
pub struct Transactions(RedisStore);

impl RedisStore {
    /// Transactions on the data of these servers, on connections of their own. They are separate
    /// from the locks: any key can be watched. See `lockkeeper::optimistic::redis`.
    pub fn transactions(&self) -> Transactions {
        Transactions(self.clone())
    }
}

impl Transactions {
    /// A transaction that is done only if none of these keys has changed or expired meanwhile.
    pub fn watch<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Transaction {
        self.begin().watch(keys)
    }

    /// A transaction that is done only if this is still the newest holder: see
    /// [`Transaction::fenced`].
    pub fn fenced(&self, key: &FencedKey, holder: &Sequencer) -> Transaction {
        self.begin().fenced(key, holder)
    }

    fn begin(&self) -> Transaction {
        let store = self.0.clone();
        Transaction {
            store,
            keys: BTreeSet::new(),
            fences: BTreeMap::new(),
            fenced_twice: false,
            policy: Policy::default(),
        }
    }
}

/// A transaction that has not begun yet.
#[derive(Clone, Debug)]
#[must_use = "a transaction does nothing before run()"]
pub struct Transaction {
    store: RedisStore,
    keys: BTreeSet<Vec<u8>>,
    /// By the keys of their marks.
    fences: BTreeMap<String, Fence>,
    /// By one key: the older holder would lower the marks that the newer one has raised.
    fenced_twice: bool,
    policy: Policy,
}

impl Transaction {
    /// Watches these keys too.
    pub fn watch<K: AsRef<[u8]>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys.extend(keys.into_iter().map(|key| key.as_ref().to_vec()));
        self
    }

    /// Watches this key, and refuses a holder that is not the newest holder of the lock, as far as
    /// the data has seen: the first transaction or call (`lockkeeper::fence::redis`) of a newer
    /// holder shuts out the older ones, also if it changes nothing. The holder of a read lock may
    /// read, and change nothing.
    pub fn fenced(mut self, key: &FencedKey, holder: &Sequencer) -> Self {
        self.keys.extend([key.marks().into(), key.key().into()]);
        let fence = Fence { key: key.clone(), holder: holder.clone() };
        self.fenced_twice |= self.fences.insert(key.marks().to_owned(), fence).is_some();
        self
    }

    /// Sets how often, and for how long, the transaction begins again after a conflict. By default
    /// it begins again for up to 30 s, with random pauses.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Watches the keys, calls `decide`, and does the commands that `decide` returns in one step,
    /// if no watched key has changed meanwhile. Otherwise the transaction begins again after a
    /// random pause. Returns the answers of the commands.
    ///
    /// `decide` is an `async |watched| …`, and may run several times, so it should have no effects.
    /// If the transaction is done, also with no changes, everything that `decide` has read belongs
    /// together. If `decide` fails, nothing is changed. The policy does not cut `decide` short.
    ///
    /// Runs in a tokio runtime with timers enabled.
    ///
    /// # Errors
    /// The error of `decide`; after a lost connection `decide` is called again first. Errors of the
    /// transaction:
    /// - [`Conflict`](ErrorKind::Conflict): another client was faster each time. Nothing was
    ///   changed;
    /// - [`Lost`](ErrorKind::Lost): a newer holder was there. Nothing was changed;
    /// - any with [`Effect::Unknown`](lockkeeper_core::Effect::Unknown): the answer to `EXEC` was
    ///   lost, so the transaction was done as a whole or not at all; or the server refused one
    ///   command and did the others, which the error says. Do not repeat the transaction blindly;
    /// - [`Invalid`](ErrorKind::Invalid): nothing is watched, keys of several slots of a Cluster,
    ///   or a command that the server refuses, or that is about the connection. Nothing was
    ///   changed;
    /// - [`Unavailable`](ErrorKind::Unavailable), [`Denied`](ErrorKind::Denied) and all others:
    ///   nothing was changed.
    ///
    /// # Cancel safety
    /// A future that is dropped before the last step has changed nothing. If it is dropped in the
    /// last step, the transaction may be done or not. Nothing stays watched.
    // Not `AsyncFnMut`: the compiler cannot show then that a call in a spawned task is `Send`.
    pub async fn run<E, F, Deciding>(self, mut decide: F) -> Result<Vec<Reply>, E>
    where
        E: From<Error>,
        F: FnMut(Watched) -> Deciding,
        Deciding: Future<Output = Result<Changes, E>>,
    {
        self.store.check_process()?;
        let slot = self.slot().map_err(|error| self.about(error))?;
        let mut tries = self.policy.start()?;
        loop {
            let attempt = Attempt { of: &self, slot, tries: &tries };
            let tried = async {
                let (stage, marks) = attempt.watch().await?;
                let decided = decide(Watched(Arc::downgrade(&stage))).await;
                attempt.finish(stage, marks, decided).await
            };
            let trouble = match tried.await {
                Ok(Ok(Outcome::Done(replies))) => return Ok(replies),
                Ok(Ok(Outcome::Conflict)) => None,
                Ok(Ok(Outcome::Unknown(error))) => return Err(self.about(error).into()),
                Ok(Err(decided)) => return Err(decided),
                Err(error) if error.kind() == ErrorKind::Unavailable => Some(error),
                Err(error) => return Err(self.about(error).into()),
            };
            if !tries.again().await {
                return Err(self.about(trouble.unwrap_or_else(|| tries.conflict())).into());
            }
        }
    }

    /// The slot of the keys. Outside a Cluster any slot will do. A node of a Cluster refuses keys
    /// of several slots itself, at `WATCH`, before anything is changed.
    fn slot(&self) -> Result<u16> {
        if self.fenced_twice {
            return Err(Error::invalid("a transaction that is fenced twice by the same key")
                .with_remedy("one fenced() for each key"));
        }
        let first = self.keys.first().ok_or_else(|| {
            Error::invalid("a transaction that watches nothing")
                .with_remedy("watch() the keys that matter")
        })?;
        Ok(layout::slot(tag(first)))
    }

    /// Adds the store and the keys to an error.
    fn about(&self, error: Error) -> Error {
        let keys: Vec<_> =
            self.keys.iter().take(SHOWN).map(|key| String::from_utf8_lossy(key)).collect();
        let more = if self.keys.len() > SHOWN { ", …" } else { "" };
        error.at(&self.store.to_string()).at(&format!("transaction on {:?}{more}", keys.join(", ")))
    }
}

/// The part of a key that decides its slot: the text in its first braces, or the whole key.
fn tag(key: &[u8]) -> &[u8] {
    let inside = || {
        let rest = &key[key.iter().position(|byte| *byte == b'{')? + 1..];
        let tag = &rest[..rest.iter().position(|byte| *byte == b'}')?];
        (!tag.is_empty()).then_some(tag)
    };
    inside().unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::tag;

    #[test]
    fn the_slot_is_that_of_the_first_braces_with_something_in_them() {
        for (key, expected) in [
            ("stock", "stock"),
            ("{stock}:42", "stock"),
            ("a{b}c{d}", "b"),
            ("a{}b{c}", "a{}b{c}"),
            ("a{b", "a{b"),
            ("a}b{c}", "c"),
            ("{{a}}", "{a"),
            ("", ""),
        ] {
            assert_eq!(tag(key.as_bytes()), expected.as_bytes(), "{key}");
        }
    }
}
