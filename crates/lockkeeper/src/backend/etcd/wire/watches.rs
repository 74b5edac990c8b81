//! Watches: all of them in one stream, of the member that is asked.
//!
//! A watch begins now, and not at a revision of the past: etcd serves those that begin in the past every 100 ms only,
//! however late they are. Whoever has to know what happened before asks once it stands.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
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

/// What etcd answers instead of the number of a watch that it refuses.
const REFUSED: i64 = -1;

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

/// What is told of it.
#[derive(Debug)]
pub(crate) enum Told {
    /// From now on nothing is missed.
    Begun,
    /// This happened, together.
    Events(Vec<Event>),
}

/// A watch, until it is dropped. When nothing is told any more it has ended: what came after may have been missed.
#[derive(Debug)]
pub(crate) struct Watch {
    id: i64,
    told: UnboundedReceiver<Told>,
    heard_before: u64,
    shared: Weak<Mutex<State>>,
}

impl Watch {
    /// What comes next; `None` when it has ended.
    pub(crate) async fn next(&mut self) -> Option<Told> {
        self.told.recv().await
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
        if state.watching.contains_key(&self.id) && state.heard == self.heard_before {
            state.end();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut state = lock(&shared);
        if state.watching.remove(&self.id).is_some() {
            state.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: self.id }));
        }
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
    watching: HashMap<i64, UnboundedSender<Told>>,
    /// The last number that a watch was given. None is given twice.
    last: i64,
    streams: u64,
    /// How many answers were told in all streams.
    heard: u64,
}

#[derive(Debug)]
struct Open {
    number: u64,
    /// The member that it is with, as `Calls` counts.
    left: usize,
    requests: UnboundedSender<WatchRequest>,
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
        if state.stream.as_ref().is_some_and(|stream| stream.left != left) {
            // It was opened while its member was being left.
            state.end();
        }
        if state.stream.is_none() {
            let (requests, sent) = mpsc::unbounded_channel();
            state.streams += 1;
            let number = state.streams;
            state.stream = Some(Open { number, left, requests });
            let (grpc, request) = connect(Requests(sent));
            self.runtime.serve(run(Arc::downgrade(&self.shared), number, grpc, request));
        }
        state.last += 1;
        let id = state.last;
        let (tell, told) = mpsc::unbounded_channel();
        state.watching.insert(id, tell);
        state.send(RequestUnion::CreateRequest(WatchCreateRequest {
            key: what.key,
            range_end: what.end,
            start_revision: 0,
            filters: if what.only_deletions { vec![FilterType::Noput.into()] } else { Vec::new() },
            watch_id: id,
        }));
        Watch { id, told, heard_before: state.heard, shared: Arc::downgrade(&self.shared) }
    }

    /// Ends all watches at this member.
    pub(super) fn end(&self, left: usize) {
        let mut state = lock(&self.shared);
        if state.stream.as_ref().is_some_and(|stream| stream.left <= left) {
            state.end();
        }
    }
}

impl State {
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

    fn heard(&mut self, response: WatchResponse) {
        self.heard += 1;
        if response.canceled && response.watch_id == REFUSED {
            // It does not say whose: our token may be old. The next stream has the new one.
            return self.end();
        }
        let Some(watch) = self.watching.get(&response.watch_id) else { return };
        let told = match response {
            // Compacted, refused, or without a leader: whoever watches looks, and watches anew.
            WatchResponse { canceled: true, .. } => None,
            WatchResponse { created: true, .. } => Some(Told::Begun),
            WatchResponse { events, .. } if events.is_empty() => return,
            WatchResponse { events, .. } => Some(Told::Events(events)),
        };
        match told {
            // Who does not listen any more is about to say so.
            Some(told) => drop(watch.send(told)),
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

/// Hears what one stream says, until it ends or nobody is there any more.
async fn run(shared: Weak<Mutex<State>>, number: u64, grpc: Grpc<Channel>, request: Request<Requests>) {
    if let Err(status) = hear(&shared, number, grpc, request).await {
        tracing::debug!(target: "lockkeeper", %status, "the watches of etcd ended");
    }
    if let Some(shared) = shared.upgrade() {
        let mut state = lock(&shared);
        if state.stream.as_ref().is_some_and(|stream| stream.number == number) {
            state.end();
        }
    }
}

async fn hear(
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
        let mut state = lock(&shared);
        if state.stream.as_ref().is_none_or(|stream| stream.number != number) {
            break;
        }
        state.heard(response);
    }
    Ok(())
}

/// No operation on it can panic half-way.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
