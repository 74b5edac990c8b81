//! What a link and its driver share, under one mutex: so the bytes have the order of the requests,
//! and the replies are counted off in the same order.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::watch;

use super::answer::Answer;
use super::channels::{self, Channels};
use super::error::WireError;
use super::handshake::{Purpose, Server};
use super::link::Link;
use super::nonce::Nonces;
use super::queue::{Call, Queue, Slot, Whose};
use super::request::{Request, Script};
use super::settings::{Listener, Settings};
use crate::net::Endpoint;
use crate::time::{Clock, Instant};
use lockkeeper_core::kit::Process;

/// How the link stands, for those who wait for it.
#[derive(Clone, Debug)]
pub(super) enum Status {
    Connecting,
    Up(Server),
    Failed(WireError),
}

/// One link and its driver.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) endpoint: Endpoint,
    pub(super) settings: Arc<Settings>,
    pub(super) listener: Arc<dyn Listener>,
    pub(super) purpose: Purpose,
    pub(super) clock: Clock,
    pub(super) status: watch::Sender<Status>,
    /// A child that was forked has our socket, and must not write to it.
    pub(super) process: Process,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: Queue,
    pub(super) channels: Channels,
    pub(super) nonces: Nonces,
    /// There is a connection.
    pub(super) up: bool,
    /// How many there have been.
    pub(super) connections: u64,
    /// The connection, where a sender may write to it.
    pub(super) writer: Option<OwnedWriteHalf>,
    /// Whether messages come on this connection.
    resp3: bool,
    /// The connection for messages, where they do not come on this one.
    side: Option<Link>,
    /// Set while the driver sleeps.
    pub(super) driver: Option<Waker>,
    /// The driver was woken.
    woken: bool,
    /// When the driver wakes up by itself.
    pub(super) alarm: Instant,
    pub(super) reset: Option<String>,
    pub(super) closing: bool,
    /// Why nothing will be sent any more.
    pub(super) ended: Option<String>,
    /// Why there is no connection.
    failure: String,
    /// Scripts on their way to the server.
    pub(super) loading: Vec<&'static Script>,
}

