//! The id of the store: a key beside the lines, which the first client that asks puts there.

use bytes::Bytes;

use crate::layout::transaction::{absent, get, only, put, ranges, transaction};
use crate::store::StoreId;
use crate::wire::messages::TxnResponse;
use crate::{Error, ErrorKind, EtcdStore, Result, fault};

/// What the value begins with if lockkeeper has written it.
const OURS: &str = "lockkeeper-store:";

pub(crate) async fn id(store: &EtcdStore) -> Result<StoreId> {
    let key = store.0.lines.id();
    let new = format!("{OURS}{}", StoreId::random());
    let request =
        transaction(vec![absent(&key)], vec![put(&key, new.clone().into(), 0)], vec![get(&key)]);
    let asked = store.0.calls.ask("/etcdserverpb.KV/Txn", request).await;
    let answer: TxnResponse = asked.map_err(fault::of)?;
    let (value, made) = match only(ranges(answer.responses).next()) {
        Some(there) => (there.value, there.create_revision),
        None => (Bytes::from(new), answer.header.map_or(0, |header| header.revision)),
    };
    let written =
        value.strip_prefix(OURS.as_bytes()).and_then(StoreId::read).ok_or_else(|| foreign(&key))?;
    Ok(of(written, made, store.0.lines.part()))
}

/// The id of the store: it has the create revision of the key too. So a late copy of the request
/// makes another id if an operator has wiped the data meanwhile. Lines that share the key with
/// other lines have ids of their own.
fn of(written: StoreId, made: i64, part: Option<String>) -> StoreId {
    let id = written.of_part(made.to_be_bytes());
    part.map_or(id, |part| id.of_part(part))
}

fn foreign(key: &Bytes) -> Error {
    let key = String::from_utf8_lossy(key);
    Error::new(
        ErrorKind::Unsupported,
        format!("the key {key} holds something that lockkeeper has not written"),
    )
    .with_remedy(format!(
        "etcdctl get {key}, and etcdctl del of it if nobody needs it; or another path"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_copy_of_the_request_that_made_the_id_makes_another_one_in_wiped_data() {
        let written = StoreId::random();
        assert_ne!(of(written, 5, None), of(written, 9, None));
        assert_ne!(of(written, 5, None), of(written, 5, Some("concurrency ".to_owned())));
        assert_eq!(of(written, 5, None), of(written, 5, None));
    }
}
