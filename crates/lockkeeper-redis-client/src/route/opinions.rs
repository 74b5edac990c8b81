//! Asks the sentinels, until enough of them have answered.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use redis::Value;

use super::master::Opinion;
use crate::time::Clock;
use crate::wire::{Endpoint, Link, Request, Who, WireError, text};

/// After this time the client waits for the other sentinels only if too few have answered.
const GRACE: Duration = Duration::from_millis(250);

/// The answers of the sentinels.
#[derive(Debug, Default)]
pub(super) struct Opinions {
    pub(super) said: Vec<Opinion>,
    /// How many sentinels there are, by the one that knows most.
    known: usize,
    /// The sentinels without an opinion, and why they have none.
    silent: Vec<(Endpoint, WireError)>,
}

impl Opinions {
    /// Whether these opinions cannot all come from sentinels that are cut off from the others: they
    /// are as many as a switch needs, or all `named` ones, if the client knows fewer.
    pub(super) fn are_enough(&self, named: usize) -> bool {
        let majority = |all: usize| all / 2 + 1;
        self.said.len() >= majority(named).max(majority(self.known)).min(named)
    }

    /// Why these opinions are not enough to believe in a master.
    pub(super) fn lack(self, named: usize) -> WireError {
        let (count, is_none) = (self.said.len(), self.said.is_empty());
        let mut silent = self.silent.into_iter();
        match silent.next() {
            // A server that does not know the command is no Sentinel.
            Some((at, why)) if is_none && why.is_unknown_command() => why.said_by(Who::Server(at)),
            Some((at, why)) if is_none => why.said_by(Who::Sentinel(at)),
            None => WireError::NotSent("there are no sentinels".to_owned()),
            Some(first) => {
                let others: Vec<_> = std::iter::once(first)
                    .chain(silent)
                    .map(|(who, why)| format!("{who} ({why})"))
                    .collect();
                WireError::NotSent(format!(
                    "{count} of {named} Sentinels have named a master, which are too few to believe them; the others: {}",
                    others.join(", ")
                ))
            }
        }
    }

    fn take(&mut self, who: &Link, said: Result<(Opinion, usize), WireError>) {
        match said {
            Ok((opinion, known)) => {
                self.said.push(opinion);
                self.known = self.known.max(known);
            }
            Err(why) => self.silent.push((who.endpoint().clone(), why)),
        }
    }
}

/// Asks all sentinels, and adds each answer to `opinions` as it comes. Ends when all have answered
/// or failed, or, after [`GRACE`], when `is_enough` holds.
pub(super) async fn ask(
    sentinels: &[Link],
    master: &str,
    opinions: &mut Opinions,
    is_enough: impl Fn(&Opinions) -> bool,
) {
    let one = |sentinel| (sentinel, Box::pin(opinion(sentinel, master)));
    let mut asked: Vec<_> = sentinels.iter().map(one).collect();
    let clock = Clock::boot();
    let mut grace = pin!(clock.sleep(GRACE));
    let mut is_late = false;
    std::future::poll_fn(|cx| {
        asked.retain_mut(|(sentinel, asked)| match asked.as_mut().poll(cx) {
            Poll::Ready(said) => {
                opinions.take(sentinel, said);
                false
            }
            Poll::Pending => true,
        });
        is_late = is_late || grace.as_mut().poll(cx).is_ready();
        if asked.is_empty() || (is_late && is_enough(opinions)) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// The opinion of this sentinel, and how many sentinels it knows, itself included.
async fn opinion(sentinel: &Link, master: &str) -> Result<(Opinion, usize), WireError> {
    sentinel.ready().await?;
    let name = master.as_bytes();
    let [address, details] = sentinel.send_all([
        Request::command(&[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name]),
        Request::command(&[b"SENTINEL", b"MASTER", name]),
    ]);
    let endpoint = read_address(&address.await?).ok_or_else(|| unknown(sentinel, master))?;
    // A user may be forbidden to see the details.
    let details = details.await.unwrap_or(Value::Nil);
    let others: usize = field(&details, "num-other-sentinels").unwrap_or_default();
    Ok(((field(&details, "config-epoch"), endpoint), others.saturating_add(1)))
}

fn unknown(sentinel: &Link, master: &str) -> WireError {
    WireError::NotSent(format!("the sentinel {} knows no master {master:?}", sentinel.endpoint()))
}

fn read_address(answer: &Value) -> Option<Endpoint> {
    let Value::Array(parts) = answer else { return None };
    let [host, port] = parts.as_slice() else { return None };
    Some(Endpoint { host: text(host)?.to_owned(), port: text(port)?.parse().ok()? })
}

fn field<T: std::str::FromStr>(details: &Value, name: &str) -> Option<T> {
    let find =
        |key: &Value, value: &Value| (text(key)? == name).then(|| text(value)?.parse().ok())?;
    match details {
        Value::Map(fields) => fields.iter().find_map(|(key, value)| find(key, value)),
        Value::Array(parts) => parts.chunks_exact(2).find_map(|pair| find(&pair[0], &pair[1])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_of_all_sentinels_suffices_or_all_that_the_client_knows() {
        let of = |said: usize, known: usize, named: usize| {
            let opinion = (None, Endpoint { host: "h".to_owned(), port: 1 });
            Opinions { said: vec![opinion; said], known, silent: Vec::new() }.are_enough(named)
        };
        for (said, known, named, enough) in [
            (1, 1, 1, true),
            (1, 3, 1, true),
            (1, 3, 3, false),
            (2, 3, 3, true),
            (1, 1, 3, false),
            (1, 2, 2, false),
            (2, 5, 3, false),
            (3, 5, 3, true),
            (2, 5, 2, true),
            (0, 0, 0, true),
        ] {
            assert_eq!(
                of(said, known, named),
                enough,
                "{said} of {known}, {named} of which are named"
            );
        }
    }
}