impl Shared {
    pub(super) fn new(
        endpoint: Endpoint,
        settings: Arc<Settings>,
        listener: Arc<dyn Listener>,
        purpose: Purpose,
    ) -> Self {
        let clock = Clock::boot();
        let state = State {
            queue: Queue::default(),
            channels: Channels::default(),
            nonces: Nonces::new(),
            up: false,
            connections: 0,
            writer: None,
            resp3: false,
            side: None,
            driver: None,
            woken: false,
            alarm: clock.now(),
            reset: None,
            closing: false,
            ended: None,
            failure: "it has not answered yet".to_owned(),
            loading: Vec::new(),
        };
        Self {
            endpoint,
            settings,
            listener,
            purpose,
            clock,
            status: watch::Sender::new(Status::Connecting),
            process: Process::this(),
            state: Mutex::new(state),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_forked(&self) -> bool {
        !self.process.is_this()
    }

    /// Gives all of them their places, next to each other.
    pub(super) fn send<const N: usize>(&self, requests: [Request; N]) -> [Answer; N] {
        let may_wait = requests.iter().all(|request| request.posted);
        self.enqueue(may_wait, N == 1, |push| requests.map(push))
    }

    /// The same for a list. What waits of it gives up waiting at once, and not one by one.
    pub(super) fn send_list(&self, requests: Vec<Request>) -> Vec<Answer> {
        let may_wait = requests.iter().all(|request| request.posted);
        self.enqueue(may_wait, false, |push| requests.into_iter().map(push).collect())
    }

    /// `repeats`: the connection may repeat a call. Of requests that belong together it repeats
    /// none apart from the others.
    fn enqueue<T>(
        &self,
        may_wait: bool,
        repeats: bool,
        all: impl FnOnce(&mut dyn FnMut(Request) -> Answer) -> T,
    ) -> T {
        if self.is_forked() {
            let why = format!(
                "the connection to {} belongs to the process that forked this one",
                self.endpoint
            );
            return all(&mut |_| Answer::not_sent(why.clone()));
        }
        let mut state = self.lock();
        if let Some(why) = &state.ended {
            return all(&mut |_| Answer::not_sent(why.clone()));
        }
        let now = self.clock.now();
        let answers = all(&mut |request| {
            let (reply, answer) = Answer::new();
            let again = || repeats.then(|| request.bytes.clone());
            let call = request.script.map(|script| Call { script, again: again() });
            state.queue.push(request.bytes, Whose::Request(reply, call), now);
            answer
        });
        let done = !may_wait && state.queue.is_answered() && state.write_in_place(now);
        // The driver counts the time of what was written without it.
        if !done || now + self.settings.timeout < state.alarm {
            wake_driver(state);
        }
        answers
    }

    pub(super) fn subscribe(&self, name: Vec<u8>, sharded: bool) {
        let mut state = self.lock();
        // A connection of messages may have lost the channel meanwhile, and knows itself what it
        // has.
        if state.channels.add(name.clone(), sharded) || state.side.is_some() {
            self.change(state, name, sharded, true);
        }
    }

    pub(super) fn unsubscribe(&self, name: &[u8], sharded: bool) {
        let mut state = self.lock();
        if state.channels.remove(name, sharded) {
            self.change(state, name.to_vec(), sharded, false);
        }
    }

    /// Tells the server, if there is one; else the next one is told.
    fn change(&self, mut state: MutexGuard<'_, State>, name: Vec<u8>, sharded: bool, on: bool) {
        if self.is_forked() {
            return;
        }
        if let Some(side) = state.side.clone() {
            drop(state);
            match on {
                true => side.subscribe(name, sharded),
                false => side.unsubscribe(&name, sharded),
            }
            return;
        }
        if !state.up || !self.receives_messages(&state) {
            return;
        }
        let nonce = state.nonces.next();
        let (bytes, whose) = channels::request(&name, sharded, on, nonce);
        state.queue.push(bytes, whose, self.clock.now());
        wake_driver(state);
    }

    /// Whether messages come on this connection.
    fn receives_messages(&self, state: &State) -> bool {
        state.resp3 || self.purpose == Purpose::Messages
    }

    pub(super) fn reset(&self, why: &str) {
        let mut state = self.lock();
        if !state.up || self.is_forked() {
            return;
        }
        state.reset = Some(why.to_owned());
        wake_driver(state);
    }

    /// Nobody will send any more.
    pub(super) fn close(&self) {
        if self.is_forked() {
            return;
        }
        let mut state = self.lock();
        state.closing = true;
        let side = state.side.take();
        wake_driver(state);
        drop(side);
    }

    /// There is a connection.
    pub(super) fn up(&self, server: Server, writer: Option<OwnedWriteHalf>) {
        let now = self.clock.now();
        let mut state = self.lock();
        if state.ended.is_some() {
            return;
        }
        state.up = true;
        let is_again = state.connections > 0 && self.purpose == Purpose::Requests;
        state.connections += 1;
        state.writer = writer;
        state.resp3 = server.resp3;
        state.reset = None;
        state.loading.clear();
        state.alarm = now;
        let (mut side, mut other) = (None, None);
        if self.receives_messages(&state) {
            side = state.side.take();
            let State { channels, nonces, .. } = &mut *state;
            let again = channels.requests(nonces);
            state.queue.push_first(again.into_iter(), now);
        } else if let Some(side) = &state.side {
            // What connects to an address anew may find another server there; messages come from
            // the same one.
            other = Some(side.clone());
        } else if !state.closing && !self.settings.once {
            let link = Link::for_messages(self);
            for (name, sharded) in state.channels.iter() {
                link.subscribe(name.to_vec(), sharded);
            }
            state.side = Some(link);
        }
        drop(state);
        drop(side);
        if let Some(side) = other {
            side.reset("the connection for requests was made again");
        }
        self.status.send_replace(Status::Up(server));
        if is_again {
            self.listener.reconnected();
        }
    }

    /// The connection is gone.
    pub(super) fn down(&self, why: &str) {
        let mut state = self.lock();
        if state.ended.is_some() {
            return;
        }
        state.up = false;
        state.writer = None;
        state.failure = why.to_owned();
        let received = self.receives_messages(&state);
        let lost = state.queue.lose();
        drop(state);
        self.status.send_replace(Status::Connecting);
        if received {
            self.listener.disconnected();
        }
        self.fail(
            lost,
            &WireError::Broken(format!("the connection to {} was lost: {why}", self.endpoint)),
        );
    }

    /// An attempt to connect has failed. Where this client is not let in, whatever waits hears at
    /// once why.
    pub(super) fn failed(&self, error: WireError) {
        let mut state = self.lock();
        if state.ended.is_some() {
            return;
        }
        state.failure = error.to_string();
        let unsent = if error.turns_away() { state.queue.clear() } else { Vec::new() };
        drop(state);
        let why = format!("{} does not let this client in: {error}", self.endpoint);
        self.status.send_replace(Status::Failed(error));
        self.fail(unsent, &WireError::NotSent(why));
    }

    /// Gives up what has waited for too long to be written.
    pub(super) fn expire(&self, now: Instant) {
        let mut state = self.lock();
        let expired = state.queue.expire(now, self.settings.timeout);
        if expired.is_empty() {
            return;
        }
        let why = format!(
            "no connection to {} within {:?}: {}",
            self.endpoint, self.settings.timeout, state.failure
        );
        drop(state);
        self.fail(expired, &WireError::NotSent(why));
    }

    /// There is no driver any more. Writes what can still be written without one.
    pub(super) fn end(&self, why: &str) {
        self.finish(why, true);
    }

    /// Nothing is written any more.
    pub(super) fn abandon(&self, why: &str) {
        if !self.is_forked() {
            self.finish(why, false);
        }
    }

    /// There is no connection any more, and there will be no other.
    pub(super) fn give_up(&self) {
        let why = self.lock().failure.clone();
        self.finish(&why, false);
    }

    fn finish(&self, why: &str, last_write: bool) {
        let mut state = self.lock();
        if state.ended.is_some() {
            return;
        }
        if last_write && !self.is_forked() {
            state.write_in_place(self.clock.now());
        }
        state.ended = Some(format!("the connection to {} was closed: {why}", self.endpoint));
        let was_up = std::mem::take(&mut state.up);
        state.writer = None;
        let received = was_up && self.receives_messages(&state);
        let side = state.side.take();
        let lost = state.queue.lose();
        let unsent = state.queue.clear();
        let why = state.ended.clone().unwrap_or_default();
        wake_driver(state);
        drop(side);
        self.status.send_if_modified(|status| {
            // Why the only attempt has failed says more.
            let is_news = !(self.settings.once && matches!(status, Status::Failed(_)));
            if is_news {
                *status = Status::Failed(WireError::NotSent(why.clone()));
            }
            is_news
        });
        if received {
            self.listener.disconnected();
        }
        self.fail(lost, &WireError::Broken(why.clone()));
        self.fail(unsent, &WireError::NotSent(why));
    }

    fn fail(&self, slots: Vec<Slot>, error: &WireError) {
        for slot in slots {
            if let Whose::Request(reply, _) = slot.whose {
                // Nobody listens any more when the answer was dropped.
                drop(reply.send(Err(error.clone())));
            }
        }
    }

    /// Completes when the driver was woken.
    pub(super) async fn woken(&self) {
        std::future::poll_fn(|cx: &mut Context<'_>| {
            let mut state = self.lock();
            if std::mem::take(&mut state.woken) {
                return Poll::Ready(());
            }
            state.driver = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Wakes the driver, when the mutex is free.
fn wake_driver(mut state: MutexGuard<'_, State>) {
    state.woken = true;
    let driver = state.driver.take();
    drop(state);
    if let Some(driver) = driver {
        driver.wake();
    }
}

impl State {
    /// Writes all that waits, if that is possible at once; whether it was.
    fn write_in_place(&mut self, now: Instant) -> bool {
        let Some(writer) = &self.writer else { return false };
        loop {
            let bytes = self.queue.gather(now);
            if bytes.is_empty() {
                return true;
            }
            match writer.try_write(bytes) {
                Ok(count) => self.queue.wrote(count),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The driver waits until it is possible, or finds out what is wrong.
                Err(_) => return false,
            }
        }
    }
}
