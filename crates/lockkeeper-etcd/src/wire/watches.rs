//! Watches: all of them in one stream, of the member that is asked.
//!
//! A watch begins now, and not at a revision of the past: etcd serves those that begin in the past every 100 ms only,
//! however late they are. Whoever has to know what happened before asks once it stands.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedReceiver, UnboundedSender, WeakSender};
use tokio::sync::oneshot;
use tokio_stream::Stream;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

use super::messages::watch_create_request::FilterType;
use super::messages::watch_request::RequestUnion;
use super::messages::{Event, WatchCancelRequest, WatchCreateRequest, WatchRequest, WatchResponse};
use crate::Result;
use crate::runtime::Runtime;

#[cfg(test)]
mod tests;

/// What etcd answers instead of the number of a watch that it refuses.
const REFUSED: i64 = -1;

/// So many answers wait for the reader of a watch. One who is later than that has a watch that has ended.
const UNREAD: usize = 256;

/// What is watched.
#[derive(Clone, Debug)]
pub(crate) struct What {
    /// A key, or the first of many.
    pub(crate) key: Bytes,
    /// What comes behind the last; empty for one key.
    pub(crate) end: Bytes,
    /// Nothing is told of what is put there.
    pub(crate) only_deletions: bool,
}

impl What {
    fn has(&self, key: &Bytes) -> bool {
        *key == self.key || (*key > self.key && *key < self.end)
    }
}

/// What is told of it.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    /// From now on nothing is missed.
    Begun,
    /// This happened, together.
    Events(Vec<Event>),
}

/// A watch, until it is dropped. When nothing is told any more it has ended: what came after may have been missed.
#[derive(Debug)]
pub(crate) struct Watch {
    id: i64,
    events: Receiver<WatchEvent>,
    received_before: u64,
    shared: Weak<Mutex<State>>,
}

/// How far the reader of a watch has come.
#[derive(Clone, Debug)]
pub(crate) struct Reader(Option<WeakSender<WatchEvent>>);

impl Reader {
    /// Whether all was read that the watch has told, and it has not ended.
    pub(crate) fn is_up_to_date(&self) -> bool {
        let sender = self.0.as_ref().and_then(WeakSender::upgrade);
        sender.is_some_and(|sender| sender.capacity() == sender.max_capacity())
    }
}

impl Watch {
    /// How far whoever calls [`next`](Self::next) has come, as others see it.
    pub(crate) fn reader(&self) -> Reader {
        let shared = self.shared.upgrade();
        Reader(shared.and_then(|shared| lock(&shared).watching.get(&self.id).map(|watch| watch.sender.downgrade())))
    }

    /// What comes next; `None` when it has ended.
    pub(crate) async fn next(&mut self) -> Option<WatchEvent> {
        self.events.recv().await
    }

    /// Waits until it stands; `false` when it has ended.
    pub(crate) async fn begins(&mut self) -> bool {
        // Nothing else comes before.
        self.next().await.is_some()
    }

    /// Ends the stream that it is in, with all others in there, if nothing was told in it since this one was asked for.
    pub(crate) fn end_if_silent(&self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut state = lock(&shared);
        if state.watching.contains_key(&self.id) && state.received == self.received_before {
            state.end();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        lock(&shared).forget(self.id);
    }
}

/// All watches of a store.
#[derive(Debug)]
pub(super) struct Watches {
    shared: Arc<Mutex<State>>,
    runtime: Runtime,
}

#[derive(Debug, Default)]
struct State {
    /// Of the stream that is open.
    stream: Option<Open>,
    watching: HashMap<i64, Watching>,
    /// The last number that a watch was given. None is given twice.
    last: i64,
    streams: u64,
    /// How many answers were told in all streams.
    received: u64,
}

/// A watch that somebody listens to.
#[derive(Debug)]
struct Watching {
    what: What,
    sender: Sender<WatchEvent>,
    /// It was told that it stands.
    has_begun: bool,
}

/// A stream to be opened: its number, what is to be sent, and what ends with it.
type New = (u64, Requests, oneshot::Receiver<Infallible>);

#[derive(Debug)]
struct Open {
    number: u64,
    /// The member that it is with, as `Calls` counts.
    left: usize,
    requests: UnboundedSender<WatchRequest>,
    /// Without it nobody reads the stream any more.
    _is_open: oneshot::Sender<Infallible>,
}

impl Watches {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { shared: Arc::default(), runtime: Runtime::here_or_own()? })
    }

    /// Begins a watch, in a new stream if none is open.
    pub(super) fn watch(
        &self,
        what: What,
        left: usize,
        connect: impl FnOnce(Requests) -> (Grpc<Channel>, Request<Requests>),
    ) -> Watch {
        let mut state = lock(&self.shared);
        if let Some((number, sent, over)) = state.open(left) {
            let (grpc, request) = connect(sent);
            let receiving = run(Arc::downgrade(&self.shared), number, grpc, request);
            self.runtime.serve(async move {
                // One that was ended may be with a member that says nothing any more, not even that it has ended too.
                tokio::select! {
                    () = receiving => {}
                    _ = over => {}
                }
            });
        }
        let (id, events) = state.watch(what);
        Watch { id, events, received_before: state.received, shared: Arc::downgrade(&self.shared) }
    }

    /// Where what the store does by itself goes on.
    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Ends all watches at this member.
    pub(super) fn end(&self, left: usize) {
        lock(&self.shared).leave(left);
    }
}

