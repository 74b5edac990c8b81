//! What a server refuses to this user, found by requests without a visible effect.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::rights::{Needed, Place, is_refusal, needed, request};
use crate::setup::Setup;
use crate::time::Clock;
use crate::wire::{Link, Listener, Request, WireError, listed};
use crate::{Error, ErrorKind, Result, fault};

/// The access rule with the rights that a user needs, and no others: to the commands of the scripts
/// (`inside`), and to these `keys` and channels. `shards`: messages go to the shards of a cluster.
pub fn rule(setup: &Setup, inside: &[Needed], shards: bool, keys: &str) -> String {
    let words: Vec<_> =
        needed(setup, inside, shards).iter().map(|(word, _)| format!("+{word}")).collect();
    format!("ACL SETUSER NAME reset resetchannels on >PASSWORD {keys} {}", words.join(" "))
}

/// Which commands a server refuses, and in which words.
///
/// # Errors
/// If the server does not answer.
pub async fn refused_by(
    link: &Link,
    needed: &[Needed],
    place: Place<'_>,
    within: Duration,
) -> Result<Option<String>> {
    let tried: Vec<_> = needed.iter().filter(|(_, words)| !words.is_empty()).collect();
    let asked: Vec<_> = tried.iter().map(|(_, words)| link.send(request(words, place))).collect();
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
            "subscribe" | "ssubscribe" => {
                may_listen(link, place.channel, *word == "ssubscribe", within).await?
            }
            word => may_leave(link, place.channel, word).await?,
        };
        if !may {
            let command = word.to_uppercase();
            how.get_or_insert(format!("{command} {} is refused", place.channel));
            refused.push(command);
        }
    }
    Ok(how.map(|how| format!("{} refuses {}: {how}", link.endpoint(), listed(&refused))))
}

/// Whether this user may subscribe. Messages wake the waiters.
async fn may_listen(link: &Link, channel: &str, sharded: bool, within: Duration) -> Result<bool> {
    let (sender, mut receiver) = watch::channel(None);
    let probe = link.beside(Arc::new(SubscriptionProbe(sender)));
    probe.subscribe(channel.as_bytes().to_vec(), sharded);
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
async fn may_leave(link: &Link, channel: &str, word: &str) -> Result<bool> {
    let own = link.alone().await.map_err(fault::of)?;
    let request = Request::command(&[word.as_bytes(), channel.as_bytes()]);
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
