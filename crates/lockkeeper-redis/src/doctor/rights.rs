//! Checks whether this user has the rights that locks need, and shows the access rule.

use std::time::Duration;

use lockkeeper_core::kit::{fail, warn};
use lockkeeper_redis_client::refused::{self, refused_by};
use lockkeeper_redis_client::rights::{is_refusal, needed};

use super::super::rights::{INSIDE, TRIED};
use super::super::setup::{Deployment, Setup};
use super::super::{RedisStore, fault};
use crate::store::Finding;
use crate::wire::{Link, Request, WireError};
use crate::{LockName, Result};

/// The access rule with the rights that a user needs, and no others. `shards`: messages go to the
/// shards of a cluster.
pub(super) fn rule(setup: &Setup, shards: bool) -> String {
    refused::rule(setup, &INSIDE, shards, "~lk:* &lk:*")
}

/// The access rule of a user of the Sentinels, if they have users.
pub(super) const SENTINEL_RULE: &str = "ACL SETUSER NAME reset resetchannels on >PASSWORD \
    &+switch-master &+promoted-slave +info +ping +subscribe +sentinel|get-master-addr-by-name +sentinel|master";

/// Adds the rule to `refused` if the store could not be opened because of a missing right.
pub(super) fn show(refused: &mut Finding, setup: &Setup) {
    if refused.finding.contains("NOPERM") {
        let rule = match refused.finding.contains("'sentinel") {
            true => SENTINEL_RULE.to_owned(),
            false => rule(setup, setup.topology == Deployment::Cluster),
        };
        *refused = Finding::fail("rights", refused.finding.as_str(), rule);
    }
}

/// Tries all commands on each server. Returns what the first refusing server refuses.
pub(super) async fn refused(
    store: &RedisStore,
    setup: &Setup,
    prefix: &str,
    within: Duration,
) -> Result<Option<Finding>> {
    let (masters, shards) = (store.0.servers.masters(), store.0.servers.shards());
    let needed = needed(setup, &INSIDE, shards);
    let name = LockName::new(&format!("{prefix}lockkeeper-doctor"))?;
    let key = format!("lk:{{{}}}:rights", name.encoded());
    for link in &masters {
        if let Some(refused) = refused_by(link, &needed, TRIED.at(&key), within).await? {
            return Ok(Some(fail(refused, rule(setup, shards))));
        }
    }
    for link in &masters {
        if let Some(refused) = refused_session(link).await? {
            let finding =
                format!("this user may do all that locks need, but may not detach them: {refused}");
            return Ok(Some(warn(finding, fault::right_to_sessions())));
        }
    }
    Ok(None)
}

/// How the server refuses the keys of detached sessions. The tried key does not exist, so `SET …
/// XX` sets nothing.
async fn refused_session(link: &Link) -> Result<Option<String>> {
    let set = Request::command(&[b"SET", b"lk:s:{lockkeeper-doctor}", b"", b"XX", b"PX", b"1000"]);
    match link.send(set).await {
        Err(WireError::Server { code, message, .. }) if is_refusal(&code, &message) => {
            Ok(Some(format!("{} refuses the keys lk:s:{{*: {code} {message}", link.endpoint())))
        }
        // As above, any other error comes after the check of the rights.
        Ok(_) | Err(WireError::Server { .. }) => Ok(None),
        Err(broken) => Err(fault::of(broken)),
    }
}
