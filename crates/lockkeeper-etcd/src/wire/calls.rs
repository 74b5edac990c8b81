//! Requests: each goes to one member, with the token of the user, and has its time. After a failure
//! the next one goes to the next member.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use lockkeeper_core::sync::lock;
use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::error::WireError;
use super::member::Member;
use super::messages::{
    AuthenticateRequest, AuthenticateResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
};
use super::watches::{Watch, Watches, What};
use crate::gates::{Outage, SharingGate};
use crate::net::{Endpoint, TlsSettings};
use crate::time::Clock;
use crate::{Result, Secret};

/// A line of ten thousand waiters with what they show.
const LARGEST: usize = 64 << 20;

/// The user of the client.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    /// The user.
    pub(crate) user: String,
    /// The password.
    pub(crate) password: Secret,
}

/// How to connect, and how long to wait for answers.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Without a login, the certificate of the connection may name the user.
    pub(crate) login: Option<Login>,
    /// Without TLS, nothing is encrypted.
    pub(crate) tls: Option<TlsSettings>,
    /// How long a request may stay without an answer.
    pub(crate) timeout: Duration,
}

/// The members of a cluster, one of which is asked.
#[derive(Debug)]
pub(crate) struct Calls {
    members: Vec<Member>,
    /// How many members have been left: the next one is asked.
    left: AtomicUsize,
    login: Option<Login>,
    token: Mutex<Option<MetadataValue<Ascii>>>,
    /// The request that logs in (`gates` has the order).
    gate: SharingGate<WireError>,
    timeout: Duration,
    /// The member, as `left` counts, that did not answer a request with a short limit in time.
    slow: AtomicUsize,
    watches: Watches,
}

impl Calls {
    /// Does not connect yet.
    ///
    /// # Errors
    /// `Invalid` for an address that cannot be one.
    pub(crate) fn new(
        addresses: impl Iterator<Item = Endpoint>,
        settings: Settings,
    ) -> Result<Arc<Self>> {
        let Settings { login, tls, timeout } = settings;
        let members = addresses
            .map(|address| Member::new(address, tls.as_ref(), timeout / 2))
            .collect::<Result<_>>()?;
        let watches = Watches::new()?;
        Ok(Arc::new(Self {
            members,
            left: AtomicUsize::new(0),
            login,
            token: Mutex::default(),
            gate: SharingGate::default(),
            timeout,
            slow: AtomicUsize::new(usize::MAX),
            watches,
        }))
    }

    /// What the gates count as an outage.
    pub(crate) fn outage(&self) -> Outage {
        Outage::new(self.timeout, self.members.len())
    }

    /// Logs in, where there is a user.
    pub(crate) async fn log_in(&self) -> Result<(), WireError> {
        let Some(login) = &self.login else { return Ok(()) };
        let request = AuthenticateRequest {
            name: login.user.clone(),
            password: login.password.expose().to_owned(),
        };
        let left = self.left.load(Ordering::Acquire);
        let asked =
            self.once(left, "/etcdserverpb.Auth/Authenticate", request, None, self.timeout).await;
        let answer: AuthenticateResponse =
            asked.inspect_err(|error| self.leave_failed(left, error))?;
        let Ok(mut token) = MetadataValue::try_from(answer.token) else {
            return Err(WireError::broken("etcd has answered with a token that is none"));
        };
        token.set_sensitive(true);
        *lock(&self.token) = Some(token);
        // etcd looks at the token of a stream with each watch that begins in it.
        self.watches.end(left);
        Ok(())
    }

    /// Logs in, unless another request has logged in since this token was used. Other requests wait
    /// for the login, so it goes on whether this future is polled or not.
    async fn log_in_after(
        self: &Arc<Self>,
        old: Option<MetadataValue<Ascii>>,
    ) -> Result<(), WireError> {
        let calls = Arc::clone(self);
        let logging_in = async move {
            let log_in = async {
                if calls.token() != old {
                    return Ok(());
                }
                calls.log_in().await
            };
            calls.gate.pass(calls.outage(), log_in).await
        };
        let ended = || WireError::broken("the runtime in which the store was connected has ended");
        self.watches.runtime().carry_on(logging_in).await.unwrap_or_else(|| Err(ended()))
    }

    /// Asks one member. The request is on its way with the first poll.
    pub(crate) async fn ask<Q: Message + Clone + 'static, A: Message + Default + 'static>(
        self: &Arc<Self>,
        method: &'static str,
        request: Q,
    ) -> Result<A, WireError> {
        self.ask_within(method, request, self.timeout).await
    }

    /// Asks one member with a limit of its own, if that is shorter.
    pub(crate) async fn ask_within<Q: Message + Clone + 'static, A: Message + Default + 'static>(
        self: &Arc<Self>,
        method: &'static str,
        request: Q,
        within: Duration,
    ) -> Result<A, WireError> {
        let within = within.min(self.timeout);
        let again = self.login.as_ref().map(|_| request.clone());
        let (left, token) = (self.left.load(Ordering::Acquire), self.token());
        let asked = self.once(left, method, request, token.clone(), within).await;
        match (asked, again) {
            (Err(error), Some(request)) if error.is_of_an_old_token() => {
                self.log_in_after(token).await?;
                let left = self.left.load(Ordering::Acquire);
                let asked = self.once(left, method, request, self.token(), within).await;
                self.leave_if_failed(left, within, asked)
            }
            (asked, _) => self.leave_if_failed(left, within, asked),
        }
    }

