//! The Redis server of all clients.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use ::redis::{Client, Connection, cmd};
use anyhow::{Context, Result, bail};
use compare_common::runner::{Counts, Kind, cpu, ending_with_us, free_port};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::kinds::sends;

pub(crate) struct Redis {
    child: Child,
    port: u16,
    connection: Connection,
}

impl Redis {
    /// Starts a server on a free port. It writes nothing to the disk.
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        let port = free_port()?;
        let mut child = ending_with_us("redis-server".as_ref(), None)
            .args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
            ])
            .arg(dir)
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start redis-server. Try: apt-get install redis-server util-linux")?;
        match connect(port, &mut child) {
            Ok(connection) => Ok(Self { child, port, connection }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Stops the server, or lets it go on.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.child.id())?), signal)?)
    }

    pub(crate) fn version(&mut self) -> Result<String> {
        Ok(field(&self.info("server")?, "redis_version").unwrap_or("?").to_owned())
    }

    /// The memory of the server's data, in bytes.
    pub(crate) fn memory(&mut self) -> Result<u64> {
        field(&self.info("memory")?, "used_memory")
            .context("INFO has no used_memory")?
            .parse()
            .map_err(Into::into)
    }

    pub(crate) fn counts(&mut self, kind: Kind) -> Result<Counts> {
        let mut counts = Counts { cpu: cpu(self.child.id())?, ..Counts::default() };
        // cmdstat_evalsha:calls=2,usec=9,usec_per_call=4.50,rejected_calls=0,failed_calls=0
        for line in self.info("commandstats")?.lines() {
            let Some((name, figures)) =
                line.strip_prefix("cmdstat_").and_then(|line| line.split_once(':'))
            else {
                continue;
            };
            if sends(kind, name) {
                let figure = |key: &str| {
                    figures.split(',').find_map(|word| {
                        word.strip_prefix(key)?.strip_prefix('=')?.parse::<u64>().ok()
                    })
                };
                counts.commands += figure("calls").unwrap_or(0);
                counts.micros += figure("usec").unwrap_or(0);
            }
        }
        Ok(counts)
    }

    fn info(&mut self, section: &str) -> Result<String> {
        Ok(cmd("INFO").arg(section).query(&mut self.connection)?)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connect(port: u16, child: &mut Child) -> Result<Connection> {
    let client = Client::open(format!("redis://127.0.0.1:{port}"))?;
    let limit = Instant::now() + Duration::from_secs(10);
    loop {
        match client.get_connection() {
            Ok(connection) => return Ok(connection),
            Err(error) if Instant::now() > limit => {
                bail!("redis-server cannot be reached: {error}")
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
        if let Some(status) = child.try_wait()? {
            bail!(
                "redis-server ended with {status}. Try: redis-server --version, setpriv --version"
            );
        }
    }
}

fn field<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
}
