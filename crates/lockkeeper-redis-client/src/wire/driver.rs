//! The task behind a link. It connects, and reads and writes until the connection ends.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio_rustls::client::TlsStream;

use super::decoder::Decoder;
use super::error::{NO_SERVER, Who, WireError};
use super::handshake::{self, Purpose, Role, Server};
use super::life::{ConnectionEnd, LinkEnd, Phase, Up};
use super::queue::Whose;
use super::state::{Shared, State};
use crate::net::{self, Stream as Transport};
use crate::time::Instant;
use lockkeeper_core::kit::Backoff;

const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const LAST_BACKOFF: Duration = Duration::from_secs(1);
/// After a connection that lasted so long, the pauses begin at the shortest again.
const GOOD: Duration = Duration::from_secs(1);
/// After so many answer timeouts without a byte from the server the driver asks whether it is
/// there.
const SILENCE: u32 = 3;

/// Serves the link until its last handle is gone and every request is done. The link ends with this
/// future, also if an ended runtime drops the future before the first poll.
pub(super) fn run(shared: Arc<Shared>) -> impl Future<Output = ()> + Send + 'static {
    let drop_guard = DropGuard(Arc::clone(&shared));
    async move {
        let _drop_guard = drop_guard;
        serve_all(shared).await;
    }
}

async fn serve_all(shared: Arc<Shared>) {
    let mut backoff = Backoff::new(FIRST_BACKOFF, LAST_BACKOFF);
    loop {
        tokio::select! {
            biased;
            connected = connect(&shared) => match connected {
                Ok((connection, server)) => {
                    let began = shared.clock.now();
                    match serve(connection, server).await {
                        ConnectionEnd::Finished => return,
                        ConnectionEnd::Lost(why) => shared.lost(&why),
                    }
                    if shared.clock.now().saturating_since(began) >= GOOD {
                        backoff.reset();
                    }
                }
                Err(error) => shared.attempt_failed(error),
            },
            () = expire_until_idle(&shared) => return,
        }
        if shared.settings.once {
            return shared.end(LinkEnd::OnlyConnection);
        }
        tokio::select! {
            () = shared.clock.sleep(backoff.pause()) => {}
            () = expire_until_idle(&shared) => return,
        }
    }
}

/// Ends the link with the driver, also if the runtime ends first.
struct DropGuard(Arc<Shared>);

impl Drop for DropGuard {
    fn drop(&mut self) {
        self.0.end(LinkEnd::WithoutDriver("nobody serves it any more"));
    }
}

/// Fails the requests that wait for too long, while the link has no connection. Completes when the
/// link has ended, or no handle and no request are left.
async fn expire_until_idle(shared: &Shared) {
    loop {
        let now = shared.clock.now();
        shared.expire(now);
        let next = {
            let state = shared.lock();
            let since = state.queue.waits_since();
            if state.has_ended() || (state.closing && since.is_none()) {
                return;
            }
            since.map(|since| (since + shared.settings.timeout).saturating_since(now))
        };
        tokio::select! {
            () = shared.woken() => {}
            () = shared.clock.sleep(next.unwrap_or(Duration::MAX)), if next.is_some() => {}
        }
    }
}

