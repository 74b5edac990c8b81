//! How the connection to a store is encrypted.

use std::path::{Path, PathBuf};

/// The TLS settings of a connection to a store. Without any settings it trusts the roots of the
/// operating system, expects the name of the host, and shows no certificate of its own. Files are
/// PEM. They are read when the store is opened.
///
/// rustls encrypts with the provider that the program has installed for the whole process
/// (`rustls::crypto::CryptoProvider::install_default`). Without an installed provider it uses
/// aws-lc-rs, or ring if only the cargo feature `tls-ring` is on.
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
    #[doc(hidden)]
    pub ca: Option<PathBuf>,
    #[doc(hidden)]
    pub certificate: Option<(PathBuf, PathBuf)>,
    #[doc(hidden)]
    pub server_name: Option<String>,
}

impl Tls {
    /// The default settings: the roots of the operating system, the name of the host, no
    /// certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the certificates in this file instead of those of the operating system.
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
}
