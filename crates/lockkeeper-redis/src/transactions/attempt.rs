//! One attempt: `WATCH`, a decision, `MULTI` … `EXEC`.

use super::super::fault;
use super::super::wire::{Answer, Link, Request, Value, WireError};
use super::watched::Watching;
use super::{Changes, Reply, Transaction, Watched, refusal};
use crate::registers::{Outcome, Tries};
use crate::{Error, ErrorKind, Result};

/// One attempt of a transaction.
pub(super) struct Attempt<'a> {
    pub(super) of: &'a Transaction,
    pub(super) slot: u16,
    pub(super) tries: &'a Tries,
}

/// Why nothing was done.
pub(super) enum Failure<E> {
    /// So it was decided.
    Decided(E),
    /// Something else.
    Trouble(Error),
}

impl Attempt<'_> {
    pub(super) async fn make<E, F, Deciding>(
        &self,
        decide: &mut F,
    ) -> Result<Outcome<Vec<Reply>>, Failure<E>>
    where
        F: FnMut(Watched) -> Deciding,
        Deciding: Future<Output = Result<Changes, E>>,
    {
        // Wherever this is dropped, the connection is closed with it, and with the connection ends
        // what it watches.
        let link = self
            .early(None, self.of.connections.take(self.slot))
            .await
            .map_err(Failure::Trouble)?;
        match self.decided(&link, decide).await {
            Ok((marks, changes)) => {
                self.execute(link, marks, changes).await.map_err(Failure::Trouble)
            }
            Err(failure) => {
                // Where it is refused, or nobody answers, the connection is closed.
                if link.send(Request::command(&[b"UNWATCH"])).await.is_ok() {
                    self.of.connections.put_back(link);
                }
                Err(failure)
            }
        }
    }

    /// What raises the marks, and the changes.
    async fn decided<E, F, Deciding>(
        &self,
        link: &Link,
        decide: &mut F,
    ) -> Result<(Vec<Request>, Vec<Request>), Failure<E>>
    where
        F: FnMut(Watched) -> Deciding,
        Deciding: Future<Output = Result<Changes, E>>,
    {
        let marks = self.watch(link).await.map_err(Failure::Trouble)?;
        let watching = Watching::new(&self.of.connections.store.0.servers, self.slot, link.clone());
        let decided = decide(watching.watched()).await;
        // A decision on what could not be read is none.
        watching.over().map_err(Failure::Trouble)?;
        let changes = decided.map_err(Failure::Decided)?;
        let changes = self.check(changes).map_err(Failure::Trouble)?;
        Ok((marks, changes))
    }

    /// Watches the keys, and compares the tokens; what raises the marks.
    async fn watch(&self, link: &Link) -> Result<Vec<Request>> {
        let keys = self.of.keys.iter().map(Vec::as_slice);
        let parts: Vec<&[u8]> = std::iter::once(&b"WATCH"[..]).chain(keys).collect();
        let watched = link.send(Request::command(&parts));
        let looks: Vec<_> =
            self.of.fences.iter().map(|fence| (fence, link.send(fence.look()))).collect();
        self.early(Some(link), watched).await?;
        let mut marks = Vec::new();
        for (fence, look) in looks {
            marks.extend(fence.pass(&self.early(Some(link), look).await?)?);
        }
        Ok(marks)
    }

    fn check(&self, changes: Changes) -> Result<Vec<Request>> {
        let changes = changes.into_requests()?;
        if !changes.is_empty() {
            self.of.fences.iter().try_for_each(|fence| fence.check_write())?;
        }
        Ok(changes)
    }

    async fn execute(
        &self,
        link: Link,
        marks: Vec<Request>,
        changes: Vec<Request>,
    ) -> Result<Outcome<Vec<Reply>>> {
        // If it were refused, what follows would be done at once, and each for itself.
        self.early(Some(&link), link.send(Request::command(&[b"MULTI"]))).await?;
        let (own, all) = (marks.len(), marks.len() + changes.len());
        let exec = Request::command(&[b"EXEC"]);
        // In one piece: none of it goes without the rest.
        let mut queued = link.send_list(marks.into_iter().chain(changes).chain([exec]).collect());
        let Some(done) = queued.pop() else { return Ok(Outcome::Conflict) };
        let answer = match self.tries.answer(async { Ok(done.await) }).await {
            Ok(answer) => answer,
            Err(silent) => return Ok(Outcome::Unknown(unknown(&silent))),
        };
        match answer {
            Ok(Value::Nil) => {
                self.of.connections.put_back(link);
                Ok(Outcome::Conflict)
            }
            Ok(Value::Array(replies)) if replies.len() == all => {
                self.of.connections.put_back(link);
                Ok(outcome(replies.into_iter().skip(own)))
            }
            Ok(_) => {
                let problem = Error::new(
                    ErrorKind::Internal,
                    "the server's answer to EXEC is not one to each command",
                );
                Ok(Outcome::Unknown(unknown(&problem)))
            }
            Err(error @ WireError::Broken(_)) => Ok(Outcome::Unknown(unknown(&fault::of(error)))),
            Err(error) => {
                let error = reason(error, queued).await;
                Err(refusal::of(
                    &self.of.connections.store.0.servers,
                    self.slot,
                    Some(&link),
                    error,
                ))
            }
        }
    }

    /// An answer before `EXEC`: whatever becomes of it, nothing is done.
    async fn early<T>(
        &self,
        link: Option<&Link>,
        answer: impl Future<Output = Result<T, WireError>>,
    ) -> Result<T> {
        let answered =
            self.tries.answer(async { Ok(answer.await) }).await.map_err(Error::without_effect)?;
        answered.map_err(|error| {
            refusal::of(&self.of.connections.store.0.servers, self.slot, link, error)
        })
    }
}

