//! Watches: all of them in one stream, of the member that is asked.
//!
//! A watch begins now, and not at a past revision: etcd serves a watch from the past only every 100
//! ms. A caller that needs to know what happened before looks once the watch stands. From then on
//! etcd reports all changes of the keys, in the order of their revisions, and this module passes
//! them on without a gap, or ends the watch.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use lockkeeper_core::sync::lock;
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

/// etcd's answer instead of the number of a watch, if it refuses the watch.
const REFUSED: i64 = -1;

/// So many answers wait for the reader of a watch. The watch of a reader that is later than that
/// ends.
const UNREAD: usize = 256;

/// The keys that a watch is for.
#[derive(Clone, Debug)]
pub(crate) struct What {
    /// The key, or the first key of a range.
    pub(crate) key: Bytes,
    /// The end of the range, which is not part of it; empty for one key.
    pub(crate) end: Bytes,
    /// Only deletions are reported, and no puts.
    pub(crate) only_deletions: bool,
}

impl What {
    fn has(&self, key: &Bytes) -> bool {
        *key == self.key || (*key > self.key && *key < self.end)
    }
}

/// What a watch receives.
#[derive(Debug)]
enum Report {
    /// The watch stands: it misses no change from now on.
    Begun,
    /// Changes of one revision or of several ones.
    Events(Vec<Event>),
}

/// A watch, until it is dropped. A watch that has ended may have missed changes.
#[derive(Debug)]
pub(crate) struct Watch {
    id: i64,
    events: Receiver<Report>,
    received_before: u64,
    shared: Weak<Mutex<State>>,
}

/// How far the reader of a watch has come.
#[derive(Clone, Debug)]
pub(crate) struct Reader(Option<WeakSender<Report>>);

impl Reader {
    /// Whether the watch has not ended, and its reader has read all that it received.
    pub(crate) fn is_up_to_date(&self) -> bool {
        let sender = self.0.as_ref().and_then(WeakSender::upgrade);
        sender.is_some_and(|sender| sender.capacity() == sender.max_capacity())
    }
}

impl Watch {
    /// How far the caller of [`next`](Self::next) has come.
    pub(crate) fn reader(&self) -> Reader {
        let shared = self.shared.upgrade();
        Reader(shared.and_then(|shared| {
            lock(&shared).watching.get(&self.id).map(|watch| watch.sender.downgrade())
        }))
    }

    /// Waits until the watch stands; `false` if it has ended. To be called once, before
    /// [`next`](Self::next).
    pub(crate) async fn begins(&mut self) -> bool {
        // Nothing else comes first.
        self.events.recv().await.is_some()
    }

    /// The next changes; `None` if the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            if let Report::Events(events) = self.events.recv().await? {
                return Some(events);
            }
        }
    }

    /// Ends the stream of this watch, and with it all watches of the stream, if the stream has
    /// received nothing since this watch was requested.
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
    /// The stream that is open.
    stream: Option<Open>,
    watching: HashMap<i64, Watching>,
    /// The number of the latest watch. No number is used twice.
    last: i64,
    streams: u64,
    /// How many answers all streams have received.
    received: u64,
}

/// A watch that has a reader.
#[derive(Debug)]
struct Watching {
    what: What,
    sender: Sender<Report>,
    /// etcd has reported that the watch stands.
    has_begun: bool,
}

/// A stream to be opened: its number, its requests, and what resolves when the stream was ended
/// here.
type New = (u64, Requests, oneshot::Receiver<Infallible>);

#[derive(Debug)]
struct Open {
    number: u64,
    /// The member of the stream, as `Calls` counts.
    left: usize,
    requests: UnboundedSender<WatchRequest>,
    /// The stream is no longer read when this is dropped.
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
                // The member of a stream that was ended here may hang, and never report the end of
                // the stream.
                tokio::select! {
                    () = receiving => {}
                    _ = over => {}
                }
            });
        }
        let (id, events) = state.watch(what);
        Watch { id, events, received_before: state.received, shared: Arc::downgrade(&self.shared) }
    }

    /// The runtime of the work that the store does by itself.
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
            // The stream was opened while its member was being left.
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

    fn watch(&mut self, what: What) -> (i64, Receiver<Report>) {
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

    /// The watch has no reader any more.
    fn forget(&mut self, id: i64) {
        if self.watching.remove(&id).is_some() {
            self.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: id }));
        }
    }

    /// The requests go to another member from now on.
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

    /// Takes an answer of the stream with this number; `false` if that stream is not the open one.
    fn on_response(&mut self, number: u64, response: WatchResponse) -> bool {
        let is_open = self.stream.as_ref().is_some_and(|stream| stream.number == number);
        if is_open {
            self.dispatch(response);
        }
        is_open
    }

    fn send(&self, request: RequestUnion) {
        if let Some(stream) = &self.stream {
            // A stream whose other end is gone is about to be ended.
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
            // etcd does not say which watch it refuses: the token may be old. The next stream has
            // the new token.
            return self.end();
        }
        let Some(watch) = self.watching.get_mut(&response.watch_id) else { return };
        let is_its_own =
            |event: &Event| event.kv.as_ref().is_some_and(|kv| watch.what.has(&kv.key));
        let begins = response.created && !response.canceled;
        if begins == watch.has_begun && (begins || !response.events.is_empty())
            || !response.events.iter().all(is_its_own)
        {
            // This is no answer to this watch: the peer numbers watches in its own way, as etcd's
            // gRPC proxy does.
            return self.end();
        }
        watch.has_begun |= begins;
        let event = match response {
            // Compacted, refused, or without a leader: the reader watches again, and looks.
            WatchResponse { canceled: true, .. } => None,
            WatchResponse { created: true, .. } => Some(Report::Begun),
            WatchResponse { events, .. } if events.is_empty() => return,
            WatchResponse { events, .. } => Some(Report::Events(events)),
        };
        match event.map(|event| watch.sender.try_send(event)) {
            // The reader is late. It sees the end of the watch, watches again, and looks.
            Some(Err(TrySendError::Full(_))) => self.forget(response.watch_id),
            // A reader that is gone is about to forget the watch.
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
async fn run(
    shared: Weak<Mutex<State>>,
    number: u64,
    grpc: Grpc<Channel>,
    request: Request<Requests>,
) {
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
