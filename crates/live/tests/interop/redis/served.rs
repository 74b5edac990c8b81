//! lockkeeper in a process of its own, which reads the lines of a foreign client.
//!
//! The test program starts itself again with one test, which then reads lines from its standard
//! input instead of testing.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lockkeeper::{Guard, Keeper, Result};
use lockkeeper_live::locks::name;
use redis::TypedCommands as _;
use tokio::task::block_in_place;

use super::kind::Servers;
use super::pairs::LONG;
use super::us::url;
use crate::lines::Lines;

const TEST: &str = "redis::served::lockkeeper_answers_as_a_foreign_client_does";
/// The layout, the addresses and the ttl.
const VARIABLE: &str = "LOCKKEEPER_INTEROP_SERVED";
const MARK: char = '@';

/// lockkeeper with this layout, in a process of its own.
pub(super) fn start(layout: &str, addresses: &[SocketAddr], ttl: Duration) -> Lines {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let value = format!("{layout} {} {}", addresses.join(","), ttl.as_millis());
    Lines::this_test(TEST, VARIABLE, &value, MARK)
}

#[tokio::test(flavor = "multi_thread")]
async fn lockkeeper_answers_as_a_foreign_client_does() {
    if let Ok(value) = std::env::var(VARIABLE) {
        return serve(&value).await;
    }
    let (servers, name) = (Servers::one(), name());
    let mut client = start("plain", &[servers.first().address()], LONG);
    servers.first().run(&["SET", &format!("count-of-{name}"), "0"]).unwrap();
    let counted = client.say(&format!("count {name} count-of-{name} 3"));
    assert!(counted.starts_with("counted "), "{counted}");
    assert_eq!(client.say(&format!("lock {name}")), format!("held {name}"));
    assert_eq!(client.say("check"), "valid");
    let mut other = start("plain", &[servers.first().address()], LONG);
    assert_eq!(other.say(&format!("try {name}")), "busy");
    assert_eq!(client.say("unlock"), "released");
    assert_eq!(other.say(&format!("try {name}")), format!("held {name}"));
}

/// The client's side.
async fn serve(value: &str) {
    let [layout, addresses, ttl] = value.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{VARIABLE}={value}")
    };
    let addresses: Vec<SocketAddr> =
        addresses.split(',').map(|address| address.parse().unwrap()).collect();
    let ttl = Duration::from_millis(ttl.parse().unwrap());
    let keeper = Keeper::from_url(&*url(layout, &addresses)).unwrap().ttl(ttl).connect();
    let redis = redis::Client::open(format!("redis://{}", addresses[0])).unwrap();
    let mut client = Served { keeper: keeper.await.unwrap(), redis, held: None };
    answer("ready");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        match client.obey(&line.split(' ').collect::<Vec<_>>()).await {
            Ok(said) => answer(&said),
            Err(error) => answer(&format!("error {error}")),
        }
    }
}

fn answer(line: &str) {
    // One write keeps the runner's own output out of the answer.
    std::io::stdout().write_all(format!("{MARK}{line}\n").as_bytes()).unwrap();
}

struct Served {
    keeper: Keeper,
    redis: redis::Client,
    held: Option<Guard>,
}

impl Served {
    async fn obey(&mut self, words: &[&str]) -> Result<String> {
        match *words {
            ["lock", name] => {
                self.held = Some(self.keeper.mutex(name)?.lock().await?);
                Ok(format!("held {name}"))
            }
            ["try", name] => {
                self.held = self.keeper.mutex(name)?.try_lock().await?;
                Ok(if self.held.is_some() { format!("held {name}") } else { "busy".to_owned() })
            }
            ["check"] => {
                let is_held = self.held.as_ref().unwrap().check().is_ok();
                Ok(if is_held { "valid" } else { "lost" }.to_owned())
            }
            ["unlock"] => {
                self.held.take().unwrap().release().await?;
                Ok("released".to_owned())
            }
            ["count", name, counter, times] => {
                let longest = self.count(name, counter, times.parse().unwrap()).await?;
                Ok(format!("counted {}", longest.as_millis()))
            }
            _ => panic!("what is {words:?}?"),
        }
    }

    /// Returns the longest wait for the lock.
    async fn count(&self, name: &str, counter: &str, times: u32) -> Result<Duration> {
        let (mutex, mut longest) = (self.keeper.mutex(name)?, Duration::ZERO);
        let mut redis = block_in_place(|| self.redis.get_connection()).unwrap();
        for _ in 0..times {
            let start = Instant::now();
            let guard = mutex.lock().await?;
            longest = longest.max(start.elapsed());
            block_in_place(|| {
                let count = redis.get_int(counter).unwrap().unwrap();
                redis.set(counter, count + 1).unwrap();
            });
            guard.release().await?;
        }
        Ok(longest)
    }
}
