//! What becomes of what the server says.

use redis::{PushKind, Value};

use super::answer::Reply;
use super::decoder::Incoming;
use super::error::WireError;
use super::handshake;
use super::queue::Whose;
use super::state::{Shared, State};

/// What is to be done when the mutex is free again.
#[derive(Debug)]
enum Event {
    Answer(Reply, Result<Value, WireError>),
    Pushed(Vec<u8>, Vec<u8>),
    Subscribed(Vec<u8>),
    Unsubscribed(Vec<u8>),
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
            }
        }
        outcome
    }
}

impl State {
    fn reply(&mut self, value: Value, events: &mut Vec<Event>, shared: &Shared) -> Result<(), String> {
        let slot = self.queue.answer().ok_or("it answered what was not asked")?;
        let answer = match value {
            Value::ServerError(error) => Err(WireError::from(error)),
            value => Ok(value),
        };
        match slot.whose {
            Whose::Request(reply) => {
                if answer.as_ref().is_err_and(|error| error.is("NOSCRIPT")) {
                    self.reload(shared);
                }
                events.push(Event::Answer(reply, answer));
            }
            Whose::Channel { name, sharded, on } => {
                if on && self.channels.remove(&name, sharded) {
                    events.push(Event::Unsubscribed(name));
                }
            }
            Whose::Scripts => self.reloading = false,
            Whose::Ours => {}
        }
        Ok(())
    }

    /// Somebody has emptied the server's cache of scripts: a request that is sent again finds them there.
    fn reload(&mut self, shared: &Shared) {
        let scripts = shared.settings.scripts;
        if std::mem::replace(&mut self.reloading, true) || scripts.is_empty() {
            return;
        }
        let last = scripts.len() - 1;
        let loads = scripts.iter().enumerate().map(|(at, script)| {
            (handshake::load(script.text()).bytes, if at == last { Whose::Scripts } else { Whose::Ours })
        });
        self.queue.push_first(loads, shared.clock.now());
    }

    fn push(&mut self, kind: &PushKind, data: Vec<Value>, events: &mut Vec<Event>) -> Result<(), String> {
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
                if !self.confirm(&name, is_sharded, true) {
                    return Err("it confirmed a subscription that was not asked for".to_owned());
                }
                if self.channels.contains(&name, is_sharded) {
                    events.push(Event::Subscribed(name));
                }
            }
            PushKind::Unsubscribe | PushKind::SUnsubscribe => {
                let is_sharded = *kind == PushKind::SUnsubscribe;
                if !self.confirm(&name, is_sharded, false) && self.channels.remove(&name, is_sharded) {
                    events.push(Event::Unsubscribed(name));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts the request off that this confirms, if it is its turn.
    fn confirm(&mut self, channel: &[u8], is_sharded: bool, is_on: bool) -> bool {
        let is_meant = self.queue.oldest().is_some_and(|slot| {
            matches!(&slot.whose, Whose::Channel { name, sharded, on }
                if name == channel && *sharded == is_sharded && *on == is_on)
        });
        is_meant && self.queue.answer().is_some()
    }
}
