//! What becomes of what the server says.

use redis::{PushKind, Value};

use super::answer::Reply;
use super::channels::{Change, Channels, Said};
use super::decoder::Incoming;
use super::error::WireError;
use super::queue::{Call, Whose};
use super::request::{Request, Script};
use super::state::{Shared, State};
use crate::time::Instant;

/// Why a connection is given up on which an answer may be another request's.
const OUT_OF_STEP: &str = "its answers are out of step with what was asked";

/// What is to be done when the mutex is free again.
#[derive(Debug)]
enum Event {
    Answer(Reply, Result<Value, WireError>),
    Pushed(Vec<u8>, Vec<u8>),
    Subscribed(Vec<u8>),
    Unsubscribed(Vec<u8>),
    Refused(Vec<u8>),
}

impl Shared {
    /// Hands out what the server said, in its order.
    ///
    /// # Errors
    /// What makes no sense: nothing that follows could be told apart.
    pub(super) fn receive(&self, said: Vec<Incoming>) -> Result<(), String> {
        let mut events = Vec::with_capacity(said.len());
        let mut state = self.lock();
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
                    // In the order of the answers, which is that of the requests. Once: the caller
                    // repeats it with pauses.
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

    /// The server does not have the script, or lost it. A request that is sent again finds it
    /// there, and the scripts that belong to it.
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

    /// A push is nobody's answer, whatever it says: it moves no request on.
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
                // Next to our own end it has ended, asked or unasked.
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

    /// Whether the beginning or the end of this subscription is what the server was asked for next.
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

/// Whether this error refuses the command, or the question behind it, which a server that is in
/// trouble refuses by itself (`MISCONF`, `BUSY`). `None` where nobody can tell.
fn refuses_command(change: &Change, error: &WireError) -> Option<bool> {
    match change.said {
        Said::Nothing => Some(true),
        // A node that gives the slot away ends it unasked, and then refuses to end it.
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

/// Another node of the Cluster has it.
fn is_elsewhere(error: &WireError) -> bool {
    error.is("MOVED") || error.is("ASK")
}

fn is_digest(script: &Script, value: &Value) -> bool {
    matches!(value, Value::BulkString(digest) if digest == script.digest().as_bytes())
}