async fn connect(shared: &Arc<Shared>) -> Result<(Connection, Server), WireError> {
    let (endpoint, settings) = (&shared.endpoint, &shared.settings);
    let within = settings.connect_timeout;
    let attempt = async {
        let mut transport = net::connect(endpoint, settings.tls.as_ref(), within)
            .await
            .map_err(WireError::NotSent)?;
        let mut decoder = Decoder::new(shared.purpose == Purpose::Messages);
        let server =
            handshake::greet(&mut transport, &mut decoder, settings, shared.purpose).await?;
        let wants_master =
            settings.only_master || (settings.stays_master && shared.lock().connections > 0);
        if wants_master && server.role == Role::Replica {
            return Err(WireError::NotSent("it is a replica".to_owned()));
        }
        if let Some(policy) = &server.forgets {
            return Err(WireError::forgetful(policy));
        }
        Ok((transport, decoder, server))
    };
    let outcome = match shared.clock.timeout(within, attempt).await {
        Some(outcome) => outcome,
        None => Err(WireError::NotSent(format!("it did not answer within {within:?}"))),
    };
    match outcome {
        Ok((transport, decoder, server)) => {
            Ok((Connection::new(shared, transport, decoder), server))
        }
        Err(WireError::NotSent(why)) => {
            Err(WireError::NotSent(format!("{endpoint} cannot be reached: {why}")))
        }
        Err(refusal) if refusal.is(NO_SERVER) => {
            Err(refusal.said_by(Who::Server(endpoint.clone())))
        }
        Err(refusal) => Err(refusal),
    }
}

/// Serves one connection until it ends.
async fn serve(mut connection: Connection, server: Server) -> ConnectionEnd {
    let writer = match &mut connection.stream {
        Stream::Plain { writer, .. } => writer.take(),
        Stream::Tls(_) => None,
    };
    connection.shared.up(server, writer);
    std::future::poll_fn(|cx| connection.poll(cx)).await
}

enum Stream {
    Plain { reader: OwnedReadHalf, writer: Option<tokio::net::tcp::OwnedWriteHalf> },
    Tls(Box<TlsStream<TcpStream>>),
}

struct Connection {
    shared: Arc<Shared>,
    stream: Stream,
    decoder: Decoder,
    chunk: Box<[u8]>,
    /// When the last bytes arrived.
    last_received: Instant,
    alarm: Pin<Box<dyn Future<Output = ()> + Send>>,
    alarm_at: Instant,
}

impl Connection {
    fn new(shared: &Arc<Shared>, transport: Transport, decoder: Decoder) -> Self {
        let stream = match transport {
            Transport::Plain(socket) => {
                let (reader, writer) = socket.into_split();
                Stream::Plain { reader, writer: Some(writer) }
            }
            Transport::Tls(stream) => Stream::Tls(stream),
        };
        let now = shared.clock.now();
        Self {
            shared: Arc::clone(shared),
            stream,
            decoder,
            chunk: vec![0; 16 << 10].into_boxed_slice(),
            last_received: now,
            alarm: Box::pin(std::future::ready(())),
            alarm_at: now,
        }
    }

