//! The record of a detached session, for clients that have not opened the session.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Layout;
use crate::store::{SessionId, SessionSpec};

/// The durations of a session: JSON, as the value of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct SessionRecord {
    /// The version of the layout.
    lockkeeper: u8,
    ttl_us: u64,
    wait_ttl_us: u64,
    lock_delay_us: u64,
}

impl SessionRecord {
    pub(in super::super) fn of(spec: &SessionSpec) -> Self {
        let [ttl_us, wait_ttl_us, lock_delay_us] =
            [spec.ttl, spec.wait_ttl, spec.lock_delay].map(micros);
        Self { lockkeeper: 1, ttl_us, wait_ttl_us, lock_delay_us }
    }

    pub(in super::super) fn written(&self) -> Bytes {
        // No field can fail to be written.
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    /// The durations of the session; `None` for a value that lockkeeper has not written.
    pub(in super::super) fn read(value: &[u8]) -> Option<SessionSpec> {
        let record: Self =
            serde_json::from_slice(value).ok().filter(|record: &Self| record.lockkeeper == 1)?;
        let [ttl, wait_ttl, lock_delay] =
            [record.ttl_us, record.wait_ttl_us, record.lock_delay_us].map(Duration::from_micros);
        Some(SessionSpec { ttl, wait_ttl, lock_delay, detached: true })
    }
}

/// The first lease of a session: a hash of its id, so that each client finds the lease, and a
/// reader of the lease does not know the id. The hash is also one of where the store keeps its
/// lines: the same id in another layout, or below another prefix, is another session.
pub(super) fn lease_of(layout: Layout, prefix: &str, id: &SessionId) -> i64 {
    let store = format!("lockkeeper session\0{}\0{prefix}\0", layout.name());
    let hash = Sha256::new_with_prefix(store).chain_update(id.as_str()).finalize();
    let mut bits = [0; 8];
    bits.copy_from_slice(&hash[..8]);
    (i64::from_be_bytes(bits) & i64::MAX).max(1)
}

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_read_as_it_was_written_and_nothing_else_is_read() {
        let spec = SessionSpec {
            wait_ttl: Duration::from_millis(1500),
            detached: true,
            ..SessionSpec::new(Duration::from_secs(30), Duration::from_micros(7))
        };
        assert_eq!(SessionRecord::read(&SessionRecord::of(&spec).written()), Some(spec));
        for foreign in
            ["", "{}", "7", r#"{"lockkeeper":2,"ttl_us":1,"wait_ttl_us":1,"lock_delay_us":1}"#]
        {
            assert_eq!(SessionRecord::read(foreign.as_bytes()), None, "{foreign}");
        }
    }

    #[test]
    fn the_lease_of_a_session_is_its_own_and_does_not_show_its_id() {
        let ids = ["7b", "7c", ""].map(SessionId::new);
        let leases = ids.clone().map(|id| lease_of(Layout::Native, "/a", &id));
        assert!(leases[0] != leases[1] && leases.iter().all(|lease| *lease > 0), "{leases:?}");
        assert_eq!(leases, ids.clone().map(|id| lease_of(Layout::Native, "/a", &id)));
        assert_ne!(leases[0], 0x7b);
        for (layout, prefix) in [(Layout::Native, "/b"), (Layout::Concurrency, "/a")] {
            assert_ne!(lease_of(layout, prefix, &ids[0]), leases[0], "{layout:?} {prefix}");
        }
    }
}
