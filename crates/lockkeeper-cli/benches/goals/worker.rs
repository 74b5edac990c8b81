//! A process of its own that locks and releases on orders: this program again, with a variable set.

use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use lockkeeper::{FileStore, Keeper, Mutex};
use rusqlite::{Connection, params};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};

const ROLE: &str = "LOCKKEEPER_BENCH_WORKER";

/// The parent's side.
pub(crate) struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

/// The role of a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    /// Locks and releases a lock of its own.
    Pairs,
    /// Runs the least work of a lock in SQLite: two transactions behind a gate.
    Transactions,
    /// Takes turns with others.
    Turns,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Transactions => "transactions",
            Self::Turns => "turns",
        }
    }
}

impl Worker {
    /// One that is ready for orders.
    pub(crate) fn start(role: Role, dir: &Path, name: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(ROLE, role.name())
            .args([dir.as_os_str(), name.as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut worker = Self { child, orders, answers };
        assert_eq!(worker.answer(), "ready");
        worker
    }

    pub(crate) fn order(&mut self, number: u64) {
        writeln!(self.orders, "{number}").unwrap();
    }

    pub(crate) fn answer(&mut self) -> String {
        self.answers.next().unwrap_or_else(|| panic!("a worker ended without an answer")).unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn is_one() -> bool {
    std::env::var_os(ROLE).is_some()
}

/// The worker's side: one answer to each order, until there are no more.
pub(crate) fn work() {
    let role = std::env::var(ROLE).unwrap();
    let mut args = std::env::args_os().skip(1);
    let (dir, name) = (args.next().unwrap(), args.next().unwrap().into_string().unwrap());
    let dir = Path::new(&dir);
    let mut obey: Box<dyn FnMut(u64) -> String> = match role.as_str() {
        "transactions" => {
            let raw = Raw::open(dir, &name);
            Box::new(move |millis| counted(millis, || raw.pair()).to_string())
        }
        role => {
            let (runtime, mutex) = lock(dir, &name);
            let is_turns = role == "turns";
            Box::new(move |number| {
                if is_turns {
                    runtime.block_on(turns(&mutex, number))
                } else {
                    pairs(&runtime, &mutex, number)
                }
            })
        }
    };
    println!("ready");
    for order in std::io::stdin().lines() {
        println!("{}", obey(order.unwrap().parse().unwrap()));
    }
}

fn lock(dir: &Path, name: &str) -> (Runtime, Mutex) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let mutex = runtime.block_on(async {
        let store = FileStore::new(dir.join("locks.db")).open().await.unwrap();
        let mutex = Keeper::builder(store).connect().await.unwrap().mutex(name).unwrap();
        // Opens the session.
        mutex.lock().await.unwrap().release().await.unwrap();
        mutex
    });
    (runtime, mutex)
}

/// How often the action ran within this many milliseconds.
fn counted(millis: u64, mut once: impl FnMut()) -> u64 {
    let end = Instant::now() + Duration::from_millis(millis);
    let mut count = 0;
    while Instant::now() < end {
        once();
        count += 1;
    }
    count
}

fn pairs(runtime: &Runtime, mutex: &Mutex, millis: u64) -> String {
    runtime.block_on(async {
        let end = Instant::now() + Duration::from_millis(millis);
        let mut count = 0_u64;
        while Instant::now() < end {
            mutex.lock().await.unwrap().release().await.unwrap();
            count += 1;
        }
        count.to_string()
    })
}

/// So many turns: `grant release grant release …`, in nanoseconds of a clock that all processes
/// share.
async fn turns(mutex: &Mutex, count: u64) -> String {
    let mut times = Vec::new();
    for _ in 0..count {
        let guard = mutex.lock().await.unwrap();
        times.push(nanos().to_string());
        // Time for the other one to come to the line.
        tokio::time::sleep(Duration::from_millis(3)).await;
        times.push(nanos().to_string());
        guard.release().await.unwrap();
    }
    times.join(" ")
}

fn nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap()
}

/// A lock in SQLite without the parts that make a lock reliable: no line, no session, no time, no
/// waiting.
struct Raw {
    db: Connection,
    gate: File,
    name: String,
}

impl Raw {
    fn open(dir: &Path, name: &str) -> Self {
        let gate = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(dir.join("raw.db.gate"))
            .unwrap();
        gate.lock().unwrap();
        let db = Connection::open(dir.join("raw.db")).unwrap();
        db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        db.pragma_update(None, "synchronous", "FULL").unwrap();
        db.execute_batch(
            "CREATE TABLE IF NOT EXISTS lock (name TEXT PRIMARY KEY, holder BLOB, fence INTEGER NOT NULL)",
        )
        .unwrap();
        db.execute("INSERT OR IGNORE INTO lock (name, fence) VALUES (?1, 0)", [name]).unwrap();
        gate.unlock().unwrap();
        Self { db, gate, name: name.to_owned() }
    }

    fn pair(&self) {
        let id = [7_u8; 16];
        self.transact(
            "UPDATE lock SET holder = ?2, fence = fence + 1 WHERE name = ?1 AND holder IS NULL",
            &id,
        );
        self.transact("UPDATE lock SET holder = NULL WHERE name = ?1 AND holder = ?2", &id);
    }

    fn transact(&self, sql: &str, id: &[u8; 16]) {
        self.gate.lock().unwrap();
        self.db.execute_batch("BEGIN IMMEDIATE").unwrap();
        let changed = self.db.prepare_cached(sql).unwrap().execute(params![self.name, id]).unwrap();
        assert_eq!(changed, 1);
        self.db.execute_batch("COMMIT").unwrap();
        self.gate.unlock().unwrap();
    }
}
