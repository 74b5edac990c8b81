//! rslock, on one server or several. Its protocol is in ../../../README.md.

use std::env::args;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use rslock::{Lock, LockError, LockManager};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

/// rslock's own time between two tries.
const DELAY: Duration = Duration::from_millis(200);

struct Client {
    manager: LockManager,
    ttl: Duration,
    counters: MultiplexedConnection,
    held: Option<Held>,
}

/// rslock answers how long a lock is valid; its user has to measure the time since then.
struct Held {
    lock: Lock,
    since: Instant,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let [_, kind, addresses, ttl] = &args().collect::<Vec<_>>()[..] else {
        bail!("rslock-lock rslock ADDRESSES TTL")
    };
    if kind != "rslock" {
        bail!("no kind {kind}");
    }
    let urls: Vec<_> = addresses.split(',').map(|one| format!("redis://{one}")).collect();
    let counters =
        redis::Client::open(urls[0].as_str())?.get_multiplexed_async_connection().await?;
    let ttl = Duration::from_millis(ttl.parse()?);
    let mut client = Client { manager: LockManager::new(urls), ttl, counters, held: None };
    println!("ready");
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match client.obey(&line.split(' ').collect::<Vec<_>>()).await {
            Ok(answer) => println!("{answer}"),
            Err(error) => println!("error {error:#}"),
        }
    }
    Ok(())
}

impl Client {
    async fn obey(&mut self, words: &[&str]) -> Result<String> {
        match words {
            ["lock", name] => {
                self.lock(name).await?;
                Ok(format!("held {name}"))
            }
            ["try", name] => {
                let is_held = self.try_lock(name).await?;
                Ok(if is_held { format!("held {name}") } else { "busy".to_owned() })
            }
            ["extend"] => {
                let held = self.held.take().context("nothing is held")?;
                let lock = self.manager.extend(&held.lock, self.ttl).await?;
                self.hold(lock);
                Ok("extended".to_owned())
            }
            ["check"] => {
                let held = self.held.as_ref().context("nothing is held")?;
                let valid = Duration::from_millis(held.lock.validity_time.try_into()?);
                Ok(if held.since.elapsed() < valid { "valid" } else { "lost" }.to_owned())
            }
            ["unlock"] => {
                self.unlock().await?;
                Ok("released".to_owned())
            }
            ["count", name, counter, times] => {
                let mut longest = Duration::ZERO;
                for _ in 0..times.parse::<u32>()? {
                    let start = Instant::now();
                    self.lock(name).await?;
                    longest = longest.max(start.elapsed());
                    let count: u64 = self.counters.get(*counter).await?;
                    let () = self.counters.set(*counter, count + 1).await?;
                    self.unlock().await?;
                }
                Ok(format!("counted {}", longest.as_millis()))
            }
            _ => bail!("no {words:?}"),
        }
    }

    fn hold(&mut self, lock: Lock) {
        self.held = Some(Held { lock, since: Instant::now() });
    }

    async fn lock(&mut self, name: &str) -> Result<()> {
        let mut endless = self.manager.clone();
        endless.set_retry(u32::MAX, DELAY);
        let lock = endless.acquire_no_guard(name, self.ttl).await?;
        self.hold(lock);
        Ok(())
    }

    /// Whether the lock was free: rslock has one error for a held lock and dead servers.
    async fn try_lock(&mut self, name: &str) -> Result<bool> {
        let mut once = self.manager.clone();
        once.set_retry(1, DELAY);
        match once.lock(name, self.ttl).await {
            Ok(lock) => {
                self.hold(lock);
                Ok(true)
            }
            Err(LockError::Unavailable) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn unlock(&mut self) -> Result<()> {
        self.manager.unlock(&self.held.take().context("nothing is held")?.lock).await;
        Ok(())
    }
}
