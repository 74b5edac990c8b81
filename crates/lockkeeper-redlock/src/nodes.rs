//! The connections to the nodes, and the requests to all of them in parallel.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockkeeper_core::kit::net::Endpoint;
use lockkeeper_core::sync::lock;
use lockkeeper_core::time::Clock;
use lockkeeper_core::{Error, ErrorKind, Result};
use lockkeeper_redis_client::wire::{Answer, Link, Listener, Request, Value, WireError};

use crate::fault::{NodeFault, other_members};
use crate::late::{self, Latency, UnderWay};
use crate::layout::NodeAnswer;
use crate::protocol;
use crate::pushed::Pushed;
use crate::setup::Setup;

/// The nodes of a store, in the order of its URL.
#[derive(Debug)]
pub(crate) struct Nodes {
    all: Vec<Node>,
    /// The servers as all clients name them, in the order of the nodes.
    names: Vec<String>,
    /// The same in an order that all clients have, as one text.
    members: String,
    clock: Clock,
}

/// One independent server.
#[derive(Debug)]
struct Node {
    link: Link,
    shown: String,
    /// The run of the server on the connection with this number.
    run: Mutex<Option<(u64, Arc<str>)>>,
    latency: Latency,
    others: Others,
}

/// Whether the clients of a node have other servers than this client, as the node has answered
/// last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Others(Arc<Mutex<Listed>>);

#[derive(Debug, Default)]
struct Listed {
    /// The connection on which the node has answered last, and the servers of its clients, if they
    /// are others.
    said: Option<(u64, Option<String>)>,
    /// The last connection on which a grant has waited for an answer in vain.
    missed: Option<u64>,
}

impl Others {
    /// Takes note of an answer to a claim that was sent on this connection.
    pub(crate) fn note(&self, connection: Option<u64>, said: &Result<NodeAnswer, NodeFault>) {
        let (Some(connection), Ok(said)) = (connection, said) else { return };
        let theirs = match said {
            NodeAnswer::Members(theirs) => Some(theirs.clone()),
            _ => None,
        };
        lock(&self.0).said = Some((connection, theirs));
    }
}

/// The answer of a node, or why there is none.
pub(crate) type Reply = Result<Value, NodeFault>;

