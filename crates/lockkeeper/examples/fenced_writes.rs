//! The purpose of fencing tokens.
//!
//! Process A takes a lock, reads, and is stopped (as by a long pause of the machine) for longer
//! than its lease lasts. B takes over the lock and sells an apple. Then A goes on, and writes the
//! number that it computed before. The write comes too late, and the resource refuses it: a row of
//! an SQLite table, and a service with a `FenceGate`.
//!
//! ```sh
//! cargo run -p lockkeeper --example fenced_writes
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use lockkeeper::fence::FenceGate;
use lockkeeper::fence::sql::{Dialect, FencedTable, Statement};
use lockkeeper::{FileStore, Guard, Keeper, Sequencer};
use rusqlite::{Connection, Transaction, TransactionBehavior, params_from_iter};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const LOCK: &str = "stock/apples";
const APPLES: i64 = 1;
const TTL: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<()> {
    match std::env::args().nth(1) {
        Some(folder) => paused_holder(Path::new(&folder)).await,
        None => story().await,
    }
}

/// The side of B and of the service.
async fn story() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut db = shop(folder.path())?;
    db.execute_batch("CREATE TABLE stock (id INTEGER PRIMARY KEY, count INTEGER); INSERT INTO stock VALUES (1, 7)")?;
    for ddl in stock()?.add_columns() {
        say("shop", &ddl);
        db.execute_batch(&ddl)?;
    }
    let gate = FenceGate::new(LOCK.parse()?);

    let mut a = Paused::start(folder.path())?;
    let from_a: Sequencer = a.answer()?.parse()?;
    gate.admit(&from_a)?;
    say("service", &format!("a request with {from_a}: admitted"));
    a.stop(folder.path())?;
    say("A", "is stopped");

    let guard = lock(folder.path()).await?;
    say(
        "B",
        &format!(
            "has the lock, with token {}, since A's lease of {TTL:?} has ended",
            guard.token()
        ),
    );
    let selling = begin(&mut db)?;
    let may = admitted(&selling, stock()?.open(APPLES, &guard.sequencer())?)?;
    assert!(may, "the holder of the lock is admitted");
    let count = count(&selling)?;
    selling.execute("UPDATE stock SET count = ?1 WHERE id = ?2", [count - 1, APPLES])?;
    selling.commit()?;
    say("B", &format!("has read {count} and written {}", count - 1));
    gate.admit(&guard.sequencer())?;
    say("service", &format!("a request with {}: admitted", guard.sequencer()));

    a.go_on()?;
    say("A", "goes on");
    let late = a.answer()?;
    assert_eq!(late, "refused", "the late write came through");
    let stale = gate.admit(&from_a).err().ok_or("the late request came through")?;
    say("service", &format!("a request with {from_a}: refused. {stale}"));

    let left: i64 = self::count(&db)?;
    assert_eq!(left, count - 1, "B's sale is lost");
    say("shop", &format!("{left} apples are left, and no sale was lost"));
    guard.release().await?;
    a.end()
}

/// The side of A: it is stopped after its read, and does not notice the stop.
async fn paused_holder(folder: &Path) -> Result<()> {
    let guard = lock(folder).await?;
    say("A", &format!("has the lock, with token {}", guard.token()));
    let mut db = shop(folder)?;
    let reading = begin(&mut db)?;
    assert!(
        admitted(&reading, stock()?.open(APPLES, &guard.sequencer())?)?,
        "the holder of the lock is admitted"
    );
    let count = count(&reading)?;
    reading.commit()?;
    say("A", &format!("has read {count}"));
    println!("{}", guard.sequencer());

    let word = std::io::stdin().lines().next().ok_or("nobody let it go on")?;
    word?;
    // The write counts as sent already: a check by A before the write would not help.
    let written =
        admitted(&db, stock()?.write(APPLES, &guard.sequencer(), &[("count", count - 1)])?)?;
    say(
        "A",
        &format!("its late write of {} is {}", count - 1, if written { "done" } else { "refused" }),
    );
    assert!(guard.check().is_err(), "its guard says now that the lock is lost");
    println!("{}", if written { "written" } else { "refused" });
    Ok(())
}

async fn lock(folder: &Path) -> Result<Guard> {
    let store = FileStore::new(folder.join("locks.db")).open().await?;
    let keeper = Keeper::builder(store).ttl(TTL).connect().await?;
    Ok(keeper.mutex(LOCK)?.lock().wait(Duration::from_secs(30)).await?)
}

fn shop(folder: &Path) -> Result<Connection> {
    Ok(Connection::open(folder.join("shop.db"))?)
}

fn stock() -> Result<FencedTable> {
    Ok(FencedTable::new(Dialect::Sqlite, "stock", "id", "fence")?)
}

fn begin(db: &mut Connection) -> Result<Transaction<'_>> {
    Ok(db.transaction_with_behavior(TransactionBehavior::Immediate)?)
}

/// Whether the access may go on.
fn admitted(db: &Connection, access: Vec<Statement<i64>>) -> Result<bool> {
    let mut admitted = false;
    for statement in access {
        admitted = db
            .prepare(&statement.sql)?
            .query(params_from_iter(statement.params))?
            .next()?
            .is_some();
    }
    Ok(admitted)
}

fn count(db: &Connection) -> Result<i64> {
    Ok(db.query_row("SELECT count FROM stock WHERE id = ?1", [APPLES], |row| row.get(0))?)
}

fn say(who: &str, what: &str) {
    // On stderr, since the standard output of A carries its answers.
    eprintln!("{who:>7}  {what}");
}

/// A second process of this program, as A.
struct Paused {
    process: Child,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Paused {
    fn start(folder: &Path) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = BufReader::new(process.stdout.take().ok_or("no pipe")?).lines();
        Ok(Self { process, answers })
    }

    fn answer(&mut self) -> Result<String> {
        let answer = self.answers.next().ok_or("A has ended")?;
        Ok(answer?)
    }

    /// Stops A, but not during a renewal: the locks of a file store are behind a gate, and a
    /// process that is stopped inside the gate stops all others.
    fn stop(&self, folder: &Path) -> Result<()> {
        let (pid, gate) = (Pid::from_child(&self.process), folder.join("locks.db.gate"));
        loop {
            kill_process(pid, Signal::STOP)?;
            waitpid(Some(pid), WaitOptions::UNTRACED)?;
            if File::open(&gate)?.try_lock().is_ok() {
                return Ok(());
            }
            kill_process(pid, Signal::CONT)?;
        }
    }

    fn go_on(&mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.process), Signal::CONT)?;
        let stdin = self.process.stdin.as_mut().ok_or("no pipe")?;
        Ok(writeln!(stdin, "go on")?)
    }

    fn end(mut self) -> Result<()> {
        assert!(self.process.wait()?.success(), "A failed");
        Ok(())
    }
}

impl Drop for Paused {
    /// Leaves no stopped process behind, even after a failure.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