/// Why a transaction was not done: what was said to the first command that was refused says it
/// better.
async fn reason(error: WireError, queued: Vec<Answer>) -> WireError {
    if !error.is("EXECABORT") {
        return error;
    }
    for answer in queued {
        if let Err(refused) = answer.await {
            return refused;
        }
    }
    let WireError::Server { message, .. } = &error else { return error };
    match message.split_once("because of: ") {
        Some((_, said)) => {
            let (code, message) = said.split_once(' ').unwrap_or((said, ""));
            WireError::server(code, message)
        }
        None => error,
    }
}

/// What the commands answered. A command that fails in `EXEC` does not keep the others from being
/// done.
fn outcome(replies: impl Iterator<Item = Value>) -> Outcome<Vec<Reply>> {
    let mut done = Vec::new();
    for (at, reply) in replies.enumerate() {
        if let Value::ServerError(error) = reply {
            let (error, number) = (WireError::from(error), at + 1);
            let problem = format!(
                "command {number} failed while the others were done: the server says {error}"
            );
            let problem = Error::invalid(problem)
                .with_remedy("a look at the data, and at what kind of data the command is for");
            return Outcome::Unknown(problem.with_unknown_effect());
        }
        done.push(Reply::from(reply));
    }
    Outcome::Done(done)
}

fn unknown(why: &Error) -> Error {
    let problem = format!("{}; whether the transaction was done is not known", why.message());
    Error::new(why.kind(), problem)
        .with_remedy("a look at the data whether it has the change")
        .with_unknown_effect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_transaction_that_was_discarded_is_reported_with_the_reason() {
        let server = |code: &str, message: &str| WireError::server(code, message);
        for (said, expected) in [
            (
                server("EXECABORT", "Transaction discarded because of: OOM command not allowed"),
                server("OOM", "command not allowed"),
            ),
            (
                server("EXECABORT", "Transaction discarded because of previous errors."),
                server("EXECABORT", "Transaction discarded because of previous errors."),
            ),
            (server("MOVED", "12 h:1"), server("MOVED", "12 h:1")),
            (WireError::NotSent("gone".into()), WireError::NotSent("gone".into())),
        ] {
            assert_eq!(reason(said, Vec::new()).await, expected);
        }
    }

    #[test]
    fn a_command_that_failed_is_not_passed_over() {
        let said = |answer: &[u8]| match redis::parse_redis_value(answer) {
            Ok(Value::Array(replies)) => outcome(replies.into_iter()),
            other => panic!("{other:?}"),
        };
        let Outcome::Unknown(error) = said(b"*2\r\n:1\r\n-WRONGTYPE of another kind\r\n") else {
            panic!("it was done")
        };
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Invalid, lockkeeper_core::Effect::Unknown)
        );
        assert!(
            error.to_string().contains("command 2 failed while the others were done"),
            "{error}"
        );
        let Outcome::Done(replies) = said(b"*2\r\n:1\r\n+OK\r\n") else {
            panic!("it was not done")
        };
        assert_eq!(replies, [Reply::Int(1), Reply::Bytes(b"OK".into())]);
    }
}
