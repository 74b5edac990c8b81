//! Hands the values from the server to their receivers.

use redis::{PushKind, Value};

use super::answer::Reply;
use super::channels::{Change, Channels, Said};
use super::decoder::Incoming;
use super::error::WireError;
use super::life::{Phase, Up};
use super::queue::{Call, Whose};
use super::request::{Request, Script};
use super::state::{Shared, State};
use crate::time::Instant;

/// Why the link drops a connection on which an answer may belong to another request.
const OUT_OF_STEP: &str = "its answers are out of step with what was asked";

/// A call or an answer for the time when the mutex is free again.
#[derive(Debug)]
enum Event {
    Answer(Reply, Result<Value, WireError>),
    Pushed(Vec<u8>, Vec<u8>),
    Subscribed(Vec<u8>),
    Unsubscribed(Vec<u8>),
    Refused(Vec<u8>),
}

impl Shared {
    /// Hands out the values from the server, in their order.
    ///
    /// # Errors
    /// A value makes no sense, so the later ones cannot be matched with requests.
    pub(super) fn receive(&self, said: Vec<Incoming>) -> Result<(), String> {
        let mut events = Vec::with_capacity(said.len());
        let mut state = self.lock();
        if let Phase::Up(Up { reset: Some(why), is_distrusted: true, .. }) = &state.phase {
            return Err(why.clone());
        }
        let mut outcome = Ok(());
        for incoming in said {
            outcome = match incoming {
                Incoming::Reply(value) => state.reply(value, &mut events, self),
                Incoming::Push(kind, data) => state.push(&kind, data, &mut events),
            };
            if outcome.is_err() {
                break;
            }
        }
        drop(state);
        for event in events {
            match event {
                Event::Answer(reply, answer) => drop(reply.send(answer)),
                Event::Pushed(channel, payload) => self.listener.pushed(&channel, &payload),
                Event::Subscribed(channel) => self.listener.subscribed(&channel),
                Event::Unsubscribed(channel) => self.listener.unsubscribed(&channel),
                Event::Refused(channel) => self.listener.refused(&channel),
            }
        }
        outcome
    }
}

impl State {
    fn reply(
        &mut self,
        value: Value,
        events: &mut Vec<Event>,
        shared: &Shared,
    ) -> Result<(), String> {
        let now = shared.clock.now();
        let error = match &value {
            Value::ServerError(error) => Some(WireError::from(error.clone())),
            _ => None,
        };
        match (self.queue.oldest().ok_or("it answered what was not asked")?, &error) {
            (Whose::Change(change), Some(error)) => match refuses_command(change, error) {
                None => return Err(OUT_OF_STEP.to_owned()),
                Some(false) => {}
                Some(true) => {
                    change.said = Said::Refused;
                    if change.on {
                        events.extend(refused(&mut self.channels, change, error, now));
                    }
                    return Ok(());
                }
            },
            (Whose::Change(Change { nonce, .. }), None) if !nonce.is_in(&value) => {
                return Err(OUT_OF_STEP.to_owned());
            }
            (Whose::Ours(nonce), None) if !nonce.is_in(&value) => {
                return Err(OUT_OF_STEP.to_owned());
            }
            (Whose::Ours(_), Some(error)) if is_elsewhere(error) => {
                return Err(OUT_OF_STEP.to_owned());
            }
            (Whose::Script(script), None) if !is_digest(script, &value) => {
                return Err(OUT_OF_STEP.to_owned());
            }
            _ => {}
        }
        let Some(slot) = self.queue.answer() else { return Ok(()) };
        match slot.whose {
            Whose::Request(reply, Some(Call { script, again }))
                if error.as_ref().is_some_and(|e| e.is("NOSCRIPT")) =>
            {
                self.load(script, now);
                match again {
                    // The link repeats calls in the order of the answers, which is that of the
                    // requests. It repeats a call once; the caller repeats it with pauses.
                    Some(bytes) => {
                        let call = Whose::Request(reply, Some(Call { script, again: None }));
                        self.queue.push_first(std::iter::once((bytes, call)), slot.asked);
                    }
                    None => events.push(Event::Answer(reply, error.map_or(Ok(value), Err))),
                }
            }
            Whose::Request(reply, _) => {
                events.push(Event::Answer(reply, error.map_or(Ok(value), Err)))
            }
            Whose::Script(script) => self.loading.retain(|loading| !std::ptr::eq(*loading, script)),
            _ => {}
        }
        Ok(())
    }

