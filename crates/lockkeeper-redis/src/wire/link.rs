//! The handle of a connection.

use std::sync::Arc;
use std::time::Duration;

use super::answer::Answer;
use super::driver;
use super::error::WireError;
use super::handshake::{Purpose, Server};
use super::life::{LinkEnd, Status};
use super::request::Request;
use super::settings::{Listener, NoListener, Settings};
use super::state::Shared;
use crate::net::Endpoint;
use crate::runtime::Runtime;

/// A supervised connection to one server. Cheap to clone.
///
/// It connects at once, and again for ever (50 ms … 1 s, jittered) for as long as a clone lives;
/// each time it authenticates, selects the database, and subscribes again. When the last clone is
/// dropped, what was sent is still written, and answered where the server does so in time.
#[derive(Clone, Debug)]
pub(crate) struct Link(Arc<Handle>);

/// One connection of a link. What was answered by it was answered by one run of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The number of this connection of its link.
    pub(crate) connection: u64,
    /// The server has another one after each start. `None` where it does not say.
    pub(crate) id: Option<String>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    /// Where the driver runs. A thread of our own ends with it.
    _runtime: Option<Runtime>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Link {
    /// Connects, in the runtime that the caller is in; without one, in a thread of its own.
    pub(crate) fn open(
        endpoint: Endpoint,
        settings: Arc<Settings>,
        listener: Arc<dyn Listener>,
    ) -> Self {
        Self::start(Shared::new(endpoint, settings, listener, Purpose::Requests))
    }

    /// Connects in this runtime, whatever the caller's is. The link lives as long as the runtime.
    pub(crate) fn open_in(
        runtime: &Runtime,
        endpoint: Endpoint,
        settings: Arc<Settings>,
        listener: Arc<dyn Listener>,
    ) -> Self {
        let shared = Arc::new(Shared::new(endpoint, settings, listener, Purpose::Requests));
        runtime.finish(driver::run(Arc::clone(&shared)));
        Self(Arc::new(Handle { shared, _runtime: None }))
    }

    /// Another connection to the same server, for somebody else's messages.
    pub(crate) fn beside(&self, listener: Arc<dyn Listener>) -> Self {
        Self::open(self.endpoint().clone(), Arc::clone(&self.0.shared.settings), listener)
    }

    /// One more connection to the same server, for requests that belong together: what one of them
    /// has done to the connection holds for those behind it, or they are not sent. It is [never
    /// made again](Settings::once).
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn alone(&self) -> Result<Self, WireError> {
        self.once(self.endpoint().clone(), Settings::clone(&self.0.shared.settings)).await
    }

    /// One connection to another server of the same kind, which may be a replica, to look at it.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn beside_at(&self, endpoint: Endpoint) -> Result<Self, WireError> {
        let settings = Settings::clone(&self.0.shared.settings);
        self.once(endpoint, Settings { only_master: false, never_forgets: false, ..settings }).await
    }

    async fn once(&self, endpoint: Endpoint, settings: Settings) -> Result<Self, WireError> {
        let link = Self::open(
            endpoint,
            Arc::new(Settings { once: true, ..settings }),
            Arc::new(NoListener),
        );
        link.ready().await?;
        Ok(link)
    }

    /// The connection that brings the messages where they cannot come on that of `main`.
    pub(super) fn for_messages(main: &Shared) -> Self {
        let (settings, listener) = (Arc::clone(&main.settings), Arc::clone(&main.listener));
        Self::start(Shared::new(main.endpoint.clone(), settings, listener, Purpose::Messages))
    }

    fn start(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        let runtime = match Runtime::here_or_own() {
            Ok(runtime) => {
                runtime.finish(driver::run(Arc::clone(&shared)));
                Some(runtime)
            }
            Err(e) => {
                shared.end(LinkEnd::WithoutDriver(&e.to_string()));
                None
            }
        };
        Self(Arc::new(Handle { shared, _runtime: runtime }))
    }

    /// Sends a request. It has its place in the order of the bytes when this returns. Without a
    /// connection requests wait in their order, each for at most [`Settings::timeout`].
    pub(crate) fn send(&self, request: Request) -> Answer {
        let [answer] = self.send_all([request]);
        answer
    }

    /// Sends requests with nobody else's in between.
    pub(crate) fn send_all<const N: usize>(&self, requests: [Request; N]) -> [Answer; N] {
        self.0.shared.send(requests)
    }

    /// The same for a list.
    pub(crate) fn send_list(&self, requests: Vec<Request>) -> Vec<Answer> {
        self.0.shared.send_list(requests)
    }

    /// Listens to a channel. Does nothing if it does already. What is published after a request
    /// that was sent later is heard; in RESP2, what is published after [`Listener::subscribed`].
    pub(crate) fn subscribe(&self, channel: Vec<u8>, sharded: bool) {
        self.0.shared.subscribe(channel, sharded);
    }

    pub(crate) fn unsubscribe(&self, channel: &[u8], sharded: bool) {
        self.0.shared.unsubscribe(channel, sharded);
    }

    /// Waits until there is a connection, or an attempt has failed.
    ///
    /// # Errors
    /// Why it failed.
    pub(crate) async fn ready(&self) -> Result<Server, WireError> {
        let mut status = self.0.shared.status.subscribe();
        let found = status.wait_for(|status| !matches!(status, Status::Connecting)).await;
        match found.as_deref() {
            Ok(Status::Up(server)) => Ok(server.clone()),
            Ok(Status::Failed(error)) => Err(error.clone()),
            // The sender is in what we hold.
            Ok(Status::Connecting) | Err(_) => {
                Err(WireError::NotSent("the connection was closed".to_owned()))
            }
        }
    }

    /// The connection there is now, and whose it is.
    pub(crate) fn run(&self) -> Option<Run> {
        let state = self.0.shared.lock();
        // What the status says is never newer than the state.
        let id = match &*self.0.shared.status.borrow() {
            Status::Up(server) => server.run_id.clone(),
            _ => None,
        };
        state.is_up().then_some(Run { connection: state.connections, id })
    }

    /// The number of the connection that is there now.
    pub(crate) fn connection(&self) -> Option<u64> {
        let state = self.0.shared.lock();
        state.is_up().then_some(state.connections)
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.0.shared.lock().is_up()
    }

    /// Drops the connection and makes another one. What was written and not answered is
    /// [`Broken`](WireError::Broken).
    pub(crate) fn reset(&self, why: &str) {
        self.0.shared.reset(why);
    }

    /// Sends nothing any more, here and in all clones: what was not written is
    /// [`NotSent`](WireError::NotSent) at once, what was written and not answered is
    /// [`Broken`](WireError::Broken).
    pub(crate) fn abandon(&self, why: &str) {
        self.0.shared.end(LinkEnd::Abandoned(why));
    }

    /// Whether it is a clone of `other`.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How long an answer may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.0.shared.settings.timeout
    }

    /// See [`Settings::stays_master`].
    pub(crate) fn stays_master(&self) -> bool {
        self.0.shared.settings.stays_master
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.0.shared.endpoint
    }

    /// How many writes there were, those of the first words apart.
    #[cfg(test)]
    pub(crate) fn writes(&self) -> usize {
        self.0.shared.lock().queue.writes
    }

    /// A link as a forked child has it.
    #[cfg(test)]
    pub(super) fn of_another_process(
        endpoint: Endpoint,
        settings: Settings,
        listener: Arc<dyn Listener>,
    ) -> Self {
        let mut shared = Shared::new(endpoint, Arc::new(settings), listener, Purpose::Requests);
        shared.process = lockkeeper_core::kit::Process::of(std::process::id().wrapping_add(1));
        Self::start(shared)
    }
}
