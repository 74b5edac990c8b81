//! TLS: the trusted authorities, and our own certificate.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::{Error, ErrorKind, Result, Tls};

/// The settings of TLS connections.
#[derive(Clone)]
pub struct TlsSettings {
    pub(super) config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

impl TlsSettings {
    /// Reads the files. Blocks for as long as that takes.
    ///
    /// # Errors
    /// `Invalid` with the file that cannot be used, and why.
    pub fn load(files: &Tls) -> Result<Self> {
        let server_name = match &files.server_name {
            Some(name) => Some(ServerName::try_from(name.clone()).map_err(|_| bad_name(name))?),
            None => None,
        };
        Self::with(files, server_name, provider()?)
    }

    fn with(
        files: &Tls,
        server_name: Option<ServerName<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self> {
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::new(ErrorKind::Internal, format!("TLS cannot be set up: {e}")))?
            .with_root_certificates(roots(files.ca.as_deref())?);
        let config = match &files.certificate {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = certificates(cert)?;
                let private = PrivateKeyDer::from_pem_file(key)
                    .map_err(|e| unreadable(key, "a private key", e))?;
                builder.with_client_auth_cert(chain, private).map_err(|e| {
                    let what = format!(
                        "{} and {} do not belong together: {e}",
                        cert.display(),
                        key.display()
                    );
                    Error::invalid(what).with_remedy("the key that the certificate was made for")
                })?
            }
        };
        Ok(Self { config: Arc::new(config), server_name })
    }

    /// The same settings, for a server that has to know the protocol beforehand.
    pub fn speaking(mut self, protocol: &[u8]) -> Self {
        Arc::make_mut(&mut self.config).alpn_protocols = vec![protocol.to_vec()];
        self
    }

    /// The name that the certificate of `host` must have.
    pub(super) fn name_of(&self, host: &str) -> std::result::Result<ServerName<'static>, String> {
        match &self.server_name {
            Some(name) => Ok(name.clone()),
            None => ServerName::try_from(host.to_owned())
                .map_err(|_| format!("a certificate cannot have the name {host:?}")),
        }
    }
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings")
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

/// The provider of the whole process, if the program has installed one, else the provider of a
/// cargo feature.
fn provider() -> Result<Arc<CryptoProvider>> {
    if let Some(installed) = CryptoProvider::get_default() {
        return Ok(Arc::clone(installed));
    }
    #[cfg(feature = "tls-aws-lc-rs")]
    return Ok(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    #[cfg(all(feature = "tls-ring", not(feature = "tls-aws-lc-rs")))]
    return Ok(Arc::new(rustls::crypto::ring::default_provider()));
    #[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc-rs")))]
    Err(Error::new(ErrorKind::Unsupported, "this build cannot encrypt connections")
        .with_remedy("the cargo feature `tls-aws-lc-rs` or `tls-ring` of lockkeeper"))
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let Some(file) = ca else {
        let found = rustls_native_certs::load_native_certs();
        let (usable, _) = roots.add_parsable_certificates(found.certs);
        if usable == 0 {
            return Err(Error::invalid("this system trusts no certificates").with_remedy("ca=FILE"));
        }
        return Ok(roots);
    };
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|e| unreadable(file, "certificates", e))?;
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found =
        CertificateDer::pem_file_iter(file).map_err(|e| unreadable(file, "certificates", e))?;
    let found: Vec<_> = found
        .collect::<std::result::Result<_, _>>()
        .map_err(|e| unreadable(file, "certificates", e))?;
    match found.is_empty() {
        true => Err(unreadable(file, "certificates", "there is none in it")),
        false => Ok(found),
    }
}

fn unreadable(file: &Path, what: &str, why: impl fmt::Display) -> Error {
    Error::invalid(format!("{} cannot be read for {what}: {why}", file.display()))
        .with_remedy("a PEM file")
}

fn bad_name(name: &str) -> Error {
    Error::invalid(format!("a certificate cannot have the name in server-name={name:?}"))
        .with_remedy("a host name")
}

#[cfg(all(test, feature = "tls-aws-lc-rs", feature = "tls-ring"))]
mod tests {
    use super::*;

    /// With both features on, as in the tests of this workspace.
    #[test]
    fn each_provider_makes_connections_secret_and_aws_lc_rs_is_preferred() {
        let chosen = provider().unwrap();
        assert!(format!("{:?}", chosen.secure_random).contains("AwsLc"), "{chosen:?}");
        for provider in [chosen, Arc::new(rustls::crypto::ring::default_provider())] {
            let settings = TlsSettings::with(&Tls::new(), None, provider).unwrap();
            assert!(!settings.config.crypto_provider().cipher_suites.is_empty());
        }
    }
}
