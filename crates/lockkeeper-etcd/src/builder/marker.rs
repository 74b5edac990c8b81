//! The marker of a prefix names the layout of its claims. A claim of one layout does not exclude a
//! claim of another one. So a client does not work where a claim of another layout is alive.

use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::checks::{Check, refused};
use crate::layout::transaction::{absent, get, only, put, ranges, transaction};
use crate::layout::{Layout, Record};
use crate::wire::messages::{KeyValue, TxnResponse};
use crate::{EtcdStore, Result, fault};

/// The layout in which no key but claims can be in a line, and a claim has the number of its last
/// change.
const LAYOUT: &[u8] = b"4";

impl EtcdStore {
    /// Refuses a prefix with claims of another layout.
    pub(crate) async fn check_layout(&self) -> Result<()> {
        if self.0.lines.layout != Layout::Native || self.0.waived.contains(&Check::Layout) {
            return Ok(());
        }
        match self.read(&self.0.lines.marker()).await? {
            Some(marker) => self.is_ours(&marker),
            None => match self.old_claim().await? {
                Some(key) => Err(refused(
                    format!(
                        "older lockkeepers hold locks there or wait for some, as in {}",
                        folder(&key)
                    ),
                    Check::Layout,
                    "end them all; their locks end with their leases",
                )),
                None => Ok(()),
            },
        }
    }

    /// Puts the marker, before the first claim of this client.
    pub(crate) async fn mark_layout(&self) -> Result<()> {
        if self.0.lines.layout != Layout::Native || self.0.is_marked.load(Ordering::Acquire) {
            return Ok(());
        }
        self.check_layout().await?;
        let marker = self.0.lines.marker();
        let marking = vec![put(&marker, Bytes::from_static(LAYOUT), 0)];
        let request = transaction(vec![absent(&marker)], marking, vec![get(&marker)]);
        let asked = self.txn(request).await;
        let answer: TxnResponse = asked.map_err(|error| fault::of(error).without_effect())?;
        if let Some(marker) = only(ranges(answer.responses).next()) {
            self.is_ours(&marker)?;
        }
        self.0.is_marked.store(true, Ordering::Release);
        Ok(())
    }

    fn is_ours(&self, marker: &KeyValue) -> Result<()> {
        if marker.value == LAYOUT || self.0.waived.contains(&Check::Layout) {
            return Ok(());
        }
        let (at, layout) =
            (String::from_utf8_lossy(&marker.key), String::from_utf8_lossy(&marker.value));
        let problem = format!(
            "{at} says that locks have the layout {layout:?} there, which is none of this lockkeeper"
        );
        Err(refused(problem, Check::Layout, "the lockkeeper of the others, or another path"))
    }

    /// A claim of the first layout that is alive.
    pub(crate) async fn old_claim(&self) -> Result<Option<Bytes>> {
        let mut keys = self.keys(&self.0.lines.everything()).await?;
        keys.retain(|kv| kv.lease != 0 && self.0.lines.is_old_claim(&kv.key));
        for KeyValue { key, .. } in keys {
            // Another program may have a key that looks like a claim.
            if self.read(&key).await?.is_some_and(|kv| Record::read(&kv.value).is_some()) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}

/// The part of a key that may be shown: its last part may name a lease, which is a secret.
pub(crate) fn folder(key: &Bytes) -> String {
    let end = key.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    String::from_utf8_lossy(&key[..end]).into_owned()
}
