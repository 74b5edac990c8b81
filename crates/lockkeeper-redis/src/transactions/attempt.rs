//! One attempt: `WATCH`, a decision, `MULTI` … `EXEC`.

use std::sync::{Arc, OnceLock};

use super::super::fault;
use super::super::wire::{Answer, Link, Request, Value, WireError};
use super::watched::Stage;
use super::{Changes, Reply, Transaction, refusal};
use crate::registers::{Outcome, Tries};
use crate::{Error, ErrorKind, Result};

/// One attempt of a transaction. If its future is dropped, its connection is closed.
pub(super) struct Attempt<'a> {
    pub(super) of: &'a Transaction,
    pub(super) slot: u16,
    pub(super) tries: &'a Tries,
}

impl Attempt<'_> {
    /// Watches the keys, and compares the tokens. The requests raise the marks. A transaction with
    /// a fence has at least one request, which only a master does.
    pub(super) async fn watch(&self) -> Result<(Arc<Stage>, Vec<Request>)> {
        let store = self.of.store.clone();
        let main = store.0.servers.link(self.slot);
        let taken = self.tries.answer(async { Ok(store.0.idle.take(&main).await) }).await;
        let link = taken.and_then(|link| link.map_err(fault::of)).map_err(Error::without_effect)?;
        let keys = self.of.keys.iter().map(Vec::as_slice);
        let parts: Vec<&[u8]> = std::iter::once(&b"WATCH"[..]).chain(keys).collect();
        let watched = link.send(Request::command(&parts));
        let looks: Vec<_> =
            self.of.fences.iter().map(|fence| (fence, link.send(fence.look()))).collect();
        self.early(&link, watched).await?;
        let mut marks = Vec::new();
        for (fence, look) in looks {
            marks.extend(fence.pass(&self.early(&link, look).await?)?);
        }
        if let (Some(fence), []) = (self.of.fences.first(), &marks[..]) {
            marks.push(fence.touch()?);
        }
        Ok((Arc::new(Stage { store, slot: self.slot, link, trouble: OnceLock::new() }), marks))
    }

    /// Does the commands of the decision. The inner error is that of `decide`.
    pub(super) async fn finish<E>(
        &self,
        stage: Arc<Stage>,
        marks: Vec<Request>,
        decided: Result<Changes, E>,
    ) -> Result<Result<Outcome<Vec<Reply>>, E>> {
        let link = stage.over()?;
        let refused = match decided.map(|changes| self.check(changes)) {
            Ok(Ok(changes)) => return self.execute(link, marks, changes).await.map(Ok),
            Ok(Err(error)) => Err(error),
            Err(decided) => Ok(Err(decided)),
        };
        // If the server refuses or is silent, the connection is closed.
        if link.send(Request::command(&[b"UNWATCH"])).await.is_ok() {
            self.of.store.0.idle.put_back(link);
        }
        refused
    }

    fn check(&self, changes: Changes) -> Result<Vec<Request>> {
        let changes = changes.0?;
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
        // After a refused MULTI each command would be done at once, and by itself.
        self.early(&link, link.send(Request::command(&[b"MULTI"]))).await?;
        let (own, all) = (marks.len(), marks.len() + changes.len());
        let exec = Request::command(&[b"EXEC"]);
        // In one piece: no part goes without the rest.
        let mut queued = link.send_list(marks.into_iter().chain(changes).chain([exec]).collect());
        let Some(done) = queued.pop() else { return Ok(Outcome::Conflict) };
        let outcome = match self.tries.answer(async { Ok(done.await) }).await {
            Ok(Ok(Value::Nil)) => Outcome::Conflict,
            Ok(Ok(Value::Array(replies))) if replies.len() == all => {
                outcome(replies.into_iter().skip(own))
            }
            Ok(Ok(_)) => {
                let problem = "the server's answer to EXEC is not one to each command";
                return Ok(unknown(&Error::new(ErrorKind::Internal, problem)));
            }
            Ok(Err(error @ WireError::Broken(_))) => return Ok(unknown(&fault::of(error))),
            Ok(Err(error)) => {
                return Err(refusal::of(
                    &self.of.store,
                    self.slot,
                    &link,
                    reason(error, queued).await,
                ));
            }
            Err(silent) => return Ok(unknown(&silent)),
        };
        self.of.store.0.idle.put_back(link);
        Ok(outcome)
    }

    /// An answer before `EXEC`: an error changes nothing.
    async fn early(&self, link: &Link, answer: Answer) -> Result<Value> {
        let answered =
            self.tries.answer(async { Ok(answer.await) }).await.map_err(Error::without_effect)?;
        answered.map_err(|error| refusal::of(&self.of.store, self.slot, link, error))
    }
}

/// The error of the first refused command says more than that of `EXEC`.
async fn reason(error: WireError, queued: Vec<Answer>) -> WireError {
    let WireError::Server { code, message, .. } = &error else { return error };
    if code != "EXECABORT" {
        return error;
    }
    for answer in queued {
        if let Err(refused) = answer.await {
            return refused;
        }
    }
    let Some((_, said)) = message.split_once("because of: ") else { return error };
    let (code, message) = said.split_once(' ').unwrap_or((said, ""));
    WireError::server(code, message)
}

/// The answers of the commands. A command that fails in `EXEC` does not stop the others.
fn outcome(replies: impl Iterator<Item = Value>) -> Outcome<Vec<Reply>> {
    let mut done = Vec::new();
    for (at, reply) in replies.enumerate() {
        if let Value::ServerError(error) = reply {
            let (error, number) = (WireError::from(error), at + 1);
            let problem = format!(
                "command {number} failed while the others were done: the server says {error}"
            );
            let remedy = "a look at the data, and at what kind of data the command is for";
            return Outcome::Unknown(
                Error::invalid(problem).with_remedy(remedy).with_unknown_effect(),
            );
        }
        done.push(Reply::from(reply));
    }
    Outcome::Done(done)
}

fn unknown<T>(why: &Error) -> Outcome<T> {
    let problem = format!("{}; whether the transaction was done is not known", why.message());
    let error =
        Error::new(why.kind(), problem).with_remedy("a look at the data whether it has the change");
    Outcome::Unknown(error.with_unknown_effect())
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
