//! What every server does for a test of its faults.

use std::time::Duration;

use anyhow::Result;

use crate::etcd::Etcd;
use crate::redis::Redis;

/// How many members of an etcd a test of faults starts.
const MEMBERS: usize = 3;

/// A server, or several that are one store, that keeps what it has acknowledged.
pub trait Server: Sized + Send + 'static {
    /// The shortest ttl that the store takes, in whole seconds.
    const LEAST_TTL: Duration;

    /// Starts one of its own for the test.
    ///
    /// # Errors When it is not installed, with the line that installs it; when it does not start,
    /// with what it said.
    fn start_lasting() -> Result<Self>;

    /// Where its clients find it.
    fn store_url(&self) -> String;

    /// `SIGSTOP`: it stands, its connections stay.
    ///
    /// # Errors
    /// When it does not run.
    fn pause_all(&mut self) -> Result<()>;

    /// Lets it go on.
    ///
    /// # Errors
    /// When it does not run.
    fn resume_all(&mut self) -> Result<()>;

    /// `kill -9`, and a new start on what it had on disk. Waits until it answers.
    ///
    /// # Errors
    /// When it does not start, and when somebody has its ports.
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
