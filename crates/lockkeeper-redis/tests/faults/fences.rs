//! Data in Redis behind a fence: the script of a fenced key on a real server.

use std::time::Duration;

use ::redis::{Connection, Value, cmd, from_redis_value};
use lockkeeper::fence::redis::{Answer, Call, FencedKey};
use lockkeeper::{FencingToken, Sequencer};
use lockkeeper_live::{cluster, redis};

use crate::support::{LONG, TIME_LIMIT, keeper, name, within};
use crate::worker;

/// Sends the call as a service would with a plain client; also returns the command's answer.
pub(crate) fn send(connection: &mut Connection, call: &Call) -> (Answer, Option<String>) {
    let mut command = cmd("EVAL");
    command.arg(call.script).arg(call.keys.len()).arg(&call.keys[..]).arg(&call.args);
    let mut parts = command.query::<Vec<Value>>(connection).unwrap().into_iter();
    let first = from_redis_value(parts.next().unwrap()).unwrap();
    let second: Option<String> = parts.next().and_then(|part| from_redis_value(part).unwrap());
    (Answer::of(first, second.as_deref()).unwrap(), second)
}

/// The data behind the fence, and their clients.
struct Stock {
    key: FencedKey,
    connection: Connection,
}

impl Stock {
    fn new(key: &str) -> Self {
        Self { key: FencedKey::new(key).unwrap(), connection: redis().unwrap().connect().unwrap() }
    }

    fn get(&mut self, holder: &Sequencer) -> Result<Option<String>, FencingToken> {
        self.send(&self.key.read(holder, &["GET"]).unwrap())
    }

    fn set(&mut self, holder: &Sequencer, value: &str) -> Result<(), FencingToken> {
        self.send(&self.key.write(holder, &["SET", value]).unwrap()).map(drop)
    }

    fn admit(&mut self, holder: &Sequencer) -> Result<(), FencingToken> {
        self.send(&self.key.admit(holder).unwrap()).map(drop)
    }

    fn send(&mut self, call: &Call) -> Result<Option<String>, FencingToken> {
        match send(&mut self.connection, call) {
            (Answer::Passed, answer) => Ok(answer),
            (Answer::Stale { seen }, _) => Err(seen),
            (other, _) => panic!("what is {other:?}?"),
        }
    }
}

/// The first access of a newer holder, a read, shuts out the older holder, whose write does
/// nothing.
#[tokio::test]
async fn a_newer_holders_first_access_shuts_out_the_older_one() {
    let name = name();
    let (keeper, mut stock) = (keeper(redis().unwrap().address(), LONG).await, Stock::new(&name));
    let mutex = keeper.mutex(&*name).unwrap();
    let older = mutex.lock().await.unwrap();
    let before = older.sequencer();
    stock.set(&before, "7").unwrap();
    assert_eq!(stock.get(&before).unwrap().as_deref(), Some("7"));
    older.release().await.unwrap();
    let newer = mutex.lock().await.unwrap();
    // No later holder has come yet.
    stock.set(&before, "8").unwrap();
    assert_eq!(stock.get(&newer.sequencer()).unwrap().as_deref(), Some("8"));
    let refused = [
        stock.set(&before, "9").unwrap_err(),
        stock.get(&before).unwrap_err(),
        stock.admit(&before).unwrap_err(),
    ];
    assert_eq!(refused, [newer.token(); 3]);
    assert_eq!(
        stock.get(&newer.sequencer()).unwrap().as_deref(),
        Some("8"),
        "what was refused has done nothing"
    );
    newer.release().await.unwrap();
}

/// Readers do not shut out each other, in any order; a writer shuts out all earlier holders, and
/// later readers shut out the writer.
#[tokio::test]
async fn readers_shut_out_writers_and_writers_shut_out_all() {
    let name = name();
    let (keeper, mut stock) = (keeper(redis().unwrap().address(), LONG).await, Stock::new(&name));
    let lock = keeper.rw_lock(&*name).unwrap();
    let readers = [lock.read().await.unwrap(), lock.read().await.unwrap()];
    let [first, second] = [readers[0].sequencer(), readers[1].sequencer()];
    for reader in [&second, &first, &second] {
        assert_eq!(stock.get(reader).unwrap(), None);
    }
    for reader in readers {
        reader.release().await.unwrap();
    }
    let guard = lock.write().await.unwrap();
    let writer = guard.sequencer();
    stock.set(&writer, "1").unwrap();
    assert_eq!(stock.get(&first).unwrap_err(), writer.token());
    assert_eq!(stock.get(&second).unwrap_err(), writer.token());
    guard.release().await.unwrap();
    let guard = lock.read().await.unwrap();
    let reader = guard.sequencer();
    assert_eq!(stock.get(&reader).unwrap().as_deref(), Some("1"));
    assert_eq!(stock.set(&writer, "2").unwrap_err(), reader.token());
    guard.release().await.unwrap();
}

/// K1 from end to end. A holder stops; its lease ends; a second holder gets the lock, reads, and
/// writes a value based on its read; the first goes on and writes without a look. Its write is
/// refused, and no update is lost.
#[tokio::test]
async fn k1_a_paused_holder_does_not_overwrite_what_came_after_it() {
    let (server, name, ttl) = (redis().unwrap(), name(), Duration::from_millis(1500));
    let (keeper, mut stock) = (keeper(server.address(), LONG).await, Stock::new(&name));
    let mut paused = worker::start(&server.url());
    paused.lock(&name, ttl);
    assert_eq!(paused.ask(&format!("write {name} 1")), "written");
    paused.stop();
    let guard = within(TIME_LIMIT, keeper.mutex(&*name).unwrap().lock()).await.unwrap();
    let holder = guard.sequencer();
    assert_eq!(stock.get(&holder).unwrap().as_deref(), Some("1"));
    // Sent before the process goes on, so that the write is its first action.
    paused.send(&format!("write {name} 100"));
    paused.go_on();
    assert_eq!(paused.answer(), format!("stale, seen {}", guard.token()));
    stock.set(&holder, "2").unwrap();
    assert_eq!(stock.get(&holder).unwrap().as_deref(), Some("2"));
    assert_eq!(paused.ask(&format!("write {name} 100")), format!("stale, seen {}", guard.token()));
    assert_eq!(stock.get(&holder).unwrap().as_deref(), Some("2"));
    guard.release().await.unwrap();
}

/// In a cluster the marks are in the slot of the data, whether the key has a hash tag or not.
#[tokio::test]
async fn a_fenced_key_works_in_a_cluster() {
    let (cluster, name) = (cluster().unwrap(), name());
    let holder: Sequencer = "lk1.x.34.stock".parse().unwrap();
    for key in [format!("{name}:stock"), format!("{{{name}}}:stock"), format!("a{{{name}}}b}}c")] {
        let owner = cluster.owner(cluster.slot_of(&key).unwrap()).unwrap();
        let mut connection = cluster.nodes()[owner].connect().unwrap();
        let fenced = FencedKey::new(&key).unwrap();
        let (written, _) = send(&mut connection, &fenced.write(&holder, &["SET", "7"]).unwrap());
        assert_eq!(written, Answer::Passed, "{key}");
        let (_, read) = send(&mut connection, &fenced.read(&holder, &["GET"]).unwrap());
        assert_eq!(read.as_deref(), Some("7"), "{key}");
    }
}
