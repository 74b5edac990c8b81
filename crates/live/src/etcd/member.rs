//! One member of an etcd.

use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::builder::{EtcdBuilder, Which};
use super::control::Control;
use crate::nursery::nursery;
use crate::port;
use crate::process::Process;
use crate::program::{Program, etcd_binary, interop_binary};

const DEBIAN: Program = Program {
    binary: "etcd",
    packages: "etcd-server",
    variable: Some("LOCKKEEPER_LIVE_ETCD_DEBIAN"),
};

/// The addresses of a member, which may not run.
#[derive(Debug)]
pub(super) struct MemberSpec {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    /// The port for clients.
    pub(super) port: u16,
    /// The port for the tests, without encryption, links or a proxy.
    control: u16,
    /// The address for the other members.
    pub(super) peer: SocketAddr,
}

/// A member, and its process.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) spec: MemberSpec,
    pub(super) process: Process,
    pub(super) control: Control,
}

impl MemberSpec {
    pub(super) fn new(number: usize) -> Result<Self> {
        let (port, control, folder) = (port::free()?, port::free()?, nursery()?.folder("etcd")?);
        let mut spec =
            Self { name: format!("m{number}"), folder, port, control, peer: ([0; 4], 0).into() };
        spec.peer = spec.listens_for_peers();
        Ok(spec)
    }

    /// The address at which the member listens for the other members. The other members may get the
    /// address of a link instead.
    pub(super) fn listens_for_peers(&self) -> SocketAddr {
        local(port::bus(self.port))
    }

    pub(super) fn address(&self) -> SocketAddr {
        local(self.port)
    }

    /// Starts the process of the member, with its data on disk.
    pub(super) fn spawn(&self, settings: &EtcdBuilder, cluster: &str) -> Result<Process> {
        let binary = match settings.which {
            Which::Current => etcd_binary()?,
            Which::Oldest => interop_binary("bin/etcd-oldest")?,
            Which::Debian => DEBIAN.find()?,
        };
        let mut command = Command::new(binary);
        // etcd also takes options from the environment.
        env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD_")).for_each(
            |(name, _)| {
                command.env_remove(name);
            },
        );
        let (scheme, address) = (settings.scheme(), self.address());
        command.arg(format!("--name={}", self.name));
        command.arg(format!("--data-dir={}", self.folder.join("data").display()));
        command.arg(format!(
            "--listen-client-urls={scheme}://{address},http://{}",
            local(self.control)
        ));
        command.arg(format!("--advertise-client-urls={scheme}://{address}"));
        command.arg(format!("--listen-peer-urls=http://{}", self.listens_for_peers()));
        command.arg(format!("--initial-advertise-peer-urls=http://{}", self.peer));
        command.arg(format!("--initial-cluster={cluster}"));
        command.args(settings.arguments());
        Process::start(&mut command, &self.folder.join("log"))
    }

    pub(super) fn control(&self) -> Control {
        Control::new(local(self.control))
    }
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
