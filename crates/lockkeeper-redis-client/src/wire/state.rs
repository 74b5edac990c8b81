//! What a link and its driver share, under one mutex. So the bytes have the order of the requests,
//! and the replies are matched with the requests in the same order.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use tokio::sync::watch;

use super::answer::Answer;
use super::channels::{self, Channels};
use super::handshake::Purpose;
use super::life::{Phase, Status, Up};
use super::link::Link;
use super::nonce::Nonces;
use super::queue::{Call, Queue, Whose};
use super::request::{Request, Script};
use super::settings::{Listener, Settings};
use crate::net::Endpoint;
use crate::time::{Clock, Instant};
use lockkeeper_core::kit::Process;
use lockkeeper_core::sync::lock;

/// One link and its driver.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) endpoint: Endpoint,
    pub(super) settings: Arc<Settings>,
    pub(super) listener: Arc<dyn Listener>,
    pub(super) purpose: Purpose,
    pub(super) clock: Clock,
    pub(super) status: watch::Sender<Status>,
    /// The process that made the link. A forked child has the socket too, and must not write to it.
    pub(super) process: Process,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: Queue,
    pub(super) channels: Channels,
    pub(super) nonces: Nonces,
    pub(super) phase: Phase,
    /// Why the link had no connection, or lost it, the last time.
    pub(super) failure: String,
    /// How many connections the link has made.
    pub(super) connections: u64,
    /// No handle of the link is left.
    pub(super) closing: bool,
    /// The link for messages, if the connection of this link brings none.
    pub(super) side: Option<Link>,
    /// Set while the driver sleeps.
    pub(super) driver: Option<Waker>,
    /// A sender has woken the driver.
    woken: bool,
    /// When the driver wakes up by itself.
    pub(super) alarm: Instant,
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
            phase: Phase::Connecting,
            failure: "it has not answered yet".to_owned(),
            connections: 0,
            closing: false,
            side: None,
            driver: None,
            woken: false,
            alarm: clock.now(),
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
        lock(&self.state)
    }

    pub(super) fn is_forked(&self) -> bool {
        !self.process.is_this()
    }

    /// Puts the requests into the queue, next to each other.
    pub(super) fn send<const N: usize>(&self, requests: [Request; N]) -> [Answer; N] {
        let may_wait = requests.iter().all(|request| request.posted);
        self.enqueue(may_wait, N == 1, |push| requests.map(push))
    }

    /// The same for a request that the connection does not repeat.
    pub(super) fn send_once(&self, request: Request) -> Answer {
        self.enqueue(request.posted, false, |push| push(request))
    }

    /// The same for a list.
    pub(super) fn send_list(&self, requests: Vec<Request>) -> Vec<Answer> {
        let may_wait = requests.iter().all(|request| request.posted);
        self.enqueue(may_wait, false, |push| requests.into_iter().map(push).collect())
    }

    /// `may_wait`: all requests are [posted](Request::posted). `repeats`: the connection may repeat
    /// a call; it repeats no request that belongs together with others.
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
        if let Phase::Ended(why) = &state.phase {
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
        // The driver also watches the time of a request that was written in place.
        if !done || now + self.settings.timeout < state.alarm {
            wake_driver(state);
        }
        answers
    }

    pub(super) fn subscribe(&self, name: Vec<u8>, sharded: bool) {
        let mut state = self.lock();
        // The link for messages may have lost the channel meanwhile. It knows its channels itself.
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

    /// Begins or ends a subscription on the server, if there is a connection. A later connection
    /// subscribes to all channels.
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
        if !self.brings_messages(&state) {
            return;
        }
        let nonce = state.nonces.next();
        let (bytes, whose) = channels::request(&name, sharded, on, nonce);
        state.queue.push(bytes, whose, self.clock.now());
        wake_driver(state);
    }

    /// Whether the link has a connection that brings messages.
    pub(super) fn brings_messages(&self, state: &State) -> bool {
        match &state.phase {
            Phase::Up(up) => up.resp3 || self.purpose == Purpose::Messages,
            _ => false,
        }
    }

    /// Completes when a sender has woken the driver.
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

/// Frees the mutex, and wakes the driver.
pub(super) fn wake_driver(mut state: MutexGuard<'_, State>) {
    state.woken = true;
    let driver = state.driver.take();
    drop(state);
    if let Some(driver) = driver {
        driver.wake();
    }
}

impl State {
    pub(super) fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up(_))
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// Writes all requests that wait, if the socket takes them at once. Returns whether it did.
    pub(super) fn write_in_place(&mut self, now: Instant) -> bool {
        // What is written to a connection that is to be dropped would be of unknown effect.
        let Phase::Up(Up { writer: Some(writer), reset: None, .. }) = &self.phase else {
            return false;
        };
        loop {
            let bytes = self.queue.gather(now);
            if bytes.is_empty() {
                return true;
            }
            match writer.try_write(bytes) {
                Ok(count) => self.queue.wrote(count),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The driver waits until the socket takes more, or finds out what is wrong.
                Err(_) => return false,
            }
        }
    }
}
