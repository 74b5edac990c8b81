//! The etcd of all clients.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use compare_common::runner::{Counts, Kind, Servers, cpu, ending_with_us, free_port};
use tempfile::TempDir;

use crate::http::{Metrics, keys, version};
use crate::kinds::{LOCKKEEPER, RAW, SESSIONS, SHARED, SHARED_SESSIONS};

/// How long the start may take.
const START: Duration = Duration::from_secs(30);

/// One member or several, with etcd's own settings: each transaction waits for the disk.
pub(crate) struct Etcd {
    /// The leader first.
    members: Vec<Member>,
    version: String,
    // The last field: the folder is removed when no member writes to it any more.
    _dir: TempDir,
}

struct Member {
    child: Child,
    port: u16,
}

impl Etcd {
    /// Starts the members. The folder for temporary files has their data, and has to be on a real
    /// disk.
    pub(crate) fn start(program: &Path, members: usize) -> Result<Self> {
        let dir = TempDir::new()?;
        let ports =
            (0..members).map(|_| Ok([free_port()?, free_port()?])).collect::<Result<Vec<_>>>()?;
        let cluster: Vec<_> = ports
            .iter()
            .enumerate()
            .map(|(at, [_, peer])| format!("m{at}=http://127.0.0.1:{peer}"))
            .collect();
        let spawn = |(at, ports): (usize, &[u16; 2])| {
            Member::spawn(program, &format!("m{at}"), *ports, &cluster.join(","), dir.path())
        };
        let members = ports.iter().enumerate().map(spawn).collect::<Result<Vec<_>>>()?;
        let mut etcd = Self { members, version: String::new(), _dir: dir };
        etcd.wait()?;
        etcd.version = version(etcd.port())?;
        Ok(etcd)
    }

    /// Waits until there is a leader, and puts it first.
    fn wait(&mut self) -> Result<()> {
        let limit = Instant::now() + START;
        loop {
            for member in &mut self.members {
                if let Some(status) = member.child.try_wait()? {
                    bail!("etcd ended with {status}. Try: etcd --version, setpriv --version");
                }
            }
            let leads = |member: &Member| {
                keys(member.port).is_ok()
                    && Metrics::read(member.port)
                        .is_ok_and(|metrics| metrics.sum("etcd_server_is_leader") > 0.0)
            };
            if let Some(leader) = self.members.iter().position(leads) {
                self.members.swap(0, leader);
                return Ok(());
            }
            if Instant::now() > limit {
                bail!("etcd has no leader after {START:?}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn description(&self) -> String {
        let of = if self.members.len() > 1 {
            format!(", {} members", self.members.len())
        } else {
            String::new()
        };
        format!("etcd {}{of}", self.version)
    }

    /// The number of keys.
    pub(crate) fn keys(&self) -> Result<u64> {
        keys(self.port())
    }

    fn port(&self) -> u16 {
        self.members[0].port
    }
}

impl Servers for Etcd {
    /// Raw has one connection, to the leader. The other clients get the addresses of all members:
    /// lockkeeper asks the first member, and the others ask all members.
    fn url(&self, kind: Kind) -> String {
        let all: Vec<_> =
            self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
        match kind {
            RAW => all[0].clone(),
            // One of the servers is Debian's etcd, which is accepted only for a measurement.
            LOCKKEEPER | SESSIONS => format!("etcd://{}?unsafe=version", all.join(",")),
            SHARED | SHARED_SESSIONS => {
                format!("etcd://{}?layout=concurrency&unsafe=version", all.join(","))
            }
            _ => all.join(","),
        }
    }

    fn has(&self, _kind: Kind) -> bool {
        true
    }

    /// `commands` counts the messages of the clients, with the messages in streams. The time is the
    /// leader's wait for its log to be on the disk.
    fn counts(&mut self, _kind: Kind) -> Result<Counts> {
        let cpu = self.members.iter().map(|member| cpu(member.child.id())).sum::<Result<u64>>()?;
        let metrics = self
            .members
            .iter()
            .map(|member| Metrics::read(member.port))
            .collect::<Result<Vec<_>>>()?;
        let commands = metrics
            .iter()
            .map(|metrics| metrics.sum("grpc_server_msg_received_total"))
            .sum::<f64>();
        let waited = metrics[0].sum("etcd_disk_wal_fsync_duration_seconds_sum");
        Ok(Counts { cpu, commands: commands as u64, micros: (waited * 1e6) as u64 })
    }
}

impl Member {
    fn spawn(
        program: &Path,
        name: &str,
        [port, peer]: [u16; 2],
        cluster: &str,
        dir: &Path,
    ) -> Result<Self> {
        let mut command = ending_with_us(program, None);
        // etcd takes options from variables too.
        for (variable, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD_"))
        {
            command.env_remove(variable);
        }
        let (client, peer) =
            (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
        command.arg(format!("--name={name}"));
        command.arg(format!("--data-dir={}", dir.join(name).display()));
        command.arg(format!("--listen-client-urls={client}"));
        command.arg(format!("--advertise-client-urls={client}"));
        command.arg(format!("--listen-peer-urls={peer}"));
        command.arg(format!("--initial-advertise-peer-urls={peer}"));
        command.arg(format!("--initial-cluster={cluster}"));
        command.arg("--log-level=error").stdout(Stdio::null()).stderr(Stdio::null());
        let child =
            command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child, port })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Debian's etcd, if it is installed and is not the current etcd.
pub(crate) fn debian() -> Option<PathBuf> {
    let named = std::env::var_os("LOCKKEEPER_LIVE_ETCD_DEBIAN").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from("/usr/bin/etcd"))).filter(|program| program.is_file())
}
