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
/// The link connects at once, and again for ever (50 ms … 1 s, jittered) for as long as a clone
/// lives. Each time it authenticates, selects the database, and subscribes again. When the last
/// clone is dropped, the link still writes the requests, and takes the answers that come in time.
#[derive(Clone, Debug)]
pub struct Link(Arc<Handle>);

/// One connection of a link. All its answers come from one run of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of this connection of its link.
    pub connection: u64,
    /// The id of the server's run, which differs after each start. `None` if the server does not
    /// say.
    pub id: Option<String>,
    /// The history of the data when the connection was made. `None` if the server does not say, or
    /// the handshake did not [ask](Settings::asks_history).
    pub history: Option<String>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    /// The runtime of the driver, and of the links that are made beside this one. If it is a thread
    /// of these links, the thread ends with the last of them. `None` if there is no driver.
    runtime: Option<Arc<Runtime>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Link {
    /// Connects, in the runtime that the caller is in; without one, in a thread of its own.
    pub fn open(endpoint: Endpoint, settings: Arc<Settings>, listener: Arc<dyn Listener>) -> Self {
        Self::start(Shared::new(endpoint, settings, listener, Purpose::Requests))
    }

    /// Connects in this runtime, whatever the caller's is. The link lives as long as the runtime.
    pub fn open_in(
        runtime: &Arc<Runtime>,
        endpoint: Endpoint,
        settings: Arc<Settings>,
        listener: Arc<dyn Listener>,
    ) -> Self {
        let shared = Arc::new(Shared::new(endpoint, settings, listener, Purpose::Requests));
        runtime.finish(driver::run(Arc::clone(&shared)));
        Self(Arc::new(Handle { shared, runtime: Some(Arc::clone(runtime)) }))
    }

    /// Another connection to the same server, with another listener.
    pub fn beside(&self, listener: Arc<dyn Listener>) -> Self {
        let settings = Arc::clone(&self.0.shared.settings);
        self.open_beside(self.endpoint().clone(), settings, listener)
    }

    /// Connects in the runtime of this link. The caller's runtime may stand still later, while
    /// other callers use the connection.
    fn open_beside(
        &self,
        endpoint: Endpoint,
        settings: Arc<Settings>,
        listener: Arc<dyn Listener>,
    ) -> Self {
        match &self.0.runtime {
            Some(runtime) => Self::open_in(runtime, endpoint, settings, listener),
            None => Self::open(endpoint, settings, listener),
        }
    }

    /// One more connection to the same server, for requests that belong together. The connection is
    /// [never made again](Settings::once). So what one request has done to it holds for the next
    /// request, or the next is not sent.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn alone(&self) -> Result<Self, WireError> {
        self.once(self.endpoint().clone(), Settings::clone(&self.0.shared.settings)).await
    }

    /// One connection to another server of the same kind, which may be a replica, to look at it.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn beside_at(&self, endpoint: Endpoint) -> Result<Self, WireError> {
        let settings = Settings::clone(&self.0.shared.settings);
        self.once(endpoint, Settings { only_master: false, never_forgets: false, ..settings }).await
    }

    async fn once(&self, endpoint: Endpoint, settings: Settings) -> Result<Self, WireError> {
        let settings = Arc::new(Settings { once: true, ..settings });
        let link = self.open_beside(endpoint, settings, Arc::new(NoListener));
        link.ready().await?;
        Ok(link)
    }

    /// The link for the messages of `main`, if the connection of `main` cannot bring them.
    pub(super) fn for_messages(main: &Shared) -> Self {
        let (settings, listener) = (Arc::clone(&main.settings), Arc::clone(&main.listener));
        Self::start(Shared::new(main.endpoint.clone(), settings, listener, Purpose::Messages))
    }

    fn start(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        let runtime = match Runtime::here_or_own() {
            Ok(runtime) => {
                runtime.finish(driver::run(Arc::clone(&shared)));
                Some(Arc::new(runtime))
            }
            Err(e) => {
                shared.end(LinkEnd::WithoutDriver(&e.to_string()));
                None
            }
        };
        Self(Arc::new(Handle { shared, runtime }))
    }

    /// Polls a task once in place, and then lets the runtime of this link finish it. Without a
    /// runtime the task is dropped.
    pub fn post(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.0.runtime {
            runtime.post(task);
        }
    }

    /// Sends a request. The request has its place in the order of the bytes when this returns.
    /// Without a connection requests wait in their order, each for at most [`Settings::timeout`].
    pub fn send(&self, request: Request) -> Answer {
        let [answer] = self.send_all([request]);
        answer
    }

    /// The same for a request that the connection never repeats: a request is repeated behind those
    /// that were sent meanwhile. If the server lacks its script, the answer is `NOSCRIPT`, and the
    /// connection loads the script.
    pub fn send_once(&self, request: Request) -> Answer {
        self.0.shared.send_once(request)
    }

    /// Sends requests without others in between.
    pub fn send_all<const N: usize>(&self, requests: [Request; N]) -> [Answer; N] {
        self.0.shared.send(requests)
    }

    /// The same for a list.
    pub fn send_list(&self, requests: Vec<Request>) -> Vec<Answer> {
        self.0.shared.send_list(requests)
    }

    /// Listens to a channel. Does nothing if the link listens already. A message arrives if it is
    /// published after the answer to a later request; in RESP2, if it is published after
    /// [`Listener::subscribed`].
    pub fn subscribe(&self, channel: Vec<u8>, sharded: bool) {
        self.0.shared.subscribe(channel, sharded);
    }

    /// Ends the subscription to a channel.
    pub fn unsubscribe(&self, channel: &[u8], sharded: bool) {
        self.0.shared.unsubscribe(channel, sharded);
    }

    /// Waits until there is a connection, or an attempt has failed.
    ///
    /// # Errors
    /// Why the attempt failed.
    pub async fn ready(&self) -> Result<Server, WireError> {
        let mut status = self.0.shared.status.subscribe();
        let found = status.wait_for(|status| !matches!(status, Status::Connecting)).await;
        match found.as_deref() {
            Ok(Status::Up(server)) => Ok(server.clone()),
            Ok(Status::Failed(error)) => Err(error.clone()),
            // The sender lives as long as this link.
            Ok(Status::Connecting) | Err(_) => {
                Err(WireError::NotSent("the connection was closed".to_owned()))
            }
        }
    }

    /// The current connection, and the run of its server.
    pub fn run(&self) -> Option<Run> {
        let state = self.0.shared.lock();
        // The status is never newer than the state.
        let (id, history) = match &*self.0.shared.status.borrow() {
            Status::Up(server) => (server.run_id.clone(), server.history.clone()),
            _ => (None, None),
        };
        state.is_up().then_some(Run { connection: state.connections, id, history })
    }

    /// The number of the current connection.
    pub fn connection(&self) -> Option<u64> {
        let state = self.0.shared.lock();
        state.is_up().then_some(state.connections)
    }

    /// Whether there is a connection now.
    pub fn is_connected(&self) -> bool {
        self.0.shared.lock().is_up()
    }

    /// Drops the connection, and makes another one. A request that was written and has no answer is
    /// [`Broken`](WireError::Broken).
    pub fn reset(&self, why: &str) {
        self.0.shared.reset(None, why);
    }

    /// The same for the connection of this number. A later connection stays.
    pub fn reset_connection(&self, number: u64, why: &str) {
        self.0.shared.reset(Some(number), why);
    }

    /// Ends the link with all its clones. A request that was not written is
    /// [`NotSent`](WireError::NotSent) at once, and a request that was written and has no answer is
    /// [`Broken`](WireError::Broken).
    pub fn abandon(&self, why: &str) {
        self.0.shared.end(LinkEnd::Abandoned(why));
    }

    /// Whether this link is a clone of `other`.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How long an answer may take.
    pub fn timeout(&self) -> Duration {
        self.0.shared.settings.timeout
    }

    /// See [`Settings::stays_master`].
    pub fn stays_master(&self) -> bool {
        self.0.shared.settings.stays_master
    }

    /// The address of the server.
    pub fn endpoint(&self) -> &Endpoint {
        &self.0.shared.endpoint
    }

    /// How many writes there were, without those of the handshake.
    #[cfg(any(test, feature = "peer"))]
    pub fn writes(&self) -> usize {
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