    /// Asks each member by itself, all at the same time, and whether it has a leader or not.
    pub(crate) async fn ask_each<Q: Message + Clone + 'static, A: Message + Default + 'static>(
        &self,
        method: &'static str,
        request: Q,
        within: Duration,
    ) -> Vec<(String, Result<A, WireError>)> {
        let within = within.min(self.timeout);
        let ask = |(at, member): (usize, &Member)| {
            let mut request = self.signed(request.clone(), self.token());
            request.metadata_mut().remove("hasleader");
            let address = member.address.to_string();
            async move { (address, self.send(at, method, request, within).await) }
        };
        all(self.members.iter().enumerate().map(ask)).await
    }

    /// Renews leases in one stream. Returns how many seconds each lease has then; 0 for a lease
    /// that has ended.
    pub(crate) async fn keep_alive(
        self: &Arc<Self>,
        leases: &[i64],
        within: Duration,
    ) -> Result<HashMap<i64, i64>, WireError> {
        let within = within.min(self.timeout);
        let (left, token) = (self.left.load(Ordering::Acquire), self.token());
        let asked = self.kept_alive(left, leases, within).await;
        match asked {
            Err(error) if error.is_of_an_old_token() && self.login.is_some() => {
                self.log_in_after(token).await?;
                self.kept_alive(left, leases, within).await
            }
            asked => self.leave_if_failed(left, within, asked),
        }
    }

    async fn kept_alive(
        &self,
        left: usize,
        leases: &[i64],
        within: Duration,
    ) -> Result<HashMap<i64, i64>, WireError> {
        let requests: Vec<_> = leases.iter().map(|id| LeaseKeepAliveRequest { id: *id }).collect();
        let request = self.signed(tokio_stream::iter(requests), self.token());
        let mut grpc = self.grpc(left);
        let renewing = async {
            grpc.ready().await.map_err(|e| Status::from_error(e.into()))?;
            let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
            let codec = ProstCodec::<LeaseKeepAliveRequest, LeaseKeepAliveResponse>::default();
            let mut answers = grpc.streaming(request, path, codec).await?.into_inner();
            let mut ttls = HashMap::with_capacity(leases.len());
            while ttls.len() < leases.len() {
                let Some(answer) = answers.message().await? else { break };
                ttls.insert(answer.id, answer.ttl);
            }
            Ok::<_, Status>(ttls)
        };
        let ttls = self.member(left).noted(in_time(within, renewing).await)?;
        match ttls.len() == leases.len() {
            true => Ok(ttls),
            false => Err(WireError::broken("the stream of renewals ended before its last answer")),
        }
    }

    /// Watches for changes from now on.
    pub(crate) fn watch(&self, what: What) -> Watch {
        let left = self.left.load(Ordering::Acquire);
        self.watches
            .watch(what, left, |requests| (self.grpc(left), self.signed(requests, self.token())))
    }

    /// The addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = String> + '_ {
        self.members.iter().map(|member| member.address.to_string())
    }

    async fn once<Q: Message + 'static, A: Message + Default + 'static>(
        &self,
        left: usize,
        method: &'static str,
        request: Q,
        token: Option<MetadataValue<Ascii>>,
        within: Duration,
    ) -> Result<A, WireError> {
        self.send(left, method, self.signed(request, token), within).await
    }

    async fn send<Q: Message + 'static, A: Message + Default + 'static>(
        &self,
        left: usize,
        method: &'static str,
        request: Request<Q>,
        within: Duration,
    ) -> Result<A, WireError> {
        let mut grpc = self.grpc(left);
        let asking = async {
            grpc.ready().await.map_err(|e| Status::from_error(e.into()))?;
            let path = PathAndQuery::from_static(method);
            grpc.unary(request, path, ProstCodec::<Q, A>::default())
                .await
                .map(tonic::Response::into_inner)
        };
        self.member(left).noted(in_time(within, asking).await)
    }

    fn member(&self, left: usize) -> &Member {
        &self.members[left % self.members.len()]
    }

    fn grpc(&self, left: usize) -> Grpc<Channel> {
        Grpc::new(self.member(left).channel.clone()).max_decoding_message_size(LARGEST)
    }

    fn signed<T>(&self, message: T, token: Option<MetadataValue<Ascii>>) -> Request<T> {
        let mut request = Request::new(message);
        // A member that has no leader says so instead of answering from what it knew.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = token {
            request.metadata_mut().insert("token", token);
        }
        request
    }

    fn token(&self) -> Option<MetadataValue<Ascii>> {
        lock(&self.token).clone()
    }

    /// Leaves a member that fails, or that was too slow for two requests with short limits in a
    /// row.
    fn leave_if_failed<T>(
        &self,
        left: usize,
        within: Duration,
        asked: Result<T, WireError>,
    ) -> Result<T, WireError> {
        match &asked {
            Ok(_) => {
                let _ = self.slow.compare_exchange(
                    left,
                    usize::MAX,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                );
            }
            Err(WireError::Broken(_))
                if within < self.timeout && self.slow.swap(left, Ordering::AcqRel) != left => {}
            Err(error) => self.leave_failed(left, error),
        }
        asked
    }

    /// Leaves a member that fails, unless another request has left it already.
    fn leave_failed(&self, left: usize, error: &WireError) {
        if error.is_the_members_fault()
            && self
                .left
                .compare_exchange(left, left + 1, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
        {
            // Watches at a member that does not answer would receive nothing.
            self.watches.end(left);
        }
    }
}

/// The outputs of these futures, which run side by side.
pub(crate) async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|cx| {
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(cx) {
                *output = Some(ready);
            }
        }
        if running.iter().all(|(_, output)| output.is_some()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}

async fn in_time<T>(
    within: Duration,
    asking: impl Future<Output = Result<T, Status>>,
) -> Result<T, WireError> {
    match Clock::boot().timeout(within, asking).await {
        Some(answer) => answer.map_err(WireError::from),
        None => Err(WireError::broken(format!(
            "no answer within {}",
            crate::duration::format_duration(within)
        ))),
    }
}
