//! Changing what a claim shows or takes, in place: etcd keeps the create revision of a key that is
//! put again, and so the claim keeps its token and its place in line. The transaction compares the
//! mod revision that was read, so that it never overwrites a change that came in between.

use crate::layout::transaction::{changed, rewrite, transaction};
use crate::store::{Amend, Amended, ClaimKey};
use crate::{EtcdStore, Result, fault, keep};

/// How often a change is tried because something else changes the claim meanwhile.
const TRIES: u32 = 16;

pub(super) async fn amend(
    store: &EtcdStore,
    key: &ClaimKey,
    number: u64,
    change: &Amend,
) -> Result<Amended> {
    for _ in 0..TRIES {
        let Some((own, admitted)) = store.look_at_own(key).await? else {
            return Ok(Amended::NotLive);
        };
        let Some(mut record) = own.record.clone() else { return Ok(Amended::NotLive) };
        // A claim that is marked as broken holds until its lease ends.
        match change {
            Amend::Lower(_) if !admitted => return Ok(Amended::NotLive),
            Amend::MinHold(hold) => return keep::begin(store, key, number, *hold).await,
            _ => {}
        }
        if let Some(amended) = Amended::of_number(number, record.change) {
            return Ok(amended);
        }
        record.change = number;
        match change {
            Amend::Lower(weight) => record.weight = record.weight.min(*weight),
            Amend::MinHold(_) => {}
            Amend::Meta(meta) => record.show(meta),
            Amend::Value(value) => {
                let mut meta = record.meta();
                meta.value = Some(value.clone());
                record.show(&meta);
            }
        }
        let value = record.written();
        let request = transaction(
            vec![changed(&own.key, own.changed)],
            vec![rewrite(&own.key, value)],
            Vec::new(),
        );
        if store.txn(request).await.map_err(fault::of)?.succeeded {
            store.session(&key.session).await?.claims.shows(key.id, record);
            return Ok(Amended::Done);
        }
    }
    Err(fault::always_changes())
}
