//! A counter behind a fence: each holder reads it when it gets the lock, and writes it back plus
//! one before it releases the lock.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::redis::{Client, Connection, Value, cmd, from_redis_value};
use async_trait::async_trait;
use lockkeeper::fence::redis::{Answer, FencedKey};
use lockkeeper::{FencingToken, Mode, Result, Sequencer};
use lockkeeper_live::Redis;
use lockkeeper_testing::history::processes::TestProcess;
use lockkeeper_testing::history::{Ask, Contestant, Held};

/// Where the processes find the server of the data.
const DATA: &str = "data.url";

/// The key of a lock's counter.
pub(crate) fn key(lock: &str) -> String {
    format!("counter:{lock}")
}

/// Says where the data is.
pub(crate) fn data_url(data: &Redis) -> (&'static str, String) {
    (DATA, data.url())
}

/// A contestant that counts behind the fence.
pub(crate) fn dress(
    inner: Arc<dyn Contestant>,
    process: &TestProcess,
    lock: &str,
) -> Arc<dyn Contestant> {
    counting(inner, process, lock, true)
}

/// A contestant that counts, with or without the fence.
pub(crate) fn counting(
    inner: Arc<dyn Contestant>,
    process: &TestProcess,
    lock: &str,
    is_fenced: bool,
) -> Arc<dyn Contestant> {
    let event_log = process.folder.join(format!("{}.counts", process.number()));
    let (connection, folder, lock) = (Mutex::new(None), process.folder.clone(), lock.to_owned());
    Arc::new(Counting {
        inner,
        data: Arc::new(Data { connection, folder, event_log, lock, is_fenced }),
    })
}

struct Counting {
    inner: Arc<dyn Contestant>,
    data: Arc<Data>,
}

/// The counter of one lock, from one process.
struct Data {
    connection: Mutex<Option<Connection>>,
    folder: PathBuf,
    event_log: PathBuf,
    lock: String,
    is_fenced: bool,
}

struct Counted {
    held: Box<dyn Held>,
    data: Arc<Data>,
    /// The read value, unless a newer holder had been there.
    read: Option<u64>,
}

#[async_trait]
impl Contestant for Counting {
    async fn acquire(&self, ask: Ask) -> Result<Option<Box<dyn Held>>> {
        let Some(held) = self.inner.acquire(ask).await? else { return Ok(None) };
        let (data, read) = (Arc::clone(&self.data), self.data.read(held.token()));
        Ok(Some(Box::new(Counted { held, data, read })))
    }
}

#[async_trait]
impl Held for Counted {
    fn token(&self) -> FencingToken {
        self.held.token()
    }

    fn believed(&self) -> Option<Duration> {
        self.held.believed()
    }

    async fn release(self: Box<Self>) -> Result<()> {
        self.data.write(self.held.token(), self.read);
        self.held.release().await
    }

    async fn downgrade(self: Box<Self>) -> (Box<dyn Held>, Result<()>) {
        panic!("a mutex is not shared")
    }

    async fn upgrade(self: Box<Self>) -> Result<(Box<dyn Held>, bool)> {
        panic!("a mutex is not shared")
    }
}

impl Data {
    fn read(&self, token: FencingToken) -> Option<u64> {
        let value = self.send(token, &["GET"])?;
        Some(value.map_or(0, |value| value.parse().unwrap()))
    }

    /// With one more, unless a newer holder has been there.
    fn write(&self, token: FencingToken, read: Option<u64>) {
        let next = read.map(|read| (read + 1).to_string());
        let written = next.filter(|next| self.send(token, &["SET", next]).is_some());
        let what = written.unwrap_or_else(|| "refused".to_owned());
        let mut event_log =
            OpenOptions::new().create(true).append(true).open(&self.event_log).unwrap();
        event_log.write_all(format!("{} {} {what}\n", self.lock, token.get()).as_bytes()).unwrap();
    }

    /// `None`: a newer holder has been there.
    fn send(&self, token: FencingToken, words: &[&str]) -> Option<Option<String>> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = connection.get_or_insert_with(|| {
            let url = fs::read_to_string(self.folder.join(DATA)).unwrap();
            Client::open(url).unwrap().get_connection().unwrap()
        });
        if !self.is_fenced {
            return Some(
                cmd(words[0]).arg(key(&self.lock)).arg(&words[1..]).query(connection).unwrap(),
            );
        }
        let holder = Sequencer::new(self.lock.parse().unwrap(), Mode::Exclusive, token);
        let fenced = FencedKey::new(&key(&self.lock)).unwrap();
        let call = if words[0] == "GET" {
            fenced.read(&holder, words)
        } else {
            fenced.write(&holder, words)
        };
        let call = call.unwrap();
        let mut command = cmd("EVAL");
        command.arg(call.script).arg(call.keys.len()).arg(&call.keys[..]).arg(&call.args);
        let mut parts = command.query::<Vec<Value>>(connection).unwrap().into_iter();
        let first = from_redis_value(parts.next().unwrap()).unwrap();
        let second: Option<String> = parts.next().and_then(|part| from_redis_value(part).unwrap());
        matches!(Answer::of(first, second.as_deref()).unwrap(), Answer::Passed).then_some(second)
    }
}

/// All writes of all processes to one counter.
#[derive(Debug, Default)]
pub(crate) struct LostUpdateCounter {
    /// The written value, and the token of its writer.
    writes: Vec<(u64, u64)>,
    /// How many holders came too late.
    pub(crate) refused: usize,
}

impl LostUpdateCounter {
    pub(crate) fn of(folder: &Path, lock: &str) -> Self {
        let mut lost_updates = Self::default();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "counts") {
                continue;
            }
            // The last line may not be whole yet.
            for line in fs::read_to_string(&path)
                .unwrap()
                .split_inclusive('\n')
                .filter_map(|line| line.strip_suffix('\n'))
            {
                match line.split(' ').collect::<Vec<_>>()[..] {
                    [of, _, "refused"] if of == lock => lost_updates.refused += 1,
                    [of, token, value] if of == lock => {
                        lost_updates.writes.push((value.parse().unwrap(), token.parse().unwrap()));
                    }
                    _ => {}
                }
            }
        }
        lost_updates.writes.sort_unstable();
        lost_updates
    }

    pub(crate) fn written(&self) -> usize {
        self.writes.len()
    }

    /// Whether an increment is lost: a number was written twice.
    pub(crate) fn has_lost(&self) -> bool {
        self.writes.windows(2).any(|pair| pair[0].0 == pair[1].0)
    }

    /// Each number was written once, and each by a later holder than the number before it.
    pub(crate) fn check(&self, counter: u64) -> std::result::Result<(), String> {
        if self.writes.len() as u64 != counter {
            return Err(format!(
                "{} increments, and the counter says {counter}",
                self.writes.len()
            ));
        }
        match self
            .writes
            .windows(2)
            .find(|pair| pair[0].0 + 1 != pair[1].0 || pair[0].1 >= pair[1].1)
        {
            Some(pair) => Err(format!(
                "value {} with token {} after {} with {}",
                pair[1].0, pair[1].1, pair[0].0, pair[0].1
            )),
            None => Ok(()),
        }
    }
}
