//! Registers in the file, in their differences from locks.

use super::*;
use crate::opened::OpenConnection;
use crate::registers::{Register, Swap, Version, Write};

#[tokio::test]
async fn a_version_reaches_the_disk_before_it_is_answered() {
    let machine = Machine::new();
    let store = machine.open().await;
    let write = Write::new(Version::ABSENT, "7");
    let unsafely = write.clone();
    let refused = store.write(move |txn| txn.swap("n", &unsafely)).await.unwrap_err();
    assert!(refused.to_string().contains("might not reach the disk"), "{refused}");
    assert_eq!(store.register().compare_and_swap("n", &write).await.unwrap(), Swap::Done);
}

#[tokio::test]
async fn another_boot_leaves_the_registers_as_they_are() {
    let machine = Machine::new();
    let write = Write::new(Version::ABSENT, "7");
    {
        let store = machine.open().await;
        assert_eq!(store.register().compare_and_swap("n", &write).await.unwrap(), Swap::Done);
    }
    let store = FileStore::new(machine.path())
        .boot(|| Ok(Boot::after_a_restart(ms(5000))))
        .open()
        .await
        .unwrap();
    let found = store.register().load("n").await.unwrap().unwrap();
    assert_eq!(
        (found.version, found.value, found.writers),
        (write.makes(), b"7".to_vec(), vec![write.writer()])
    );
    assert!(matches!(
        store.register().compare_and_swap("n", &write).await.unwrap(),
        Swap::Conflict(_)
    ));
}

/// A client that opened the file before the table was made sees its contents, too.
#[tokio::test]
async fn who_looked_before_there_was_a_register_sees_it_afterwards() {
    let machine = Machine::new();
    let (ours, theirs) = (machine.open().await.register(), machine.open().await.register());
    assert_eq!(ours.load("n").await.unwrap(), None);
    theirs.compare_and_swap("n", &Write::new(Version::ABSENT, "7")).await.unwrap();
    assert_eq!(ours.load("n").await.unwrap().unwrap().value, b"7");
}

/// `docs/file.md` names these two ways. The log alone may have all that was written.
#[tokio::test]
async fn a_copy_by_sqlite_or_with_the_log_has_the_id_and_the_registers() {
    let machine = Machine::new();
    let (copy, second) = (machine.0.path().join("copy.db"), machine.0.path().join("second.db"));
    let store = machine.open().await;
    let (id, write) = (store.id().await.unwrap(), Write::new(Version::ABSENT, "7"));
    assert_eq!(store.register().compare_and_swap("n", &write).await.unwrap(), Swap::Done);
    // Another process: a second SQLite in this one would drop the locks of the first.
    let made = std::process::Command::new("sqlite3")
        .arg(machine.path())
        .arg(format!("VACUUM INTO '{}'", copy.display()))
        .status();
    drop(store);
    while OpenConnection::count(&machine.path()) > 0 {
        tokio::task::yield_now().await;
    }
    fs::copy(machine.path(), &second).unwrap();
    let log = |path| files::suffixed(path, "-wal");
    fs::copy(log(&machine.path()), log(&second)).unwrap();
    let mut copies = vec![second];
    match made {
        Ok(made) => {
            assert!(made.success());
            copies.push(copy);
        }
        Err(_) => left_out("a copy by SQLite, without the program sqlite3"),
    }
    for copy in copies {
        let copy = FileStore::new(copy).open().await.unwrap();
        assert_eq!(copy.register().load("n").await.unwrap().unwrap().value, b"7");
        assert_eq!(copy.id().await.unwrap(), id);
    }
}
