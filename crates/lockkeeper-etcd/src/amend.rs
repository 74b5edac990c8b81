//! Changing what a claim shows or takes, in place: its revision, and so its token, stays.

use super::EtcdStore;
use super::layout::transaction::{all, changed, get, only, range, ranges, rewrite, transaction};
use super::layout::{Contender, ahead_of};
use super::status::is_admitted;
use super::wire::messages::TxnResponse;
use super::{fault, keep};
use crate::store::{Amend, Amended, ClaimKey};
use crate::{Error, ErrorKind, Result};

/// How often it is tried because somebody else changes it too.
pub(super) const TRIES: u32 = 16;

pub(super) async fn amend(store: &EtcdStore, key: &ClaimKey, change: &Amend) -> Result<Amended> {
    for _ in 0..TRIES {
        let Some((own, admitted)) = look(store, key).await? else { return Ok(Amended::NotLive) };
        let Some(mut record) = own.record.clone() else { return Ok(Amended::NotLive) };
        // One that is marked holds until its life ends.
        match change {
            Amend::Lower(_) if !admitted => return Ok(Amended::NotLive),
            Amend::Lower(weight) => record.weight = record.weight.min(*weight),
            Amend::MinHold(hold) => return keep::begin(store, key, *hold).await,
            Amend::Meta(meta) => record.show(meta),
            Amend::Value(value) => {
                let mut meta = record.meta();
                meta.value = Some(value.clone());
                record.show(&meta);
            }
        }
        let value = record.written();
        let request = transaction(vec![changed(&own.key, own.changed)], vec![rewrite(&own.key, value)], Vec::new());
        let answer: TxnResponse = store.0.calls.ask("/etcdserverpb.KV/Txn", request).await.map_err(fault::of)?;
        if answer.succeeded {
            store.0.sessions.get(&key.session)?.shows(key.id, record);
            return Ok(Amended::Done);
        }
    }
    Err(always_changes())
}

pub(super) fn always_changes() -> Error {
    Error::new(ErrorKind::Unavailable, "others change this claim all the time").with_remedy("again in a moment")
}

/// The claim, unless only its minimum hold is left, and whether it is admitted.
pub(super) async fn look(store: &EtcdStore, key: &ClaimKey) -> Result<Option<(Contender, bool)>> {
    let at = store.0.sessions.get(&key.session)?.slot_of(&store.0.lines, key).at;
    let line = store.0.lines.of(&key.name);
    let request = transaction(Vec::new(), vec![get(&at), range(all(&line))], Vec::new());
    let asked = store.0.calls.ask("/etcdserverpb.KV/Txn", request).await;
    let answer: TxnResponse = asked.map_err(|error| fault::of(error).without_effect())?;
    let mut answers = ranges(answer.responses);
    let (own, others) = (only(answers.next()), answers.next().unwrap_or_default());
    // What sits in its place may be a later claim of this client, if the answer took longer than a release.
    let own = own.map(Contender::read).filter(|own| own.id == Some(key.id) && !own.is_released());
    Ok(own.map(|own| {
        let others = Contender::all(&store.0.lines, &line, others.kvs);
        let admitted = is_admitted(&own, ahead_of(&others, own.created));
        (own, admitted)
    }))
}
