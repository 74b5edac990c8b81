//! Checks whether this user has the rights that locks need, and shows the access rule.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::kit::{fail, warn};
use tokio::sync::watch;

use lockkeeper_redis_client::rights::{CHANNEL, Needed, is_refusal, needed, request};

use super::super::rights::INSIDE;
use super::super::setup::{Deployment, Setup};
use super::super::{RedisStore, fault};
use crate::store::Finding;
use crate::time::Clock;
use crate::wire::{Link, Listener, Request, WireError, listed};
use crate::{Error, ErrorKind, LockName, Result};

/// The access rule with the rights that a user needs, and no others. `shards`: messages go to the
/// shards of a cluster.
pub(super) fn rule(setup: &Setup, shards: bool) -> String {
    let words: Vec<_> =
        needed(setup, &INSIDE, shards).iter().map(|(word, _)| format!("+{word}")).collect();
    format!("ACL SETUSER NAME reset resetchannels on >PASSWORD ~lk:* &lk:* {}", words.join(" "))
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
    for link in &masters {
        if let Some(refused) = refused_by(link, &needed, prefix, within).await? {
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

/// Which commands the server refuses, and in which words.
async fn refused_by(
    link: &Link,
    needed: &[Needed],
    prefix: &str,
    within: Duration,
) -> Result<Option<String>> {
    let key = format!(
        "lk:{{{}}}:rights",
        LockName::new(&format!("{prefix}lockkeeper-doctor"))?.encoded()
    );
    let tried: Vec<_> = needed.iter().filter(|(_, words)| !words.is_empty()).collect();
    let asked: Vec<_> = tried.iter().map(|(_, words)| link.send(request(words, &key))).collect();
    let (mut refused, mut how) = (Vec::new(), None);
    for ((word, _), answer) in tried.into_iter().zip(asked) {
        match answer.await {
            Err(WireError::Server { code, message, .. }) if is_refusal(&code, &message) => {
                refused.push(word.replace('|', " ").to_uppercase());
                how.get_or_insert(format!("{code} {message}"));
            }
            // Any other error comes after the check of the rights.
            Ok(_) | Err(WireError::Server { .. }) => {}
            Err(broken) => return Err(fault::of(broken)),
        }
    }
    for (word, _) in needed.iter().filter(|(word, words)| words.is_empty() && *word != "select") {
        let may = match *word {
            "subscribe" | "ssubscribe" => may_listen(link, *word == "ssubscribe", within).await?,
            word => may_leave(link, word).await?,
        };
        if !may {
            let command = word.to_uppercase();
            how.get_or_insert(format!("{command} {CHANNEL} is refused"));
            refused.push(command);
        }
    }
    Ok(how.map(|how| format!("{} refuses {}: {how}", link.endpoint(), listed(&refused))))
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

/// Whether this user may subscribe. Messages wake the waiters.
async fn may_listen(link: &Link, sharded: bool, within: Duration) -> Result<bool> {
    let (sender, mut receiver) = watch::channel(None);
    let probe = link.beside(Arc::new(SubscriptionProbe(sender)));
    probe.subscribe(CHANNEL.as_bytes().to_vec(), sharded);
    match Clock::boot().timeout(within, receiver.wait_for(Option::is_some)).await {
        Some(Ok(stands)) => Ok(*stands == Some(true)),
        _ => Err(Error::new(
            ErrorKind::Unavailable,
            format!("{} does not answer SUBSCRIBE", link.endpoint()),
        )
        .with_remedy(
            "check the proxy or firewall before the server: connections for messages stay open",
        )),
    }
}

/// Whether this user may end a subscription. If a push has the answer, the first reply is that of
/// the `PING` behind it.
async fn may_leave(link: &Link, word: &str) -> Result<bool> {
    let own = link.alone().await.map_err(fault::of)?;
    let request = Request::command(&[word.as_bytes(), CHANNEL.as_bytes()]);
    let [answer, _] = own.send_all([request, Request::command(&[b"PING"])]);
    match answer.await {
        Err(WireError::Server { code, message, .. }) => Ok(!is_refusal(&code, &message)),
        Ok(_) => Ok(true),
        Err(broken) => Err(fault::of(broken)),
    }
}

/// Reports whether a subscription is allowed.
#[derive(Debug)]
struct SubscriptionProbe(watch::Sender<Option<bool>>);

impl Listener for SubscriptionProbe {
    fn pushed(&self, _channel: &[u8], _payload: &[u8]) {}

    fn subscribed(&self, _channel: &[u8]) {
        self.0.send_replace(Some(true));
    }

    /// The slot is at another node. The server checks the rights before it says so.
    fn unsubscribed(&self, channel: &[u8]) {
        self.subscribed(channel);
    }

    fn refused(&self, _channel: &[u8]) {
        self.0.send_replace(Some(false));
    }
}
