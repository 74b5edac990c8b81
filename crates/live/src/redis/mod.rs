//! Redis servers.

mod builder;
mod cluster;
mod sentinel;
mod standing;
mod view;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use redis::{
    Client, Connection, ConnectionAddr, ConnectionLike, FromRedisValue, IntoConnectionInfo,
    RedisConnectionInfo, Value, cmd, from_redis_value,
};

pub use self::builder::RedisBuilder;
pub use self::cluster::{Cluster, ClusterBuilder};
pub use self::sentinel::{Sentinel, SentinelBuilder};
pub use self::standing::StandingClock;
use crate::certificates::Certificates;
use crate::clock::Clock;
use crate::nursery::nursery;
use crate::port;
use crate::process::{Process, eventually};
use crate::program::{Program, valkey_binary};
use crate::proxy::Proxy;

pub(crate) const SERVER: Program = Program {
    binary: "redis-server",
    packages: "redis-server",
    variable: Some("LOCKKEEPER_LIVE_REDIS_SERVER"),
};

/// How often another port is tried when another process was faster.
const PORTS: usize = 20;

/// The longest time of a command. A stopped server answers no command.
const COMMAND: Duration = Duration::from_secs(10);

/// A Redis server for one test. Dropping it kills the server and removes its data.
///
/// The requests of tests go through a socket file, and use neither the server's ports nor a proxy.
#[derive(Debug)]
pub struct Redis {
    settings: RedisBuilder,
    folder: PathBuf,
    port: u16,
    clock: Option<Clock>,
    process: Process,
}

impl Redis {
    /// A standalone server without persistence.
    ///
    /// # Errors
    /// If Redis is not installed, with the command that installs it; if Redis does not start, with
    /// its output.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// The settings of a server that is not started yet.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The port of [`address`](Self::address).
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port of the cluster's own connections.
    pub fn bus(&self) -> u16 {
        port::bus(self.port)
    }