    /// Loads a script that the server lacks, and the scripts that belong to it. A call that is
    /// repeated behind them finds them.
    fn load(&mut self, script: &'static Script, now: Instant) {
        let mut scripts = script.to_load();
        scripts
            .retain(|script| !self.loading.iter().any(|loading| std::ptr::eq(*loading, *script)));
        self.loading.extend(&scripts);
        let load = |script: &'static Script| {
            let request = Request::command(&[b"SCRIPT", b"LOAD", script.text().as_bytes()]);
            (request.bytes, Whose::Script(script))
        };
        self.queue.push_first(scripts.into_iter().map(load), now);
    }

    /// Takes a push. A push is never the answer of a request.
    fn push(
        &mut self,
        kind: &PushKind,
        data: Vec<Value>,
        events: &mut Vec<Event>,
    ) -> Result<(), String> {
        let mut data = data.into_iter();
        let Some(Value::BulkString(name)) = data.next() else { return Ok(()) };
        match kind {
            PushKind::Message | PushKind::SMessage => {
                if let Some(Value::BulkString(payload)) = data.next() {
                    events.push(Event::Pushed(name, payload));
                }
            }
            PushKind::Subscribe | PushKind::SSubscribe => {
                let is_sharded = *kind == PushKind::SSubscribe;
                if !self.is_next(&name, is_sharded, true) {
                    return Err("it confirmed a subscription that was not asked for".to_owned());
                }
                if self.channels.confirm(&name, is_sharded) {
                    events.push(Event::Subscribed(name));
                }
            }
            PushKind::Unsubscribe | PushKind::SUnsubscribe => {
                let is_sharded = *kind == PushKind::SUnsubscribe;
                // If the link is about to end the subscription itself, this is no news, asked or
                // unasked.
                if !self.is_next(&name, is_sharded, false)
                    && self.channels.remove(&name, is_sharded)
                {
                    events.push(Event::Unsubscribed(name));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the next request to be answered is the beginning or the end of this subscription.
    fn is_next(&mut self, channel: &[u8], is_sharded: bool, is_on: bool) -> bool {
        let Some(Whose::Change(Change { name, sharded, on, said, .. })) = self.queue.oldest()
        else {
            return false;
        };
        let is_next = name == channel && *sharded == is_sharded && *on == is_on;
        if is_next && *said == Said::Nothing {
            *said = Said::Confirmed;
        }
        is_next
    }
}

/// Whether this error refuses the command, or only the question behind the command, which a server
/// in trouble refuses too (`MISCONF`, `BUSY`). `None` if that is unclear.
fn refuses_command(change: &Change, error: &WireError) -> Option<bool> {
    match change.said {
        Said::Nothing => Some(true),
        // A node that gives the slot away ends the subscription unasked, and then refuses to end
        // it.
        Said::Confirmed if change.sharded && !change.on => is_elsewhere(error).then_some(true),
        Said::Confirmed | Said::Refused => {
            (!is_elsewhere(error) && !error.is("ERR")).then_some(false)
        }
    }
}

/// The server has refused to begin a subscription.
fn refused(
    channels: &mut Channels,
    change: &Change,
    error: &WireError,
    now: Instant,
) -> Option<Event> {
    let Change { name, sharded, .. } = change;
    if is_elsewhere(error) {
        return channels.remove(name, *sharded).then(|| Event::Unsubscribed(name.clone()));
    }
    channels.refuse(name, *sharded, now).then(|| Event::Refused(name.clone()))
}

/// Whether another node of the Cluster has the slot.
fn is_elsewhere(error: &WireError) -> bool {
    error.is("MOVED") || error.is("ASK")
}

fn is_digest(script: &Script, value: &Value) -> bool {
    matches!(value, Value::BulkString(digest) if digest == script.digest().as_bytes())
}
