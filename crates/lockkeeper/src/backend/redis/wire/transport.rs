//! The bytes below: TCP, and TLS on top of it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::decoder::{Decoder, Incoming};
use super::settings::{Endpoint, Settings};
use crate::time::Clock;

/// What `said` puts before the words of rustls, where there is something that a person can mend.
pub(crate) const UNKNOWN_SIGNER: &str = "nobody who is known here has signed its certificate";
pub(crate) const OTHER_NAME: &str = "its certificate is for another name";
pub(crate) const WANTS_CERTIFICATE: &str = "it asks for a certificate";

/// An open connection.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects; the caller limits the time for all of it to `within`.
pub(super) async fn connect(endpoint: &Endpoint, settings: &Settings, within: Duration) -> Result<Transport, String> {
    let found = lookup_host((endpoint.host.as_str(), endpoint.port)).await;
    let addresses: Vec<SocketAddr> = found.map_err(|e| format!("its name was not found: {e}"))?.collect();
    let socket = any(&addresses, within).await.map_err(|e| e.to_string())?;
    // A request is one write, and nothing follows it.
    socket.set_nodelay(true).map_err(|e| e.to_string())?;
    let Some(tls) = &settings.tls else { return Ok(Transport::Plain(socket)) };
    let name = tls.name_of(&endpoint.host)?;
    let shaken = TlsConnector::from(std::sync::Arc::clone(&tls.config)).connect(name, socket);
    // A server without TLS waits for the rest of a command. It is to be told from one that is not there at all.
    match Clock::boot().timeout(within / 2, shaken).await {
        Some(Ok(stream)) => Ok(Transport::Tls(Box::new(stream))),
        Some(Err(e)) => Err(format!("TLS failed: {}", said(&e))),
        None => Err("TLS failed: it did not answer".to_owned()),
    }
}

/// What went wrong, by rustls' types and not by its words: those may change.
pub(crate) fn said(error: &io::Error) -> String {
    use CertificateError::{BadSignature, NotValidForName, NotValidForNameContext, UnknownIssuer};
    let why = match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature)) => UNKNOWN_SIGNER,
        Some(rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => OTHER_NAME,
        Some(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)) => WANTS_CERTIFICATE,
        _ => return error.to_string(),
    };
    format!("{why}: {error}")
}

/// The first that accepts. Each gets its share of the time, so that one that drops everything leaves some for others.
async fn any(addresses: &[SocketAddr], within: Duration) -> io::Result<TcpStream> {
    let share = within / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    for address in addresses {
        match Clock::boot().timeout(share, TcpStream::connect(address)).await {
            Some(Ok(socket)) => return Ok(socket),
            Some(Err(e)) => last = e,
            None => last = io::Error::new(io::ErrorKind::TimedOut, "it did not answer"),
        }
    }
    Err(last)
}

impl Transport {
    /// Writes `bytes` and reads as many replies as they ask for. For the first words only: what is pushed meanwhile is
    /// not heard.
    pub(super) async fn converse(
        &mut self,
        decoder: &mut Decoder,
        bytes: &[u8],
        replies: usize,
    ) -> Result<Vec<redis::Value>, String> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes).await,
            Self::Tls(stream) => match stream.write_all(bytes).await {
                Ok(()) => stream.flush().await,
                failed => failed,
            },
        }
        .map_err(|e| said(&e))?;
        let mut found = Vec::with_capacity(replies);
        let mut chunk = vec![0; 4096];
        while found.len() < replies {
            match decoder.next()? {
                Some(Incoming::Reply(value)) => found.push(value),
                Some(Incoming::Push(..)) => {}
                None => {
                    let read = match self {
                        Self::Plain(socket) => socket.read(&mut chunk).await,
                        Self::Tls(stream) => stream.read(&mut chunk).await,
                    };
                    match read {
                        Ok(0) => return Err("it closed the connection".to_owned()),
                        Ok(count) => decoder.feed(&chunk[..count]),
                        // Whether it likes our certificate the server says only now.
                        Err(e) => return Err(said(&e)),
                    }
                }
            }
        }
        Ok(found)
    }
}
