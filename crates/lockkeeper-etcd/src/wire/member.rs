//! The connection to one member: made when it is needed, and again whenever it is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio_util::either::Either;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint as Transport};

use super::error::{Unreachable, WireError};
use crate::net::{self, Endpoint, Stream, TlsSettings};
use crate::{Error, ErrorKind, Result};

/// etcd closes connections that ask more often (`--grpc-keepalive-min-time`).
const PING: Duration = Duration::from_secs(10);
/// How long a ping may stay without an answer.
const PONG: Duration = Duration::from_secs(5);
/// How many bytes one stream may send before they are read: a whole line of waiters.
const WINDOW: u32 = 1 << 20;

/// A member, and the connection to it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) address: Endpoint,
    pub(super) channel: Channel,
    has_answered: AtomicBool,
}

impl Member {
    /// Connects when it is asked for the first time.
    pub(super) fn new(
        address: Endpoint,
        tls: Option<&TlsSettings>,
        within: Duration,
    ) -> Result<Self> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let transport = Transport::from_shared(format!("{scheme}://{address}")).map_err(|e| {
            Error::new(ErrorKind::Invalid, format!("{address} cannot be the address of etcd: {e}"))
                .with_remedy("HOST or HOST:PORT")
        })?;
        let transport = transport
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW * 4);
        let (to, tls) =
            (Arc::new(address.clone()), tls.cloned().map(|tls| Arc::new(tls.speaking(b"h2"))));
        let connector = tower::service_fn(move |_: Uri| dial(Arc::clone(&to), tls.clone(), within));
        let channel = transport.connect_with_connector_lazy(connector);
        Ok(Self { address, channel, has_answered: AtomicBool::new(false) })
    }

    /// Notes whether the member answers. An error says whether the member has answered before.
    pub(super) fn noted<T>(
        &self,
        asked: std::result::Result<T, WireError>,
    ) -> std::result::Result<T, WireError> {
        if matches!(asked, Ok(_) | Err(WireError::Refused { .. })) {
            self.has_answered.store(true, Ordering::Relaxed);
        }
        asked.map_err(|error| match self.has_answered.load(Ordering::Relaxed) {
            true => error.after_an_answer(),
            false => error,
        })
    }
}

type Io = TokioIo<
    Either<tokio::net::TcpStream, Box<tokio_rustls::client::TlsStream<tokio::net::TcpStream>>>,
>;

async fn dial(
    to: Arc<Endpoint>,
    tls: Option<Arc<TlsSettings>>,
    within: Duration,
) -> std::result::Result<Io, Unreachable> {
    let connecting = net::connect(&to, tls.as_deref(), within);
    let connected = match crate::time::Clock::boot().timeout(within, connecting).await {
        Some(connected) => connected,
        None => Err("it did not answer".to_owned()),
    };
    match connected {
        Ok(Stream::Plain(socket)) => Ok(TokioIo::new(Either::Left(socket))),
        Ok(Stream::Tls(stream)) => Ok(TokioIo::new(Either::Right(stream))),
        Err(why) => Err(Unreachable(format!("{to} cannot be reached: {why}"))),
    }
}
