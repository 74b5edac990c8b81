//! Two users that share a file: root, and the owner of the file.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::*;
use crate::files::Rights;
use crate::liveness::Clients;
use crate::opened::OpenConnection;

const ROLE: &str = "LOCKKEEPER_TEST_USER_ROLE";
const PATH: &str = "LOCKKEEPER_TEST_PATH";
const USER: u32 = 12_345;

/// A process of the owner of the file, with a role.
struct Other(Child);

impl Other {
    fn start(role: &str, machine: &Machine) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "tests::users::child", "--nocapture"])
            .env(ROLE, role)
            .env(PATH, machine.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .uid(USER)
            .gid(USER);
        Self(command.spawn().unwrap())
    }

    fn wait_for(&mut self, word: &str) -> String {
        let out = BufReader::new(self.0.stdout.take().unwrap());
        let said = out.lines().map(|line| line.unwrap()).find(|line| line.contains(word));
        said.unwrap_or_else(|| panic!("it ended without saying {word:?}"))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// As if the machine had been restarted a while ago.
fn boot() -> Result<Boot> {
    Ok(Boot::after_a_restart(Duration::from_nanos(clock().as_nanos())))
}

/// Not a test: the work of the other process.
#[tokio::test]
async fn child() {
    let (Ok(role), Some(path)) = (std::env::var(ROLE), std::env::var_os(PATH)) else { return };
    let builder = FileStore::new(PathBuf::from(path));
    let says = |opened: Result<FileStore>| match opened {
        Ok(_) => println!("\nopened"),
        Err(error) => println!("\nopened: {error}, {:?}", error.remedy()),
    };
    match role.as_str() {
        "open" => says(builder.open().await),
        "try" => {
            let client = Client::on(builder.open().await.unwrap(), short()).await;
            let verdict = client.store.claim(&client.r#try("n")).await.unwrap();
            println!("\nsays {verdict:?}");
        }
        "open after a restart" => says(builder.boot(boot).open().await),
        _ => {
            let spec = SessionSpec::new(TTL, ms(0));
            let client = Client::on(builder.open().await.unwrap(), spec).await;
            let held = client.mutex("n");
            client.granted(&held).await;
            println!("\nholding");
            std::io::stdin().read_line(&mut String::new()).unwrap();
            client.withdraw(&held).await;
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
    }
}

/// A folder of another user, whose first opening has made the file: "Root and one other user" in
/// docs/file.md.
fn shared_with_root() -> Option<Machine> {
    let machine = Machine::new();
    if std::os::unix::fs::chown(machine.0.path(), Some(USER), Some(USER)).is_err() {
        left_out("only root can play another user");
        return None;
    }
    assert_eq!(Other::start("open", &machine).wait_for("opened"), "opened");
    Some(machine)
}

#[tokio::test]
async fn a_file_that_root_has_left_shuts_nobody_out_after_a_restart() {
    let Some(machine) = shared_with_root() else { return };
    let live = machine.0.path().join("locks.db.live");
    // A client that was killed.
    drop(Clients::new(live).enroll(Rights::of(&machine.path()).unwrap()).unwrap());
    let said = Other::start("open after a restart", &machine).wait_for("opened");
    assert_eq!(said, "opened");
}

#[tokio::test]
async fn a_release_of_another_user_wakes_the_next_waiter_at_once() {
    let Some(machine) = shared_with_root() else { return };
    let mut holder = Other::start("hold", &machine);
    let mut input = holder.0.stdin.take().unwrap();
    holder.wait_for("holding");
    let waiter = machine.client().await;
    let waiting = waiter.mutex("n");
    waiter.queued(&waiting).await;
    let mut waits = std::pin::pin!(waiter.wait(&waiting, TTL));
    assert!(tokio::time::timeout(ms(50), &mut waits).await.is_err());
    waiter.store.0.reader.ask(|_| Ok(())).await.unwrap();
    input.write_all(b"\n").unwrap();
    let wake = waits.await;
    assert!(matches!(wake, Wake::Granted { .. }), "{wake:?}");
}

/// An earlier version left such files.
#[tokio::test]
async fn a_file_that_only_root_can_read_is_refused_with_its_name_and_a_remedy() {
    let Some(machine) = shared_with_root() else { return };
    let left = machine.0.path().join("locks.db.live/left");
    fs::write(&left, "").unwrap();
    fs::set_permissions(&left, fs::Permissions::from_mode(0o600)).unwrap();
    let said = Other::start("open after a restart", &machine).wait_for("opened");
    assert!(said.contains("locks.db.live/left: ") && said.contains("once as root"), "{said}");
    drop(machine.open().await);
    let said = Other::start("open after a restart", &machine).wait_for("opened");
    assert_eq!(said, "opened");
}

#[tokio::test]
async fn a_killed_holder_of_another_user_frees_its_locks_at_once() {
    let Some(machine) = shared_with_root() else { return };
    let root = machine.client().await;
    root.granted(&root.mutex("n")).await;
    let seen = || Other::start("try", &machine).wait_for("says").contains("Busy");
    assert!(seen());
    drop(root);
    assert!(!seen(), "its ttl has not passed");
}

/// A client without open sessions leaves no file. A file that shows the end of a session stays.
#[tokio::test]
async fn a_client_that_ends_in_order_removes_its_own_file() {
    let machine = Machine::new();
    let folder = machine.0.path().join("locks.db.live");
    let count = || fs::read_dir(&folder).unwrap().count();
    let [ended, killed] = [machine.client().await, machine.client().await];
    let guard = ended.store.liveness().unwrap();
    killed.granted(&killed.mutex("n")).await;
    ended.store.close(&ended.session, &[]).await.unwrap();
    drop((ended, killed));
    let closed = async || {
        while OpenConnection::count(&machine.path()) > 0 {
            tokio::task::yield_now().await;
        }
    };
    closed().await;
    assert_eq!(count(), 2, "a duplicate of its descriptor is open");
    drop(guard);
    // A child of another test has all descriptors until it runs its program, so the first opening
    // may find both clients alive.
    let recorded_and_removed = async {
        while count() > 0 {
            drop(machine.open().await);
            closed().await;
        }
    };
    tokio::time::timeout(ms(30_000), recorded_and_removed).await.expect("the files stay");
}
