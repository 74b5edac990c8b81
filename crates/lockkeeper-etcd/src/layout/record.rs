//! The value of a claim: JSON, so that `etcdctl get --prefix` shows which client holds which lock.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use serde::{Deserialize, Serialize};

use super::{millis, unix_ms};
use crate::store::{Asked, Broken, Claim, ClaimId, MAX, Meta};

/// What a claim shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The version of the layout. No other value begins with this field.
    lockkeeper: u8,
    /// The claim, in hex.
    id: String,
    #[serde(default = "max", skip_serializing_if = "is_max")]
    pub(crate) weight: u32,
    #[serde(default = "max", skip_serializing_if = "is_max")]
    pub(crate) capacity: u32,
    owner: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Arc<str>>,
    /// In base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(default, skip_serializing_if = "is_none")]
    epoch: u16,
    /// How long the claim lives after its last renewal, lock-delay included.
    lease_ms: u64,
    /// How much of `lease_ms` is the lock-delay.
    #[serde(default, skip_serializing_if = "is_zero")]
    delay_ms: u64,
    /// The number of the last change of the claim.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) change: u64,
    /// The client that has sent the claim last. Its notification key reports changes of the claim.
    pub(crate) client: Arc<str>,
    /// The name of the lock, if the key has only its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    broken: Option<Words>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keep: Option<Keep>,
    /// When the claim was made, by the clock of its client's machine, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asked_ms: Option<u64>,
    /// Since when the claim holds, if that is written already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) held_ms: Option<u64>,
}

/// The minimum hold of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Keep {
    /// The timer of the minimum hold: a lease that no client renews.
    pub(crate) lease: i64,
    /// When the minimum hold is over by the clock of the holder's machine, in milliseconds since
    /// 1970.
    pub(crate) until_ms: u64,
    /// How often etcd had begun to choose a leader when the record was written; 0 if not known.
    /// Only another leader lengthens the lease.
    #[serde(default)]
    pub(crate) term: u64,
    /// The holder has let go.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) released: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Words {
    by: Arc<str>,
    reason: Arc<str>,
    /// Removed at once, and not marked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    removed: bool,
}

/// The value of a client's notification key: it names a claim of this client, and what an operator
/// did to the claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    /// The claim, in hex.
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    broken: Option<Words>,
    /// An operator asks the holder to let go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked: Option<Words>,
    /// Another client has sent the claim, and receives its wake-ups from now on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    elsewhere: bool,
}

/// What a notice says of its claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    /// The claim was marked or removed, with the reason if there is one.
    Lost(Option<Broken>),
    /// An operator asks the holder to let go.
    Asked(Asked),
    /// Another client receives its wake-ups from now on.
    Elsewhere,
}

impl Record {
    /// What a claim of this client shows.
    pub(crate) fn of(claim: &Claim, client: &Arc<str>) -> Self {
        let name = &claim.key.name;
        let mut record = Self {
            lockkeeper: 1,
            id: HEXLOWER.encode(claim.key.id.as_bytes()),
            weight: claim.weight,
            capacity: claim.capacity,
            owner: Arc::default(),
            reason: None,
            value: None,
            epoch: 0,
            lease_ms: millis(claim.ttl + claim.lock_delay),
            delay_ms: millis(claim.lock_delay),
            change: 0,
            client: Arc::clone(client),
            name: name.encoded().starts_with("h.").then(|| name.to_string()),
            broken: None,
            keep: None,
            asked_ms: Some(unix_ms()),
            held_ms: None,
        };
        record.show(&claim.meta);
        record
    }

    /// The value of the key.
    pub(crate) fn written(&self) -> Bytes {
        // No field can fail to be written.
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    /// `None` for the value of another program.
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        let begins_as_ours = value.starts_with(b"{\"lockkeeper\":1,");
        begins_as_ours.then(|| serde_json::from_slice(value).ok()).flatten()
    }

