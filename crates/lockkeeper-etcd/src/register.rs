//! Registers on etcd: the optimistic counterpart of the locks.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use serde::{Deserialize, Serialize};

use crate::layout::transaction::{changed, get, only, put, ranges, transaction};
use crate::registers::{
    Register, Swap, Version, Versioned, Write, WriterId, check_key, check_write,
};
use crate::wire::messages::{KeyValue, TxnResponse};
use crate::{Error, ErrorKind, EtcdStore, Result, fault};

/// Registers on etcd. A write is kept as long as a majority of the members keeps its data.
///
/// A write compares the mod revision of the key. So it also notices a client that has changed the
/// key by other means.
#[derive(Clone)]
pub struct EtcdRegister(EtcdStore);

impl EtcdStore {
    /// The registers in this etcd. They are separate from its locks: the same text may be the key
    /// of a register and the name of a lock.
    ///
    /// ```no_run
    /// use lockkeeper::EtcdStore;
    /// use lockkeeper::optimistic::update;
    ///
    /// # async fn f() -> lockkeeper::Result<()> {
    /// let register = EtcdStore::new(["10.0.0.5"]).connect().await?.register();
    /// let home = update(&register, "page/home", async |_| b"hello".to_vec()).await?;
    /// # drop(home);
    /// # Ok(())
    /// # }
    /// ```
    pub fn register(&self) -> EtcdRegister {
        EtcdRegister(self.clone())
    }
}

/// The value of a register's key.
#[derive(Serialize, Deserialize)]
struct Kept {
    version: u64,
    /// In hex, newest first.
    writers: Vec<String>,
    /// In base64.
    value: String,
}

impl Kept {
    fn of(versioned: &Versioned) -> Self {
        Self {
            version: versioned.version.get(),
            writers: versioned
                .writers
                .iter()
                .map(|writer| HEXLOWER.encode(writer.as_bytes()))
                .collect(),
            value: BASE64.encode(&versioned.value),
        }
    }

    fn read(kv: &KeyValue) -> Option<Versioned> {
        let kept: Self = serde_json::from_slice(&kv.value).ok()?;
        let writer = |hex: &String| {
            Some(WriterId::from_bytes(HEXLOWER.decode(hex.as_bytes()).ok()?.try_into().ok()?))
        };
        let writers = kept.writers.iter().map(writer).collect::<Option<_>>()?;
        Some(Versioned::new(
            Version::new(kept.version),
            BASE64.decode(kept.value.as_bytes()).ok()?,
            writers,
        ))
    }
}

impl EtcdRegister {
    async fn read(&self, at: &Bytes) -> Result<(i64, Option<Versioned>)> {
        self.0.check_process()?;
        read(self.0.read(at).await?)
    }
}

fn read(found: Option<KeyValue>) -> Result<(i64, Option<Versioned>)> {
    let Some(kv) = found else { return Ok((0, None)) };
    match Kept::read(&kv) {
        Some(versioned) => Ok((kv.mod_revision, Some(versioned))),
        None => Err(Error::new(
            ErrorKind::Internal,
            "the value of this key is not a register of lockkeeper",
        )
        .with_remedy("use another key, or remove this one")),
    }
}

impl fmt::Display for EtcdRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for EtcdRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtcdRegister({self})")
    }
}

#[async_trait]
impl Register for EtcdRegister {
    async fn load(&self, key: &str) -> Result<Option<Versioned>> {
        check_key(key)?;
        Ok(self.read(&self.0.0.lines.register(key)).await?.1)
    }

    async fn compare_and_swap(&self, key: &str, write: &Write) -> Result<Swap> {
        check_write(key, write)?;
        let at = self.0.0.lines.register(key);
        let (revision, current) = self.read(&at).await?;
        if Version::of(current.as_ref()) != write.expected() {
            return Ok(Swap::Conflict(current));
        }
        let kept = Kept::of(&Versioned::after(current.as_ref(), write));
        // Nothing in it can fail to be written.
        let value = Bytes::from(serde_json::to_vec(&kept).unwrap_or_default());
        let request =
            transaction(vec![changed(&at, revision)], vec![put(&at, value, 0)], vec![get(&at)]);
        let answer: TxnResponse =
            self.0.0.calls.ask("/etcdserverpb.KV/Txn", request).await.map_err(fault::of)?;
        if answer.succeeded {
            return Ok(Swap::Done);
        }
        Ok(Swap::Conflict(read(only(ranges(answer.responses).next()))?.1))
    }
}
