//! A PostgreSQL server, if one is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use compare_common::runner::{cpu, ending_with_us, free_port};

pub(crate) struct Postgres {
    child: Child,
    port: u16,
}

impl Postgres {
    /// Starts the server; `None` if it is not installed.
    pub(crate) fn start(dir: &Path) -> Result<Option<Self>> {
        let Some(programs) = programs() else { return Ok(None) };
        let data = dir.join("postgres");
        // PostgreSQL refuses to run as root.
        let user = nix::unistd::geteuid().is_root().then_some("postgres");
        fs::create_dir(&data)?;
        if user.is_some() {
            own(dir, &data)?;
        }
        let output = ending_with_us(&programs.join("initdb"), user)
            .args(["--auth=trust", "--username=postgres", "--no-sync", "-D"])
            .arg(&data)
            .output()
            .context("cannot run initdb")?;
        ensure!(
            output.status.success(),
            "initdb failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let port = free_port()?;
        let child = ending_with_us(&programs.join("postgres"), user)
            .args([
                "-p",
                &port.to_string(),
                "-h",
                "127.0.0.1",
                "-c",
                "unix_socket_directories=",
                "-c",
                "fsync=off",
                "-D",
            ])
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start postgres")?;
        let mut server = Self { child, port };
        server.wait()?;
        Ok(Some(server))
    }

    fn wait(&mut self) -> Result<()> {
        let limit = Instant::now() + Duration::from_secs(20);
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("postgres ended with {status}");
            }
            ensure!(Instant::now() < limit, "postgres cannot be reached");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}", self.port)
    }

    /// The processor time of the server with its processes, one for each client, in nanoseconds.
    pub(crate) fn cpu(&self) -> Result<u64> {
        let id = self.child.id();
        let children =
            fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let ids = children.split_whitespace().filter_map(|id| id.parse().ok());
        Ok(cpu(id)? + ids.filter_map(|id| cpu(id).ok()).sum::<u64>())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // QUIT: the server ends its processes at once.
        let id = i32::try_from(self.child.id()).unwrap_or_default();
        if id > 0 {
            let _ = Command::new("kill").args(["-QUIT", &id.to_string()]).status();
        }
        let _ = self.child.wait();
    }
}

/// The folder with the programs of the newest version.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    versions.filter(|bin| bin.join("initdb").exists() && bin.join("postgres").exists()).max()
}

/// Makes the user the owner of the data, and opens the way to the data.
fn own(dir: &Path, data: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o711))?;
    let status = Command::new("chown")
        .arg("postgres:postgres")
        .arg(data)
        .status()
        .context("cannot run chown")?;
    ensure!(status.success(), "there is no user postgres");
    Ok(())
}