impl State {
    /// A stream with this member, if none is open.
    fn open(&mut self, left: usize) -> Option<New> {
        if self.stream.as_ref().is_some_and(|stream| stream.left != left) {
            // It was opened while its member was being left.
            self.end();
        }
        if self.stream.is_some() {
            return None;
        }
        let (requests, sent) = mpsc::unbounded_channel();
        let (is_open, over) = oneshot::channel();
        self.streams += 1;
        self.stream = Some(Open { number: self.streams, left, requests, _is_open: is_open });
        Some((self.streams, Requests(sent), over))
    }

    fn watch(&mut self, what: What) -> (i64, Receiver<WatchEvent>) {
        self.last += 1;
        let (id, (sender, events)) = (self.last, mpsc::channel(UNREAD));
        self.send(RequestUnion::CreateRequest(WatchCreateRequest {
            key: what.key.clone(),
            range_end: what.end.clone(),
            start_revision: 0,
            filters: if what.only_deletions { vec![FilterType::Noput.into()] } else { Vec::new() },
            watch_id: id,
        }));
        self.watching.insert(id, Watching { what, sender, has_begun: false });
        (id, events)
    }

    /// Nobody listens to it any more.
    fn forget(&mut self, id: i64) {
        if self.watching.remove(&id).is_some() {
            self.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: id }));
        }
    }

    /// This member is asked no more.
    fn leave(&mut self, left: usize) {
        if self.stream.as_ref().is_some_and(|stream| stream.left <= left) {
            self.end();
        }
    }

    /// The stream of this number is over.
    fn is_over(&mut self, number: u64) {
        if self.stream.as_ref().is_some_and(|stream| stream.number == number) {
            self.end();
        }
    }

    /// What the stream of this number says; `false` when it is not the one that is open.
    fn on_response(&mut self, number: u64, response: WatchResponse) -> bool {
        let is_open = self.stream.as_ref().is_some_and(|stream| stream.number == number);
        if is_open {
            self.dispatch(response);
        }
        is_open
    }

    fn send(&self, request: RequestUnion) {
        if let Some(stream) = &self.stream {
            // One whose other end is gone is about to be ended.
            let _ = stream.requests.send(WatchRequest { request_union: Some(request) });
        }
    }

    fn end(&mut self) {
        self.stream = None;
        self.watching.clear();
    }

    fn dispatch(&mut self, response: WatchResponse) {
        self.received += 1;
        if response.canceled && response.watch_id == REFUSED {
            // It does not say whose: our token may be old. The next stream has the new one.
            return self.end();
        }
        let Some(watch) = self.watching.get_mut(&response.watch_id) else { return };
        let is_its_own = |event: &Event| event.kv.as_ref().is_some_and(|kv| watch.what.has(&kv.key));
        let begins = response.created && !response.canceled;
        if begins == watch.has_begun && (begins || !response.events.is_empty())
            || !response.events.iter().all(is_its_own)
        {
            // Not an answer to this one: the peer numbers watches otherwise, as etcd's gRPC proxy does.
            return self.end();
        }
        watch.has_begun |= begins;
        let event = match response {
            // Compacted, refused, or without a leader: whoever watches looks, and watches anew.
            WatchResponse { canceled: true, .. } => None,
            WatchResponse { created: true, .. } => Some(WatchEvent::Begun),
            WatchResponse { events, .. } if events.is_empty() => return,
            WatchResponse { events, .. } => Some(WatchEvent::Events(events)),
        };
        match event.map(|event| watch.sender.try_send(event)) {
            // etcd would go on with it. Its reader sees the end of the watch, and looks.
            Some(Err(TrySendError::Full(_))) => self.forget(response.watch_id),
            // Who does not listen any more is about to say so.
            Some(_) => {}
            None => drop(self.watching.remove(&response.watch_id)),
        }
    }
}

/// The requests of a stream.
pub(super) struct Requests(UnboundedReceiver<WatchRequest>);

impl Stream for Requests {
    type Item = WatchRequest;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

/// Receives the answers of one stream, until the stream ends or the client is gone.
async fn run(shared: Weak<Mutex<State>>, number: u64, grpc: Grpc<Channel>, request: Request<Requests>) {
    if let Err(status) = receive(&shared, number, grpc, request).await {
        tracing::debug!(target: "lockkeeper", %status, "the watches of etcd ended");
    }
    if let Some(shared) = shared.upgrade() {
        lock(&shared).is_over(number);
    }
}

async fn receive(
    shared: &Weak<Mutex<State>>,
    number: u64,
    mut grpc: Grpc<Channel>,
    request: Request<Requests>,
) -> Result<(), tonic::Status> {
    grpc.ready().await.map_err(|e| tonic::Status::from_error(e.into()))?;
    let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
    let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
    let mut responses = grpc.streaming(request, path, codec).await?.into_inner();
    while let Some(response) = responses.message().await? {
        let Some(shared) = shared.upgrade() else { break };
        if !lock(&shared).on_response(number, response) {
            break;
        }
    }
    Ok(())
}

/// No operation on it can panic half-way.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
