//! ID: the id of the store, which has a key of its own.

use lockkeeper_redis_client::fault::foreign_id;
use redis::Value;

use super::bytes::bulk;
use super::scripts;
use crate::Result;
use crate::random;
use crate::store::StoreId;
use crate::wire::Request;

/// The key of the id. It has no hash tag, so in a cluster its slot is that of the whole key.
pub(crate) const ID_KEY: &str = "lk:id";

/// A key of the same slot, which `WAIT` needs: see `replicas.rs`.
pub(crate) const ID_MARK: &str = "lk:id:{lk:id}:r";

/// How the value begins if lockkeeper has written it.
const OURS: &[u8] = b"lockkeeper-store:";

/// Asks for the id, and makes it if there is none.
pub(crate) fn id() -> Request {
    Request::eval(&scripts::ID, &[ID_KEY.as_bytes()], &[&random::bits128()])
}

pub(crate) fn id_answer(value: &Value) -> Result<StoreId> {
    let stored = bulk(value, "ID")?;
    let id = stored.strip_prefix(OURS).and_then(StoreId::read);
    id.ok_or_else(|| foreign_id(ID_KEY, &format!("a string of {} bytes", stored.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::layout::slot;

    #[test]
    fn what_others_have_written_is_no_id() {
        let id = StoreId::random();
        let answer = |text: &str| id_answer(&Value::BulkString(text.into()));
        assert_eq!(answer(&format!("lockkeeper-store:{id}")).unwrap(), id);
        for other in [
            id.to_string(),
            "lockkeeper-store:".to_owned(),
            format!("lockkeeper-store:{id}0"),
            String::new(),
        ] {
            let error = answer(&other).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(
                error.to_string().contains("lk:id holds something that lockkeeper has not written"),
                "{error}"
            );
        }
        assert_eq!(id_answer(&Value::Int(1)).unwrap_err().kind(), ErrorKind::Internal);
    }

    /// `CLUSTER KEYSLOT lk:id`
    #[test]
    fn it_has_one_slot() {
        assert_eq!(slot(ID_KEY.as_bytes()), SLOT);
        let tag = ID_MARK.split(['{', '}']).nth(1).unwrap();
        assert_eq!(slot(tag.as_bytes()), SLOT);
    }

    const SLOT: u16 = 2766;
}
