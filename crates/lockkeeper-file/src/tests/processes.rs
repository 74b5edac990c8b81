//! Several processes: the test binary starts itself, and the copy runs [`child`] in the given role.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::many::acquire;
use super::*;

const ROLE: &str = "LOCKKEEPER_TEST_ROLE";
const PATH: &str = "LOCKKEEPER_TEST_PATH";
const ROUNDS: u64 = 30;

/// A process with a role, killed when the test is over.
struct Process(Child);

impl Process {
    fn start(role: &str, path: &Path) -> Self {
        Self::start_with(role, path, |_| ())
    }

    fn start_with(role: &str, path: &Path, set: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "tests::processes::child", "--nocapture"])
            .env(ROLE, role)
            .env(PATH, path)
            .stdout(Stdio::piped());
        set(&mut command);
        Self(command.spawn().unwrap())
    }

    /// Waits until the child reports this step; returns its words.
    fn wait_for(&mut self, word: &str) -> String {
        let out = BufReader::new(self.0.stdout.take().unwrap());
        let said = out.lines().map(|line| line.unwrap()).find(|line| line.contains(word));
        said.unwrap_or_else(|| panic!("it ended without saying {word:?}"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test: the work of the other process.
#[tokio::test]
async fn child() {
    let (Ok(role), Some(path)) = (std::env::var(ROLE), std::env::var_os(PATH)) else { return };
    let path = PathBuf::from(path);
    if role == "refused" {
        return println!("\nrefused: {}", FileStore::new(&path).open().await.unwrap_err());
    }
    let store = FileStore::new(&path).open().await.unwrap();
    match role.as_str() {
        "fork" => fork_and_stay_inside(store).await,
        "count" => {
            count(&Client::on(store, SessionSpec::new(TTL, Duration::ZERO)).await, &path).await
        }
        ttl => {
            let spec = SessionSpec::new(ms(ttl.parse().unwrap()), Duration::ZERO);
            let client = Client::on(store, spec).await;
            client.granted(&client.mutex("n")).await;
            println!("\nholding");
            tokio::time::sleep(TTL).await;
        }
    }
}

/// Preloaded, this library turns a check for the parent's process into a fork: the child lives as
/// long as its input.
const FORK: &str = "#include <unistd.h>
                    pid_t getppid(void) {
                        pid_t child = fork();
                        if (child == 0) { char c; while (read(0, &c, 1) > 0) {} _exit(0); }
                        return child;
                    }";

/// Reports the forked child once the process is inside the gate with a lock, and stays there.
async fn fork_and_stay_inside(store: FileStore) {
    let client = Client::on(store, short()).await;
    client.granted(&client.mutex("n")).await;
    let child = std::os::unix::process::parent_id();
    let inside = client.store.write(move |_: &mut Txn<'_>| {
        println!("\nforked {child}");
        std::thread::sleep(Duration::from_secs(600));
        Ok(())
    });
    inside.await.unwrap();
}

/// Increments a number in a file that only the lock protects.
async fn count(client: &Client, path: &Path) {
    let number = path.with_extension("number");
    for _ in 0..ROUNDS {
        let claim = client.mutex("n");
        acquire(client, &claim).await;
        let old: u64 = fs::read_to_string(&number).unwrap_or_default().parse().unwrap_or(0);
        tokio::task::yield_now().await;
        fs::write(&number, (old + 1).to_string()).unwrap();
        client.withdraw(&claim).await;
    }
}

#[tokio::test]
async fn a_killed_process_frees_its_locks_and_wakes_the_next_at_once() {
    let machine = Machine::new();
    let mut holder = Process::start("30000", &machine.path());
    holder.wait_for("holding");
    let client = machine.client().await;
    let waiting = client.mutex("n");
    client.queued(&waiting).await;
    let kill = async {
        tokio::time::sleep(ms(20)).await;
        holder.signal(Signal::KILL);
        clock()
    };
    let (wake, killed) = tokio::join!(client.wait(&waiting, TTL), kill);
    assert_eq!(wake, Wake::Changed);
    client.granted(&waiting).await;
    assert!(since(killed) < Duration::from_secs(10), "{:?}", since(killed));
}

#[tokio::test]
async fn a_child_of_a_process_killed_inside_the_gate_does_not_block_it() {
    let machine = Machine::new();
    let (source, library) = (machine.0.path().join("fork.c"), machine.0.path().join("fork.so"));
    fs::write(&source, FORK).unwrap();
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(compiled.unwrap().success());
    let client = machine.client().await;
    let mut killed = Process::start_with("fork", &machine.path(), |command| {
        // The child ends with this pipe, whose other end is here.
        command.env("LD_PRELOAD", &library).stdin(Stdio::piped());
    });
    let child = killed.wait_for("forked ").rsplit_once(' ').unwrap().1.to_owned();
    let parent = fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
    assert!(parent.contains(&format!(" {} ", killed.0.id())), "it was forked: {parent}");
    killed.signal(Signal::KILL);
    let claim = client.mutex("n");
    let granted = tokio::time::timeout(Duration::from_secs(20), acquire(&client, &claim)).await;
    assert!(Path::new(&format!("/proc/{child}")).exists(), "its child lives on");
    granted.expect("the gate is open");
}

#[tokio::test]
async fn a_stopped_process_keeps_its_lock_for_its_ttl_and_no_longer() {
    let machine = Machine::new();
    let mut holder = Process::start("4000", &machine.path());
    holder.wait_for("holding");
    holder.signal(Signal::STOP);
    let (client, start) = (machine.client().await, clock());
    let waiting = client.mutex("n");
    let (_, _, look_again) = client.queued(&waiting).await;
    assert!(look_again > ms(300), "{look_again:?}");
    assert_eq!(client.wait(&waiting, look_again).await, Wake::Elapsed);
    client.granted(&waiting).await;
    assert!(since(start) < ms(10_000), "{:?}", since(start));
}

#[tokio::test]
async fn four_processes_lose_no_update() {
    let machine = Machine::new();
    let mut processes: Vec<_> = (0..4).map(|_| Process::start("count", &machine.path())).collect();
    for process in &mut processes {
        assert!(process.0.wait().unwrap().success());
    }
    let number = fs::read_to_string(machine.path().with_extension("number")).unwrap();
    assert_eq!(number, (4 * ROUNDS).to_string());
}

/// The error of an opening of `path` with `source` mounted over `target`; nothing if mounting is
/// not allowed.
fn said_where_mounted(source: &Path, target: &Path, path: &Path) -> Option<String> {
    let script = "mount --bind \"$0\" \"$1\" || { echo not allowed; exit; }
                  exec \"$2\" --exact tests::processes::child --nocapture";
    let unshared = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script])
        .args([source, target, &std::env::current_exe().unwrap()])
        .env(ROLE, "refused")
        .env(PATH, path)
        .output();
    let said = unshared.map(|output| String::from_utf8(output.stdout).unwrap()).unwrap_or_default();
    if said.is_empty() || said.contains("not allowed") {
        left_out("nothing may be mounted here");
        return None;
    }
    Some(said)
}