    /// Ready when the connection ends.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionEnd> {
        loop {
            if let Poll::Ready(why) = self.read(cx) {
                return Poll::Ready(ConnectionEnd::Lost(why));
            }
            match self.write(cx) {
                Ok(Poll::Pending) => {}
                Ok(Poll::Ready(())) => return Poll::Ready(ConnectionEnd::Finished),
                Err(why) => return Poll::Ready(ConnectionEnd::Lost(why)),
            }
            if let Err(why) = ready!(self.time(cx)) {
                return Poll::Ready(ConnectionEnd::Lost(why));
            }
        }
    }

    /// Reads all that has arrived. Ready when the connection is lost, with the reason.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        loop {
            let mut buf = ReadBuf::new(&mut self.chunk);
            let read = match &mut self.stream {
                Stream::Plain { reader, .. } => Pin::new(reader).poll_read(cx, &mut buf),
                Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, &mut buf),
            };
            if let Err(e) = ready!(read) {
                return Poll::Ready(e.to_string());
            }
            if buf.filled().is_empty() {
                return Poll::Ready("it was closed by the other side".to_owned());
            }
            self.decoder.feed(buf.filled());
            if let Err(e) = self.received() {
                return Poll::Ready(e);
            }
        }
    }

    fn received(&mut self) -> Result<(), String> {
        self.last_received = self.shared.clock.now();
        let mut said = Vec::new();
        let outcome = loop {
            match self.decoder.next() {
                Ok(Some(incoming)) => said.push(incoming),
                Ok(None) => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        // The answers before the first one that makes no sense are good.
        self.shared.receive(said).and(outcome)
    }

    /// Writes the requests that wait. Ready when the connection has nothing left to do.
    ///
    /// # Errors
    /// Why the connection is lost.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, String> {
        let now = self.shared.clock.now();
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        if !state.driver.as_ref().is_some_and(|driver| driver.will_wake(cx.waker())) {
            state.driver = Some(cx.waker().clone());
        }
        let writer = match &state.phase {
            Phase::Ended(why) | Phase::Up(Up { reset: Some(why), .. }) => return Err(why.clone()),
            Phase::Up(up) => up.writer.as_ref(),
            Phase::Connecting => None,
        };
        loop {
            let bytes = state.queue.gather(now);
            if bytes.is_empty() {
                break;
            }
            let wrote = match (&mut self.stream, writer) {
                (Stream::Tls(stream), _) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
                (_, Some(writer)) => match writer.try_write(bytes) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                        match writer.as_ref().poll_write_ready(cx) {
                            Poll::Ready(Ok(())) => continue,
                            Poll::Ready(Err(e)) => Poll::Ready(Err(e)),
                            Poll::Pending => Poll::Pending,
                        }
                    }
                    wrote => Poll::Ready(wrote),
                },
                (Stream::Plain { .. }, None) => return Err("it was closed".to_owned()),
            };
            match wrote {
                Poll::Ready(Ok(0)) => return Err("it takes nothing any more".to_owned()),
                Poll::Ready(Ok(count)) => state.queue.wrote(count),
                Poll::Ready(Err(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(e)) => {
                    if matches!(self.stream, Stream::Tls(_)) {
                        // A part of the bytes may have left before the error came.
                        state.queue.may_be_written();
                    }
                    return Err(e.to_string());
                }
                Poll::Pending => break,
            }
        }
        if let Stream::Tls(stream) = &mut self.stream
            && let Poll::Ready(Err(e)) = Pin::new(stream.as_mut()).poll_flush(cx)
        {
            return Err(e.to_string());
        }
        let done = state.closing && state.queue.is_empty();
        Ok(if done { Poll::Ready(()) } else { Poll::Pending })
    }

    /// Ready when there is something to write: a question whether the server is still there, or a
    /// subscription again.
    ///
    /// # Errors
    /// The server was silent for too long, so the connection is lost.
    fn time(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        let timeout = self.shared.settings.timeout;
        loop {
            let now = self.shared.clock.now();
            self.shared.expire(now);
            let mut state = self.shared.lock();
            let next = match state.queue.unanswered_since() {
                Some(since) if since + timeout <= now => {
                    return Poll::Ready(Err(format!("it did not answer within {timeout:?}")));
                }
                Some(since) => since + timeout,
                // A caller that has a connection alone may be in the middle of a transaction. The
                // question would become a part of that transaction.
                None if self.shared.settings.once => now + timeout * SILENCE,
                None => self.last_received + timeout * SILENCE,
            };
            if state.channels.again_at().is_some_and(|again_at| again_at <= now) {
                let State { channels, nonces, queue, .. } = &mut *state;
                queue.push_first(channels.again(nonces).into_iter(), now);
                return Poll::Ready(Ok(()));
            }
            if next <= now {
                let nonce = state.nonces.next();
                state.queue.push(nonce.question(), Whose::Ours(nonce), now);
                self.last_received = now;
                return Poll::Ready(Ok(()));
            }
            let next = state.channels.again_at().map_or(next, |again_at| again_at.min(next));
            if next < self.alarm_at || self.alarm_at <= now {
                let (clock, wait) = (self.shared.clock.clone(), next.saturating_since(now));
                self.alarm = Box::pin(async move { clock.sleep(wait).await });
                self.alarm_at = next;
            }
            state.alarm = self.alarm_at;
            drop(state);
            ready!(self.alarm.as_mut().poll(cx));
            // The alarm may end a little early by the clock of the link.
            self.alarm_at = now;
        }
    }
}
