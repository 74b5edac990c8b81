//! How the connection to a store is encrypted.

use std::path::{Path, PathBuf};

use crate::url::StoreUrl;
use crate::{Error, Result};

/// The TLS settings of a connection to a store. Without any settings it trusts the roots of the operating system,
/// expects the name of the host, and shows no certificate of its own. Files are PEM. They are read when the store is
/// opened.
///
/// rustls encrypts with the provider that the program has installed for the whole process
/// (`rustls::crypto::CryptoProvider::install_default`). Without an installed provider it uses aws-lc-rs, or ring if
/// only the cargo feature `tls-ring` is on.
///
/// ```
/// use lockkeeper::Tls;
///
/// let tls = Tls::new().ca("/etc/redis/ca.pem").certificate("/etc/redis/app.pem", "/etc/redis/app.key");
/// # let _ = tls;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "it is handed to the builder of a store"]
pub struct Tls {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
    pub(crate) server_name: Option<String>,
}

impl Tls {
    /// The names that these settings have in a URL.
    pub(crate) const PARAMS: [&'static str; 4] = ["ca", "cert", "key", "server-name"];

    /// The default settings: the roots of the operating system, the name of the host, no certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the certificates in this file, and no longer those of the operating system.
    pub fn ca(mut self, file: impl AsRef<Path>) -> Self {
        self.ca = Some(file.as_ref().to_owned());
        self
    }

    /// Shows the certificate in `file`, whose private key is in `key`.
    pub fn certificate(mut self, file: impl AsRef<Path>, key: impl AsRef<Path>) -> Self {
        self.certificate = Some((file.as_ref().to_owned(), key.as_ref().to_owned()));
        self
    }

    /// Expects a certificate with this name instead of the name of the host in the address.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// This parameter of TLS is in a URL whose scheme has none.
    pub(crate) fn missing(url: &StoreUrl, key: &str) -> Error {
        let scheme = url.scheme;
        let (kind, topology) = scheme.split_once('+').map_or((scheme, String::new()), |(a, b)| (a, format!("+{b}")));
        Error::invalid(format!("{url}: {key}= needs TLS, and {scheme}:// has none"))
            .with_remedy(format!("{kind}s{topology}://"))
    }

    /// What the parameters of a URL say.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a certificate without a key, or a key without a certificate.
    pub(crate) fn from_params(url: &StoreUrl) -> Result<Self> {
        let file = |key: &str| url.params.get(key).map(PathBuf::from);
        let certificate = match (file("cert"), file("key")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err(Error::invalid(format!("{url} has cert= without key=")).with_remedy("both")),
            (None, Some(_)) => return Err(Error::invalid(format!("{url} has key= without cert=")).with_remedy("both")),
        };
        Ok(Self { ca: file("ca"), certificate, server_name: url.params.get("server-name").cloned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tls(params: &str) -> Result<Tls> {
        Tls::from_params(&format!("rediss://h{params}").parse()?)
    }

    #[test]
    fn a_certificate_needs_its_key_and_a_key_its_certificate() {
        let both = tls("?cert=/c&key=/k&ca=/a&server-name=n").unwrap();
        assert_eq!(both.certificate, Some(("/c".into(), "/k".into())));
        assert_eq!((both.ca, both.server_name.as_deref()), (Some("/a".into()), Some("n")));
        assert!(tls("?cert=/c").unwrap_err().to_string().ends_with("Try: both"));
        assert!(tls("?key=/k").is_err());
        assert!(tls("").unwrap().certificate.is_none());
    }
}