/// The same as `docker run -v locks.db:/locks.db`.
#[tokio::test]
async fn a_database_that_is_mounted_by_itself_is_refused() {
    let machine = Machine::new();
    let _open = machine.open().await;
    let (elsewhere, mounted) =
        (machine.0.path().join("elsewhere"), machine.0.path().join("elsewhere/locks.db"));
    fs::create_dir(elsewhere).unwrap();
    File::create(&mounted).unwrap();
    let said = said_where_mounted(&machine.path(), &mounted, &mounted);
    assert!(said.as_ref().is_none_or(|said| said.contains("mounted there by itself")), "{said:?}");
}

/// The same as LXC.
#[tokio::test]
async fn a_container_with_its_own_boot_id_frees_no_detached_lock() {
    let machine = Machine::new();
    let holder = machine
        .client_with(SessionSpec { detached: true, ..SessionSpec::new(TTL, Duration::ZERO) })
        .await;
    let held = holder.mutex("stock");
    let token = holder.granted(&held).await;
    let Client { store, session, spec } = holder;
    drop(store);
    let id = machine.0.path().join("boot_id");
    fs::write(&id, "b6e7b5a2-0c56-4a7e-9a0d-6d3a3f1c2b11\n").unwrap();
    let said =
        said_where_mounted(&id, Path::new("/proc/sys/kernel/random/boot_id"), &machine.path());
    assert!(said.as_ref().is_none_or(|said| said.contains("stock is still held for ")), "{said:?}");
    let adopted = Client { store: machine.open().await, session, spec };
    assert_eq!(
        adopted.renew(&[(&held, LiveState::Granted)]).await.unwrap(),
        [Renewal::Held { token, ttl: held.ttl }]
    );
}
