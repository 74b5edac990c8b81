//! The operations of every server for a test of its faults.

use std::time::Duration;

use anyhow::Result;

use crate::etcd::Etcd;
use crate::redis::Redis;

/// The number of members that a test of faults starts of an etcd.
const MEMBERS: usize = 3;

/// A server, or several servers that are one store, which keeps what it has acknowledged.
pub trait Server: Sized + Send + 'static {
    /// The shortest ttl that the store accepts, in whole seconds.
    const LEAST_TTL: Duration;

    /// Starts a server for the calling test.
    ///
    /// # Errors
    /// If the server is not installed, with the command that installs it; if the server does not
    /// start, with its output.
    fn start_lasting() -> Result<Self>;

    /// The address of the store as a URL.
    fn store_url(&self) -> String;

    /// `SIGSTOP`: the server stops, and its connections stay open.
    ///
    /// # Errors
    /// If the server does not run.
    fn pause_all(&mut self) -> Result<()>;

    /// Lets the server go on.
    ///
    /// # Errors
    /// If the server does not run.
    fn resume_all(&mut self) -> Result<()>;

    /// `kill -9`, and a new start with the data on disk. Waits until the server answers.
    ///
    /// # Errors
    /// If the server does not start, or another process has its ports.
    fn start_again(&mut self) -> Result<()>;
}

impl Server for Redis {
    const LEAST_TTL: Duration = Duration::from_secs(1);

    fn start_lasting() -> Result<Self> {
        Self::builder().persistent().start()
    }

    fn store_url(&self) -> String {
        self.url()
    }

    fn pause_all(&mut self) -> Result<()> {
        self.pause()
    }

    fn resume_all(&mut self) -> Result<()> {
        self.resume()
    }

    fn start_again(&mut self) -> Result<()> {
        self.restart()
    }
}

impl Server for Etcd {
    const LEAST_TTL: Duration = Duration::from_secs(2);

    fn start_lasting() -> Result<Self> {
        Self::builder().members(MEMBERS).start()
    }

    fn store_url(&self) -> String {
        self.url()
    }

    fn pause_all(&mut self) -> Result<()> {
        (0..MEMBERS).try_for_each(|member| self.pause(member))
    }

    fn resume_all(&mut self) -> Result<()> {
        (0..MEMBERS).try_for_each(|member| self.resume(member))
    }

    fn start_again(&mut self) -> Result<()> {
        self.restart_all()?;
        self.leader().map(|_| ())
    }
}
