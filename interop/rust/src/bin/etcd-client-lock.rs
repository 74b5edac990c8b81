//! The lock call of the Rust etcd-client, which is that of etcd's own lock service, with a lease of
//! its own that it keeps alive. Its protocol is in ../README.md.

use std::env::args;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use etcd_client::{Client, LockOptions};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

struct Contender {
    client: Client,
    lease: i64,
    key: Vec<u8>,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let (endpoints, ttl) = (args().nth(1).context("no endpoints")?, args().nth(2).context("no ttl")?);
    let mut client = Client::connect(endpoints.split(',').collect::<Vec<_>>(), None).await?;
    let ttl = ttl.parse()?;
    let lease = client.lease_grant(ttl, None).await?.id();
    let alive = tokio::spawn(keep_alive(client.clone(), lease, Duration::from_secs(ttl.try_into()?) / 3));
    let mut contender = Contender { client, lease, key: Vec::new() };
    println!("ready");
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match contender.obey(&line.split(' ').collect::<Vec<_>>()).await {
            Ok(answer) => println!("{answer}"),
            Err(error) => println!("error {error:#}"),
        }
    }
    alive.abort();
    contender.client.lease_revoke(lease).await?;
    Ok(())
}

async fn keep_alive(mut client: Client, lease: i64, pace: Duration) -> Result<()> {
    let (mut keeper, mut answers) = client.lease_keep_alive(lease).await?;
    loop {
        keeper.keep_alive().await?;
        answers.message().await?.context("the stream has ended")?;
        tokio::time::sleep(pace).await;
    }
}

impl Contender {
    async fn obey(&mut self, words: &[&str]) -> Result<String> {
        match words {
            ["lock", name] => {
                self.lock(name).await?;
                Ok(format!("held {}", String::from_utf8_lossy(&self.key)))
            }
            ["unlock"] => self.unlock().await.map(|()| "released".to_owned()),
            ["count", name, counter, times] => {
                for _ in 0..times.parse::<u32>()? {
                    self.lock(name).await?;
                    self.increment(counter).await?;
                    self.unlock().await?;
                }
                Ok("counted".to_owned())
            }
            _ => bail!("no {words:?}"),
        }
    }

    async fn lock(&mut self, name: &str) -> Result<()> {
        let lease = LockOptions::new().with_lease(self.lease);
        self.key = self.client.lock(name, Some(lease)).await?.key().to_vec();
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        self.client.unlock(std::mem::take(&mut self.key)).await?;
        Ok(())
    }

    async fn increment(&mut self, counter: &str) -> Result<()> {
        let found = self.client.get(counter, None).await?;
        let count = found.kvs().first().map_or(Ok("0"), |entry| entry.value_str())?.parse::<u64>()?;
        self.client.put(counter, (count + 1).to_string(), None).await?;
        Ok(())
    }
}