/// The reply of a node to come. Dropping it forgets the reply, never the request.
pub(crate) type Coming<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Nodes {
    pub(crate) fn open(setup: &Setup, pushed: &Arc<Pushed>) -> Result<Self> {
        let settings = setup.settings()?;
        let node = |(at, (endpoint, settings)): (usize, (Endpoint, _))| Node {
            shown: endpoint.to_string(),
            link: Link::open(
                endpoint,
                Arc::new(settings),
                Arc::new(NodeListener { node: at, pushed: Arc::downgrade(pushed) }),
            ),
            run: Mutex::default(),
            latency: Latency::default(),
            others: Others::default(),
        };
        let all = setup.endpoints().zip(settings).enumerate().map(node).collect();
        let names = setup.member_names();
        let mut sorted = names.clone();
        sorted.sort();
        Ok(Self { all, names, members: sorted.join(","), clock: Clock::boot() })
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn quorum(&self) -> usize {
        protocol::quorum(self.all.len())
    }

    pub(crate) fn shown(&self, node: usize) -> &str {
        &self.all[node].shown
    }

    pub(crate) fn link(&self, node: usize) -> &Link {
        &self.all[node].link
    }

    /// How long a node that is not late takes at most.
    pub(crate) fn on_time(&self) -> Duration {
        late::limit(self.all.iter().map(|node| node.latency.get()), self.quorum())
    }

    /// Whether a node has answered late, or not at all, when it was asked last.
    pub(crate) fn is_late(&self, node: usize) -> bool {
        self.all[node].latency.get() >= self.on_time()
    }

    /// A caller has waited for the answer of a node until the node was late.
    pub(crate) fn was_missed(&self, node: usize) {
        self.all[node].latency.is_at_least(self.on_time());
    }

    pub(crate) fn name(&self, node: usize) -> &str {
        &self.names[node]
    }

    pub(crate) fn members(&self) -> &str {
        &self.members
    }

    pub(crate) fn others(&self, node: usize) -> Others {
        self.all[node].others.clone()
    }

    /// Takes note of the servers of the clients of a node. Returns whether they are others.
    pub(crate) fn lists_others(&self, node: usize, theirs: &str) -> bool {
        let at = &self.all[node];
        let is_other = theirs != self.members;
        let theirs = is_other.then(|| theirs.to_owned());
        lock(&at.others.0).said = at.link.connection().map(|connection| (connection, theirs));
        is_other
    }

    /// The servers of the clients of a node, if they are others, as it has said on its connection.
    fn theirs(&self, node: usize) -> Option<String> {
        let at = &self.all[node];
        let (connection, theirs) = lock(&at.others.0).said.clone()?;
        theirs.filter(|_| at.link.connection() == Some(connection))
    }

    /// Whether a node has said nothing on its connection, and no grant has waited for it there.
    pub(crate) fn is_unasked(&self, node: usize) -> bool {
        let at = &self.all[node];
        let connection = at.link.connection();
        let listed = lock(&at.others.0);
        let said = listed.said.as_ref().map(|(connection, _)| *connection);
        connection.is_some() && said != connection && listed.missed != connection
    }

    /// Whether a later answer of this node may still be news: it has not said that it agrees.
    pub(crate) fn has_to_say(&self, node: usize) -> bool {
        let at = &self.all[node];
        let agreed = matches!(&lock(&at.others.0).said, Some((connection, None))
            if at.link.connection() == Some(*connection));
        !agreed
    }

    /// A grant has waited for this node in vain.
    pub(crate) fn was_asked_in_vain(&self, node: usize) {
        let at = &self.all[node];
        lock(&at.others.0).missed = at.link.connection();
    }

    /// Whether an answer of this node may decide if the claims of this client count.
    pub(crate) fn is_undecided(&self, node: usize) -> bool {
        self.is_unasked(node) || self.theirs(node).is_some() && self.check_members().is_err()
    }

    /// Checks that no clients with other servers can have a majority, as far as the nodes have
    /// answered. A node whose clients have another list is no danger, if so many servers of that
    /// list have the list of this client that the others are no majority.
    ///
    /// # Errors
    /// `Unavailable` with such a node, and the servers of its clients.
    pub(crate) fn check_members(&self) -> Result<()> {
        for node in 0..self.all.len() {
            let Some(theirs) = self.theirs(node) else { continue };
            let size = theirs.split(',').count();
            let is_theirs = |node: &usize| theirs.split(',').any(|name| name == self.names[*node]);
            // A server that is gone serves the others no more than this client.
            let ours =
                |node: &usize| matches!(lock(&self.all[*node].others.0).said, Some((_, None)));
            let shared = (0..self.all.len()).filter(is_theirs).filter(ours).count();
            if shared <= size - protocol::quorum(size) {
                return Err(other_members(&theirs).at(self.shown(node)));
            }
        }
        Ok(())
    }

    pub(crate) fn subscribe(&self, channel: &[u8]) {
        self.all.iter().for_each(|node| node.link.subscribe(channel.to_vec(), false));
    }

    /// Sends a request to a node that has a connection. `request` gets the run of its server: the
    /// answer counts only if the same run has given it.
    pub(crate) fn ask(&self, node: usize, request: impl FnOnce(&str) -> Request) -> Coming<Reply> {
        self.ask_with(node, Link::send, request)
    }

    /// The same for a claim. The connection of a server that lacks the script would repeat the
    /// claim, and might do so behind its withdrawal.
    pub(crate) fn ask_once(
        &self,
        node: usize,
        request: impl FnOnce(&str) -> Request,
    ) -> Coming<Reply> {
        self.ask_with(node, Link::send_once, request)
    }

    fn ask_with(
        &self,
        node: usize,
        send: impl FnOnce(&Link, Request) -> Answer,
        request: impl FnOnce(&str) -> Request,
    ) -> Coming<Reply> {
        let at = &self.all[node];
        let sent = self.run(node).map(|(number, run)| (number, send(&at.link, request(&run))));
        let link = at.link.clone();
        let under_way = sent.is_ok().then(|| at.latency.sent(&self.clock));
        Box::pin(async move {
            let (number, answer) = sent?;
            let value = answer.await.map_err(NodeFault::of)?;
            under_way.into_iter().for_each(UnderWay::answered);
            if link.connection() != Some(number) {
                let why = "the connection was lost meanwhile".to_owned();
                return Err(NodeFault::Unreachable { why, sent: true });
            }
            Ok(value)
        })
    }

    /// The run of the server, on its present connection.
    ///
    /// # Errors
    /// Why the node cannot be used.
    pub(crate) fn run(&self, node: usize) -> Result<(u64, Arc<str>), NodeFault> {
        let at = &self.all[node];
        let Some(number) = at.link.connection() else { return Err(at.missing()) };
        let known = lock(&at.run).clone().filter(|(known, _)| *known == number);
        let (number, run) = match known {
            Some(known) => known,
            None => at.look()?,
        };
        *lock(&at.run) = Some((number, Arc::clone(&run)));
        let is_same = |other: &&Node| {
            other.shown != at.shown
                && other.link.is_connected()
                && lock(&other.run).as_ref().is_some_and(|(_, other)| *other == run)
        };
        match self.all[..node].iter().find(is_same) {
            Some(other) => Err(NodeFault::Twin(other.shown.clone())),
            None => Ok((number, run)),
        }
    }

    /// Waits until each node has a connection or has failed, at most for this time.
    pub(crate) async fn ready(&self, within: Duration) {
        let mut all: Vec<Coming<()>> = Vec::new();
        for node in &self.all {
            let link = node.link.clone();
            all.push(Box::pin(async move { drop(link.ready().await) }));
        }
        let mut round = Round { all: all.into_iter().enumerate().collect() };
        let ready = async { while round.next().await.is_some() {} };
        let _ = self.clock.timeout(within, ready).await;
    }
}

/// An answer that its request cannot have: later answers on the connection may belong to other
/// requests too.
pub(crate) fn garbled(link: &Link) -> NodeFault {
    let why = "it gave an answer that is not one of the request";
    link.reset(why);
    NodeFault::Unreachable { why: why.to_owned(), sent: true }
}

impl Node {
    fn look(&self) -> Result<(u64, Arc<str>), NodeFault> {
        let run = self.link.run().ok_or_else(|| self.missing())?;
        let id = run.id.ok_or_else(|| {
            let problem = format!("{} does not report its run_id", self.shown);
            NodeFault::Refused(
                Error::new(ErrorKind::Denied, problem).with_remedy("the right to INFO"),
            )
        })?;
        Ok((run.connection, id.into()))
    }

    /// Why there is no connection.
    fn missing(&self) -> NodeFault {
        let failed = pin!(self.link.ready()).poll(&mut Context::from_waker(Waker::noop()));
        match failed {
            Poll::Ready(Err(error)) => NodeFault::of(match error {
                WireError::Broken(why) => WireError::NotSent(why),
                error => error,
            }),
            _ => NodeFault::Unreachable { why: "there is no connection yet".into(), sent: false },
        }
    }
}

/// Replies of several nodes, each as soon as it comes.
pub(crate) struct Round<T> {
    all: Vec<(usize, Coming<T>)>,
}

impl<T> Round<T> {
    pub(crate) fn new() -> Self {
        Self { all: Vec::new() }
    }

    pub(crate) fn add(&mut self, node: usize, reply: impl Future<Output = T> + Send + 'static) {
        self.all.push((node, Box::pin(reply)));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The nodes whose replies are to come.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = usize> {
        self.all.iter().map(|(node, _)| *node)
    }

    /// The next reply; `None` if all have come.
    pub(crate) async fn next(&mut self) -> Option<(usize, T)> {
        poll_fn(|cx| {
            if self.all.is_empty() {
                return Poll::Ready(None);
            }
            for at in 0..self.all.len() {
                if let Poll::Ready(reply) = self.all[at].1.as_mut().poll(cx) {
                    let (node, _) = self.all.swap_remove(at);
                    return Poll::Ready(Some((node, reply)));
                }
            }
            Poll::Pending
        })
        .await
    }
}

impl<T> fmt::Debug for Round<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.waiting()).finish()
    }
}

/// Receives the messages of one node. The connection keeps it, so it must not keep the store.
#[derive(Debug)]
struct NodeListener {
    node: usize,
    pushed: Weak<Pushed>,
}

impl Listener for NodeListener {
    fn pushed(&self, _channel: &[u8], payload: &[u8]) {
        if let Some(pushed) = self.pushed.upgrade() {
            pushed.waiters.free(self.node, payload);
        }
    }

    fn subscribed(&self, _channel: &[u8]) {
        if let Some(pushed) = self.pushed.upgrade() {
            pushed.waiters.look_again(self.node);
        }
    }

    fn unsubscribed(&self, channel: &[u8]) {
        self.subscribed(channel);
    }

    fn reconnected(&self) {
        if let Some(pushed) = self.pushed.upgrade() {
            pushed.losses.notify(lockkeeper_core::store::Losses::reconnected);
        }
    }
}