    pub(crate) fn show(&mut self, meta: &Meta) {
        self.owner = Arc::clone(&meta.owner);
        self.reason.clone_from(&meta.reason);
        self.value = meta.value.as_deref().map(|value| BASE64.encode(value));
        self.epoch = meta.epoch;
    }

    pub(crate) fn meta(&self) -> Meta {
        let value = self.value.as_ref().and_then(|value| BASE64.decode(value.as_bytes()).ok());
        Meta {
            owner: Arc::clone(&self.owner),
            reason: self.reason.clone(),
            value: value.map(Arc::from),
            epoch: self.epoch,
        }
    }

    /// The claim, in hex.
    pub(crate) fn hex(&self) -> &str {
        &self.id
    }

    pub(crate) fn id(&self) -> Option<ClaimId> {
        HEXLOWER.decode(self.id.as_bytes()).ok()?.try_into().ok().map(ClaimId::from_bytes)
    }

    pub(crate) fn lease_time(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// The ttl that the claim asked for.
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_millis(self.lease_ms.saturating_sub(self.delay_ms))
    }

    pub(crate) fn broken(&self) -> Option<Broken> {
        self.broken.as_ref().map(Words::read)
    }

    pub(crate) fn mark(&mut self, by: &str, reason: &str) {
        self.broken = Some(Words { by: by.into(), reason: reason.into(), removed: false });
    }
}

impl Notice {
    pub(crate) fn new(id: String, by: &str, reason: &str, removed: bool) -> Self {
        Self {
            id,
            broken: Some(Words { by: by.into(), reason: reason.into(), removed }),
            asked: None,
            elsewhere: false,
        }
    }

    pub(crate) fn asking(id: String, by: &str, reason: &str) -> Self {
        let asked = Some(Words { by: by.into(), reason: reason.into(), removed: false });
        Self { id, broken: None, asked, elsewhere: false }
    }

    pub(crate) fn elsewhere(id: String) -> Self {
        Self { id, broken: None, asked: None, elsewhere: true }
    }

    pub(crate) fn written(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    /// The claim that the notice names, and what the notice says.
    pub(crate) fn read(value: &[u8]) -> Option<(ClaimId, NoticeKind)> {
        let notice: Self = serde_json::from_slice(value).ok()?;
        let id =
            HEXLOWER.decode(notice.id.as_bytes()).ok()?.try_into().ok().map(ClaimId::from_bytes)?;
        let kind = match notice.asked {
            None if notice.elsewhere => NoticeKind::Elsewhere,
            Some(Words { by, reason, .. }) => NoticeKind::Asked(Asked { by, reason }),
            None => NoticeKind::Lost(notice.broken.as_ref().map(Words::read)),
        };
        Some((id, kind))
    }
}

impl Words {
    fn read(&self) -> Broken {
        Broken { by: Arc::clone(&self.by), reason: Arc::clone(&self.reason), removed: self.removed }
    }
}

fn max() -> u32 {
    MAX
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_max(weight: &u32) -> bool {
    *weight == MAX
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(epoch: &u16) -> bool {
    *epoch == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_says_whether_a_claim_was_marked_or_removed() {
        for removed in [false, true] {
            let notice = Notice::new("07".repeat(16), "op", "stuck", removed).written();
            let broken = Broken { by: "op".into(), reason: "stuck".into(), removed };
            assert_eq!(
                Notice::read(&notice),
                Some((ClaimId::from_bytes([7; 16]), NoticeKind::Lost(Some(broken))))
            );
        }
    }

    #[test]
    fn a_notice_that_asks_for_a_claim_does_not_end_it() {
        let notice = Notice::asking("07".repeat(16), "op", "a deploy").written();
        let asked = Asked { by: "op".into(), reason: "a deploy".into() };
        assert_eq!(
            Notice::read(&notice),
            Some((ClaimId::from_bytes([7; 16]), NoticeKind::Asked(asked)))
        );
    }
}
