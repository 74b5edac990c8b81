//! Keys in the lines of locks that are no claims, and claims where older versions had them.

use lockkeeper_core::kit::warn;

use crate::builder::folder;
use crate::layout::Layout;
use crate::store::Finding;
use crate::wire::messages::KeyValue;
use crate::{EtcdStore, Result};

/// The report names so many keys.
const MOST: usize = 3;

/// What is wrong with the keys below this prefix. In the other layout, other programs may have any
/// keys there, so nothing is wrong.
pub(super) async fn found(store: &EtcdStore) -> Result<Vec<Finding>> {
    let lines = &store.0.lines;
    if lines.layout != Layout::Native {
        return Ok(Vec::new());
    }
    let mut keys = store.keys(&lines.beginning_with("")).await?;
    keys.retain(|kv| lines.is_stray(&kv.key, kv.lease));
    let old = store.old_claim().await?.map(|old| {
        let finding = format!(
            "an older lockkeeper is at work in {}: its locks are not seen here",
            folder(&old)
        );
        warn(finding, "end all clients of the older version")
    });
    Ok(strays(&keys).into_iter().chain(old).collect())
}

fn strays(keys: &[KeyValue]) -> Option<Finding> {
    let named: Vec<_> = keys.iter().take(MOST).map(|kv| String::from_utf8_lossy(&kv.key)).collect();
    let more =
        if keys.len() > MOST { format!(" and {} more", keys.len() - MOST) } else { String::new() };
    let finding =
        format!("keys that are no claims are in the way of locks: {}{more}", named.join(", "));
    (!keys.is_empty()).then(|| warn(finding, "etcdctl del KEY for each of them"))
}
