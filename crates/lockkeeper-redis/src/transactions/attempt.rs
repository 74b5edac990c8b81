//! One attempt: `WATCH`, a decision, `MULTI` … `EXEC`.

use std::sync::{Arc, OnceLock};

use super::super::fault;
use super::fence::Fence;
use super::watched::Stage;
use super::{Changes, Reply, Transaction};
use crate::registers::{Outcome, Tries};
use crate::wire::{Answer, Request, Value, WireError};
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
        let (store, slot) = (self.of.store.clone(), self.slot);
        let main = store.0.servers.link(slot);
        let taken = async { store.0.idle.take(&main).await.map_err(fault::of) };
        let link = self.tries.answer(taken).await.map_err(Error::without_effect)?;
        let stage = Arc::new(Stage { store, slot, link, trouble: OnceLock::new() });
        let keys = self.of.keys.iter().map(Vec::as_slice);
        let parts: Vec<&[u8]> = std::iter::once(&b"WATCH"[..]).chain(keys).collect();
        let watched = stage.link.send(Request::command(&parts));
        let look = |fence| (fence, stage.link.send(Fence::look(fence)));
        let looks: Vec<_> = self.of.fences.values().map(look).collect();
        self.early(&stage, watched).await?;
        let mut marks = Vec::new();
        for (fence, look) in looks {
            marks.extend(fence.pass(&self.early(&stage, look).await?)?);
        }
        if let (Some(fence), []) = (self.of.fences.values().next(), &marks[..]) {
            marks.push(fence.touch());
        }
        Ok((stage, marks))
    }

    /// Does the commands of the decision. The inner error is that of `decide`.
    pub(super) async fn finish<E>(
        &self,
        stage: Arc<Stage>,
        marks: Vec<Request>,
        decided: Result<Changes, E>,
    ) -> Result<Result<Outcome<Vec<Reply>>, E>> {
        let stage = stage.over()?;
        let refused = match decided.map(|changes| self.check(changes)) {
            Ok(Ok(changes)) => return self.execute(stage, marks, changes).await.map(Ok),
            Ok(Err(error)) => Err(error),
            Err(decided) => Ok(Err(decided)),
        };
        // If the server refuses or is silent, the connection is closed.
        let unwatched = stage.link.send(Request::command(&[b"UNWATCH"]));
        if self.early(&stage, unwatched).await.is_ok() {
            self.of.store.0.idle.put_back(stage.link);
        }
        refused
    }

    fn check(&self, changes: Changes) -> Result<Vec<Request>> {
        let changes = changes.0?;
        if !changes.is_empty() {
            self.of.fences.values().try_for_each(Fence::check_write)?;
        }
        Ok(changes)
    }

    async fn execute(
        &self,
        stage: Stage,
        mut requests: Vec<Request>,
        changes: Vec<Request>,
    ) -> Result<Outcome<Vec<Reply>>> {
        // After a refused MULTI each command would be done at once, and by itself.
        self.early(&stage, stage.link.send(Request::command(&[b"MULTI"]))).await?;
        let (own, all) = (requests.len(), requests.len() + changes.len());
        requests.extend(changes);
        requests.push(Request::command(&[b"EXEC"]));
        // In one piece: no part goes without the rest.
        let mut queued = stage.link.send_list(requests);
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
            Ok(Err(error)) => return Err(stage.refused(reason(error, queued).await)),
            Err(silent) => return Ok(unknown(&silent)),
        };
        self.of.store.0.idle.put_back(stage.link);
        Ok(outcome)
    }

    /// An answer before `EXEC`: an error changes nothing.
    async fn early(&self, stage: &Stage, answer: Answer) -> Result<Value> {
        let answered = async { answer.await.map_err(|error| stage.refused(error)) };
        self.tries.answer(answered).await.map_err(Error::without_effect)
    }
}

/// The error of the first refused command says more than that of `EXEC`.
async fn reason(error: WireError, queued: Vec<Answer>) -> WireError {
    let message = match &error {
        WireError::Server { code, message, .. } if code == "EXECABORT" => message,
        _ => return error,
    };
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
    for reply in replies {
        if let Value::ServerError(error) = reply {
            let (number, error) = (done.len() + 1, WireError::from(error));
            let problem = format!(
                "command {number} failed while the others were done: the server says {error}"
            );
            let error = Error::invalid(problem)
                .with_remedy("a look at the data, and at what kind of data the command is for");
            return Outcome::Unknown(error.with_unknown_effect());
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
