//! A server's own authority, and its certificates.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::nursery::nursery;

/// PEM files of an authority, of a server at 127.0.0.1 and `localhost`, and of one client.
#[derive(Clone, Debug)]
pub struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// The certificates of a new authority, which no client trusts yet.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn new() -> Result<Self> {
        Self::with_server(&IsCa::NoCa)
    }

    /// Like [`new`](Self::new), but the server's certificate claims to be the certificate of an
    /// authority.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_an_authority_as_server() -> Result<Self> {
        Self::with_server(&IsCa::Ca(BasicConstraints::Unconstrained))
    }

    fn with_server(server: &IsCa) -> Result<Self> {
        let folder = nursery()?.folder("tls")?;
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "lockkeeper's tests");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        write(&folder, "authority.pem", &authority.self_signed(&key)?.pem())?;
        let issuer = Issuer::new(authority, key);
        for (name, hosts) in [("server", &["localhost", "127.0.0.1"][..]), ("client", &[])] {
            let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
            let mut params = CertificateParams::new(hosts)?;
            params.distinguished_name.push(DnType::CommonName, name);
            if name == "server" {
                params.is_ca = *server;
            }
            let key = KeyPair::generate()?;
            write(&folder, &format!("{name}.pem"), &params.signed_by(&key, &issuer)?.pem())?;
            write(&folder, &format!("{name}.key"), &key.serialize_pem())?;
        }
        Ok(Self { folder })
    }

    /// The certificate of the authority to trust.
    pub fn authority(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// A file with the authorities of all of them.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn authorities(of: &[Self]) -> Result<PathBuf> {
        let folder = nursery()?.folder("tls")?;
        let each = of.iter().map(|of| fs::read_to_string(of.authority()));
        write(&folder, "authorities.pem", &each.collect::<std::io::Result<String>>()?)?;
        Ok(folder.join("authorities.pem"))
    }

    /// The server's certificate, for 127.0.0.1 and `localhost`.
    pub fn server(&self) -> PathBuf {
        self.folder.join("server.pem")
    }

    /// The key of [`server`](Self::server).
    pub fn server_key(&self) -> PathBuf {
        self.folder.join("server.key")
    }

    /// A client's certificate.
    pub fn client(&self) -> PathBuf {
        self.folder.join("client.pem")
    }

    /// The key of [`client`](Self::client).
    pub fn client_key(&self) -> PathBuf {
        self.folder.join("client.key")
    }
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))
}
