//! Connections to servers, for the stores with servers: TCP, and TLS on top of it. Each store has
//! its own protocol.

mod tls;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError, OtherError};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub use self::tls::TlsSettings;
use crate::time::Clock;

/// `said` puts these words before rustls's own, if a person can correct the problem.
pub const UNKNOWN_SIGNER: &str = "no trusted authority has signed its certificate";
pub const OTHER_NAME: &str = "its certificate is for another name";
pub const WANTS_CERTIFICATE: &str = "it asks for a certificate";
pub const OF_AUTHORITY: &str =
    "its certificate is one of an authority (CA), and not one of a server";
pub const UNFIT: &str = "its certificate cannot be used";

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// A name, or an address; without brackets.
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// An open connection.
#[derive(Debug)]
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects. The caller limits the time for everything to `within`.
///
/// # Errors
/// The problem in words: the name, the connection or TLS.
///
/// # Cancel safety
/// The future may be dropped; the connection is closed.
pub async fn connect(
    endpoint: &Endpoint,
    tls: Option<&TlsSettings>,
    within: Duration,
) -> Result<Stream, String> {
    let found = lookup_host((endpoint.host.as_str(), endpoint.port)).await;
    let addresses: Vec<SocketAddr> =
        found.map_err(|e| format!("its name was not found: {e}"))?.collect();
    let socket = any(&addresses, within).await.map_err(|e| e.to_string())?;
    // A request is one write, and nothing follows it.
    socket.set_nodelay(true).map_err(|e| e.to_string())?;
    let Some(tls) = tls else { return Ok(Stream::Plain(socket)) };
    let name = tls.name_of(&endpoint.host)?;
    let shaken = TlsConnector::from(std::sync::Arc::clone(&tls.config)).connect(name, socket);
    // A server without TLS waits for the rest of a command. The error has to distinguish it from a
    // missing server.
    match Clock::boot().timeout(within / 2, shaken).await {
        Some(Ok(stream)) => Ok(Stream::Tls(Box::new(stream))),
        Some(Err(e)) => Err(format!("TLS failed: {}", said(&e))),
        None => Err("TLS failed: it did not answer".to_owned()),
    }
}

/// The problem, by rustls's types and not by its texts, which may change.
pub fn said(error: &io::Error) -> String {
    use CertificateError::{
        BadSignature, NotValidForName, NotValidForNameContext, Other, UnknownIssuer,
    };
    let why = match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature)) => UNKNOWN_SIGNER,
        Some(rustls::Error::InvalidCertificate(
            NotValidForName | NotValidForNameContext { .. },
        )) => OTHER_NAME,
        // The texts of rustls about this error are of no use to a user.
        Some(rustls::Error::InvalidCertificate(Other(why))) if is_of_authority(why) => {
            return format!("{OF_AUTHORITY} (invalid peer certificate)");
        }
        Some(rustls::Error::InvalidCertificate(_)) => UNFIT,
        Some(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)) => {
            WANTS_CERTIFICATE
        }
        _ => return error.to_string(),
    };
    format!("{why}: {error}")
}

/// The type of this error is from a library that only rustls uses.
fn is_of_authority(why: &OtherError) -> bool {
    format!("{why:?}").contains("CaUsedAsEndEntity")
}

/// Connects to the first address that accepts. Each address gets its share of the time, so an
/// address that drops every packet leaves time for the others.
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
