//! The task behind a link: connects, and reads and writes for as long as the connection lasts.

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
use super::queue::Whose;
use super::state::{Shared, State};
use crate::net::{self, Stream as Transport};
use crate::time::Instant;
use lockkeeper_core::kit::Backoff;

const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const LAST_BACKOFF: Duration = Duration::from_secs(1);
/// A connection that lasted so long was a good one.
const GOOD: Duration = Duration::from_secs(1);
/// How long a server may be silent before it is asked whether it is there, in answer timeouts.
const SILENCE: u32 = 3;

/// Serves the link until its last handle is gone and what was sent is done. A runtime that has
/// ended drops it before the first poll; the link hears of that too.
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
                    if serve(connection, server).await.is_break() {
                        return;
                    }
                    if shared.clock.now().saturating_since(began) >= GOOD {
                        backoff.reset();
                    }
                }
                Err(error) => shared.failed(error),
            },
            () = expire_until_idle(&shared) => return,
        }
        if shared.settings.once {
            return shared.give_up();
        }
        tokio::select! {
            () = shared.clock.sleep(backoff.pause()) => {}
            () = expire_until_idle(&shared) => return,
        }
    }
}

/// Also runs when the runtime ends before the link does.
struct DropGuard(Arc<Shared>);

impl Drop for DropGuard {
    fn drop(&mut self) {
        self.0.end("nobody serves it any more");
    }
}

/// Without a connection: gives up the requests that have waited for too long. Completes when no
/// request is left.
async fn expire_until_idle(shared: &Shared) {
    loop {
        let now = shared.clock.now();
        shared.expire(now);
        let next = {
            let state = shared.lock();
            let since = state.queue.waits_since();
            if state.ended.is_some() || (state.closing && since.is_none()) {
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

/// Serves one connection until it is lost, or (break) nobody needs it any more.
async fn serve(mut connection: Connection, server: Server) -> std::ops::ControlFlow<()> {
    let shared = Arc::clone(&connection.shared);
    let writer = match &mut connection.stream {
        Stream::Plain { writer, .. } => writer.take(),
        Stream::Tls(_) => None,
    };
    shared.up(server, writer);
    match std::future::poll_fn(|cx| connection.poll(cx)).await {
        Ok(()) => std::ops::ControlFlow::Break(()),
        Err(why) => {
            shared.down(&why);
            std::ops::ControlFlow::Continue(())
        }
    }
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
    /// When something arrived last.
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

    /// Ready with an error when the connection is lost, and without one when nobody needs it any
    /// more.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        loop {
            if let Poll::Ready(lost) = self.read(cx) {
                return Poll::Ready(Err(lost));
            }
            if self.write(cx)?.is_ready() {
                return Poll::Ready(Ok(()));
            }
            ready!(self.time(cx))?;
        }
    }

    /// Reads all that is there. Ready when nothing will come any more.
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
        // What came before the nonsense was good.
        self.shared.receive(said).and(outcome)
    }

    /// Writes what can be written. Ready when nothing is left to do for anybody.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, String> {
        let now = self.shared.clock.now();
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        if !state.driver.as_ref().is_some_and(|driver| driver.will_wake(cx.waker())) {
            state.driver = Some(cx.waker().clone());
        }
        if let Some(why) = state.reset.take().or_else(|| state.ended.clone()) {
            return Err(why);
        }
        loop {
            let bytes = state.queue.gather(now);
            if bytes.is_empty() {
                break;
            }
            let wrote = match (&mut self.stream, &state.writer) {
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

    /// Ready when there is something to write: a question whether the server is still there.
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
                // Who has it alone may be in the middle of a transaction, of which the question
                // would become a part.
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
            // The alarm may end a little early by the other clock.
            self.alarm_at = now;
        }
    }
}