    /// The URL for clients, with the password if there is one.
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.scheme(), self.credentials(), self.address())
    }

    /// The URL for a client behind a proxy.
    pub fn url_through(&self, proxy: &Proxy) -> String {
        self.url().replace(&self.address().to_string(), &proxy.address().to_string())
    }

    /// The certificates for the server's clients, if the server has TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.settings.tls.as_ref()
    }

    /// The id of the server's process; a restart changes it.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns whether the server answers: a server that is gone or stopped does not.
    pub fn is_up(&self) -> bool {
        self.process.is_going() && self.run(&["PING"]).is_ok()
    }

    /// The output of the server, over all restarts.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Sends one command, and returns the answer.
    ///
    /// # Errors
    /// The server's error, or no answer within 10 s.
    pub fn query<T: FromRedisValue>(&self, words: &[&str]) -> Result<T> {
        let (name, arguments) = words.split_first().context("an empty command")?;
        let mut connection = self.connect()?;
        cmd(name).arg(arguments).query(&mut connection).with_context(|| words.join(" "))
    }

    /// Sends one command whose answer does not matter.
    ///
    /// # Errors
    /// As for [`query`](Self::query).
    pub fn run(&self, words: &[&str]) -> Result<()> {
        self.query::<Value>(words).map(|_| ())
    }

    /// Sends the bytes of a request that a proxy has seen.
    ///
    /// # Errors
    /// As for [`query`](Self::query).
    pub fn send<T: FromRedisValue>(&self, request: &[u8]) -> Result<T> {
        let answer = self.connect()?.req_packed_command(request).context("a request in bytes")?;
        Ok(from_redis_value(answer)?)
    }

    /// A connection through the socket file, for commands that need their own connection: `MULTI`,
    /// `WAIT`, `SUBSCRIBE`.
    ///
    /// # Errors
    /// If the server does not accept the connection.
    pub fn connect(&self) -> Result<Connection> {
        let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = &self.settings.password {
            settings = settings.set_password(password);
        }
        let socket = ConnectionAddr::Unix(self.folder.join("socket")).into_connection_info()?;
        let connection = Client::open(socket.set_redis_settings(settings))?
            .get_connection_with_timeout(COMMAND)?;
        connection.set_read_timeout(Some(COMMAND))?;
        Ok(connection)
    }

    /// A field of `INFO`.
    ///
    /// # Errors
    /// As for [`query`](Self::query), and when there is no such field.
    pub fn info(&self, field: &str) -> Result<String> {
        let info: String = self.query(&["INFO", "everything"])?;
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = fields
            .find(|(name, _)| *name == field)
            .with_context(|| format!("no {field} in INFO"))?;
        Ok(value.to_owned())
    }

    /// Sets a parameter until the server ends.
    ///
    /// # Errors
    /// As for [`query`](Self::query).
    pub fn set(&self, parameter: &str, value: &str) -> Result<()> {
        self.run(&["CONFIG", "SET", parameter, value])
    }

    /// The server's time since 1970.
    ///
    /// # Errors
    /// As for [`query`](Self::query).
    pub fn time(&self) -> Result<Duration> {
        let (seconds, micros): (u64, u64) = self.query(&["TIME"])?;
        Ok(Duration::from_secs(seconds) + Duration::from_micros(micros))
    }

    /// Sets the server's clock to this many seconds after the real time, or before it if negative.
    /// Waits until the server has read the clock: Valkey 9 measures the time since its last
    /// reading, and reads only now and then.
    ///
    /// # Errors
    /// If the server was started without [`RedisBuilder::with_clock`].
    pub fn set_clock_offset(&self, seconds: i64) -> Result<()> {
        self.clock
            .as_ref()
            .context("this server was started without a clock of its own")?
            .set(seconds)?;
        if !self.process.is_going() {
            return Ok(());
        }
        eventually("a server looks at its clock", || {
            let (now, printed) =
                (SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(), self.time()?.as_secs());
            let due = now.checked_add_signed(seconds).context("no clock goes that far")?;
            Ok((printed.abs_diff(due) <= 1).then_some(()))
        })
    }

    /// The handle that moves the clock of the server.
    ///
    /// # Errors
    /// When the server was started without [`RedisBuilder::with_standing_clock`].
    pub fn standing_clock(&self) -> Result<StandingClock> {
        let clock = self.clock.as_ref().and_then(Clock::standing);
        let clock = clock.context("this server was started without a clock that stands")?;
        Ok(StandingClock::new(clock.to_owned(), self.folder.join("socket")))
    }

    /// `SIGSTOP`: the server stops, and its connections stay open.
    ///
    /// # Errors
    /// If the server does not run.
    pub fn pause(&mut self) -> Result<()> {
        self.process.pause()
    }

    /// Lets a paused server go on.
    ///
    /// # Errors
    /// If the server does not run.
    pub fn resume(&mut self) -> Result<()> {
        self.process.resume()
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// If the system refuses the signal.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Asks the server to end, and waits for its end.
    ///
    /// # Errors
    /// If the server does not run, or does not end.
    pub fn shut_down(&mut self) -> Result<()> {
        self.process.terminate()
    }

    /// Starts the server again, after a `kill -9` if it still runs: on the same port, with its data
    /// on disk.
    ///
    /// # Errors
    /// As for [`start`](Self::start), and if another process has its port.
    pub fn restart(&mut self) -> Result<()> {
        self.kill()?;
        self.process = spawn(&self.settings, &self.folder, self.clock.as_ref())?;
        self.wait_until_up()
    }

    /// Starts the server again with an empty disk.
    ///
    /// # Errors
    /// As for [`restart`](Self::restart).
    pub fn restart_empty(&mut self) -> Result<()> {
        self.kill()?;
        let data = self.folder.join("data");
        fs::remove_dir_all(&data)
            .and_then(|()| fs::create_dir(&data))
            .context("cannot empty its disk")?;
        self.restart()
    }

    fn scheme(&self) -> &'static str {
        if self.settings.tls.is_some() { "rediss" } else { "redis" }
    }

    fn credentials(&self) -> String {
        self.settings.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default()
    }

    fn launch(settings: &RedisBuilder) -> Result<Self> {
        for _ in 0..PORTS {
            let port = port::free()?;
            let folder = nursery()?.folder("redis")?;
            settings.write(&folder, port)?;
            let clock = settings.clock.map(|kind| Clock::new(&folder, kind)).transpose()?;
            let process = spawn(settings, &folder, clock.as_ref())?;
            let mut redis = Self { settings: settings.clone(), folder, port, clock, process };
            match redis.wait_until_up() {
                Ok(()) => return Ok(redis),
                Err(_) if redis.log().contains("Address already in use") => {}
                Err(error) => return Err(error),
            }
        }
        bail!("{PORTS} ports were taken by somebody else before Redis had them")
    }

    fn wait_until_up(&mut self) -> Result<()> {
        eventually("Redis starts", || {
            self.process.must_run()?;
            // The server accepts connections before it has loaded its data.
            Ok(self.run(&["PING"]).is_ok().then_some(()))
        })
    }

    /// Waits until a replica has the data of its master.
    fn wait_until_synchronized(&self) -> Result<()> {
        eventually("a replica reaches its master", || {
            Ok((self.info("master_link_status")? == "up").then_some(()))
        })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // The watchdog removes the rest.
        let _ = self.process.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn spawn(settings: &RedisBuilder, folder: &Path, clock: Option<&Clock>) -> Result<Process> {
    let server = if settings.valkey { valkey_binary()? } else { SERVER.find()? };
    let mut command = Command::new(server);
    command.arg(folder.join("redis.conf")).args(settings.arguments());
    if let Some(clock) = clock {
        clock.wind(&mut command);
    }
    Process::start(&mut command, &folder.join("log"))
}
