//! The rights of the files: what the store makes, and what it refuses because other users may use
//! it.

use tokio::task::JoinHandle;

use super::*;

#[tokio::test]
async fn the_files_are_private_and_dead_clients_are_removed() {
    let machine = Machine::new();
    let nested = machine.0.path().join("a/b/locks.db");
    let error = FileStore::new(&nested).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let store = FileStore::new(&nested).create_parents(true).open().await.unwrap();
    assert_eq!(store.to_string(), format!("file:{}", nested.canonicalize().unwrap().display()));
    let mode = |path: &str| {
        fs::metadata(machine.0.path().join(path)).unwrap().permissions().mode() & 0o777
    };
    for (path, expected) in [
        ("a", 0o700),
        ("a/b", 0o700),
        ("a/b/locks.db", 0o600),
        ("a/b/locks.db.gate", 0o600),
        ("a/b/locks.db-wal", 0o600),
    ] {
        assert_eq!(mode(path), expected, "{path}");
    }
    let live = || fs::read_dir(machine.0.path().join("a/b/locks.db.live")).unwrap().count();
    drop(store);
    let again = FileStore::new(&nested).open().await.unwrap();
    assert_eq!(live(), 1);
    drop(again);
}

#[tokio::test]
async fn a_file_or_folder_that_others_can_write_is_refused_unless_allowed() {
    for writable in ["locks.db", ""] {
        let machine = Machine::new();
        drop(machine.open().await);
        let path = machine.0.path().join(writable);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).unwrap();
        let error = FileStore::new(machine.path()).open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.remedy().unwrap().contains("chmod"), "{error}");
        FileStore::new(machine.path()).allow(Check::Permissions).open().await.unwrap();
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_refused() {
    // For root no mode is read-only, but /proc is.
    let error = FileStore::new("/proc/locks.db").open().await.unwrap_err();
    assert!(error.remedy().is_some(), "{error}");
    let machine = Machine::new();
    fs::set_permissions(machine.0.path(), fs::Permissions::from_mode(0o500)).unwrap();
    if File::create(machine.0.path().join("x")).is_err() {
        let error = FileStore::new(machine.path()).open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    } else {
        left_out("root may write a read-only folder");
    }
    fs::set_permissions(machine.0.path(), fs::Permissions::from_mode(0o700)).unwrap();
}

/// A user who may write the folder may make the store's files before the store does.
#[tokio::test]
async fn what_another_user_has_put_where_all_may_write_is_refused() {
    for suffix in ["", "-wal", "-shm", ".gate", ".live", ".notify"] {
        let machine = Machine::new();
        fs::set_permissions(machine.0.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let planted = files::suffixed(&machine.path(), suffix);
        if [".live", ".notify"].contains(&suffix) {
            fs::create_dir(&planted)
        } else {
            fs::write(&planted, "")
        }
        .unwrap();
        if std::os::unix::fs::chown(&planted, Some(12_345), None).is_err() {
            return left_out("only root can play another user");
        }
        let error = FileStore::new(machine.path()).open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{suffix}: {error}");
        assert!(
            error.to_string().contains(&format!("locks.db{suffix} ")) && error.remedy().is_some(),
            "{error}"
        );
        FileStore::new(machine.path()).allow(Check::Permissions).open().await.unwrap();
    }
}

/// Shuts the gate, and opens the file until the opening waits there.
pub(super) async fn at_the_gate(
    machine: &Machine,
    builder: FileStoreBuilder,
) -> (File, JoinHandle<Result<FileStore>>) {
    use std::os::unix::fs::MetadataExt;

    drop(machine.open().await);
    // The store that was dropped goes through the gate once more.
    let live = files::suffixed(&machine.path(), ".live");
    while fs::read_dir(&live).unwrap().count() > 0 {
        tokio::task::yield_now().await;
    }
    let gate = File::open(files::suffixed(&machine.path(), ".gate")).unwrap();
    gate.lock().unwrap();
    let opening = tokio::spawn(builder.open());
    let of_the_gate = format!(":{} ", gate.metadata().unwrap().ino());
    let waits = |line: &str| line.contains("-> FLOCK") && line.contains(&of_the_gate);
    while !fs::read_to_string("/proc/locks").unwrap().lines().any(waits) {
        tokio::task::yield_now().await;
    }
    (gate, opening)
}

/// The last check comes after the files are made: it sees a file that another user put there in
/// between.
#[tokio::test]
async fn what_another_user_has_put_there_during_the_opening_is_refused() {
    let machine = Machine::new();
    fs::set_permissions(machine.0.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let (gate, opening) = at_the_gate(&machine, FileStore::new(machine.path())).await;
    let folder = files::suffixed(&machine.path(), ".notify");
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    if std::os::unix::fs::chown(&folder, Some(12_345), None).is_err() {
        gate.unlock().unwrap();
        return left_out("only root can play another user");
    }
    gate.unlock().unwrap();
    let error = opening.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("locks.db.notify belongs to another user"), "{error}");
}

#[tokio::test]
async fn files_beside_it_that_others_can_write_are_refused() {
    for suffix in [".gate", ".live", ".notify"] {
        let machine = Machine::new();
        drop(machine.open().await);
        let path = files::suffixed(&machine.path(), suffix);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let error = FileStore::new(machine.path()).open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{suffix}: {error}");
    }
}

#[tokio::test]
async fn a_sticky_folder_is_taken() {
    let machine = Machine::new();
    fs::set_permissions(machine.0.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    drop(machine.open().await);
    drop(machine.open().await);
}
