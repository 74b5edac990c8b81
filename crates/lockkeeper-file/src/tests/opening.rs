//! Opening a file: what it keeps, and what it refuses.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinHandle;

use super::*;

#[tokio::test]
async fn tokens_go_on_after_reopening_and_in_a_file_that_was_made_anew() {
    let machine = Machine::new();
    let mut last = 0;
    for round in 0..4 {
        if round == 3 {
            fs::remove_dir_all(machine.0.path()).unwrap();
            fs::create_dir(machine.0.path()).unwrap();
            fs::set_permissions(machine.0.path(), fs::Permissions::from_mode(0o700)).unwrap();
        }
        let client = machine.client().await;
        let claim = client.mutex("n");
        let token = client.granted(&claim).await;
        assert!(token > last && token < 1 << 54, "{token}");
        last = token;
        client.withdraw(&claim).await;
    }
}

#[tokio::test]
async fn another_boot_empties_the_lines_but_not_the_fences() {
    let machine = Machine::new();
    let old = machine.client_with(SessionSpec::new(TTL, TTL)).await;
    let held = old.mutex("n");
    let token = old.granted(&held).await;
    old.store.withdraw(&old.key("n"), Some(TTL)).await.unwrap();
    drop(old);
    let store = FileStore::new(machine.path()).boot(|| Ok(Boot::after_a_restart(ms(5000)))).open().await.unwrap();
    assert!(store.line(&name("n")).await.unwrap().entries.is_empty());
    let new = Client::on(store, short()).await;
    assert_eq!(new.granted(&new.mutex("n")).await, token + 1);
}

#[tokio::test]
async fn tokens_rise_after_a_name_was_reaped() {
    let machine = Machine::new();
    let client = machine.client().await;
    let claim = client.mutex("first");
    let token = client.granted(&claim).await;
    client.withdraw(&claim).await;
    client
        .store
        .write(move |txn| {
            for i in 0..6000 {
                txn.fill(&format!("x{i}"), i64::try_from(token).unwrap() + 100 + i)?;
            }
            txn.clear_away()?;
            txn.clear_away()?;
            txn.clear_away()
        })
        .await
        .unwrap();
    let line = client.store.line(&name("first")).await.unwrap();
    assert_eq!(line.last_token, None, "reaped");
    assert!(client.granted(&client.mutex("first")).await > token + 100);
}

#[tokio::test]
async fn a_name_that_is_being_claimed_is_not_reaped() {
    let machine = Machine::new();
    let client = machine.client().await;
    let many = |txn: &mut Txn<'_>| (0..5000).try_for_each(|i| txn.fill(&format!("x{i}"), 1));
    client.store.write(many).await.unwrap();
    // The reaper runs at the claim of a new name, such as these, and looks at them first.
    for i in 0..1030 {
        let claim = client.mutex(&format!("a{i}"));
        let token = client.granted(&claim).await;
        assert_eq!(client.store.line(&claim.key.name).await.unwrap().last_token, Some(token), "{i}");
    }
    let left = client.store.write(|txn| txn.number("SELECT count(*) FROM lk_lock")).await.unwrap();
    assert!(left < 5000 + 1030, "it ran: {left}");
}

#[tokio::test]
async fn another_boot_keeps_the_fence_of_what_was_held() {
    let machine = Machine::new();
    let client = machine.client_with(SessionSpec::new(TTL, TTL)).await;
    let earlier = client.mutex("n");
    client.granted(&earlier).await;
    client.withdraw(&earlier).await;
    let tokens = [client.granted(&client.mutex("n")).await, client.granted(&client.mutex("m")).await];
    client.queued(&client.mutex("n")).await;
    drop(client);
    let store = FileStore::new(machine.path()).boot(|| Ok(Boot::after_a_restart(ms(5000)))).open().await.unwrap();
    let new = Client::on(store, short()).await;
    assert_eq!(new.granted(&new.mutex("n")).await, tokens[0] + 2, "the one that waited had a token too");
    assert_eq!(new.granted(&new.mutex("m")).await, tokens[1] + 1);
}

#[tokio::test]
async fn the_files_are_private_and_dead_clients_are_removed() {
    let machine = Machine::new();
    let nested = machine.0.path().join("a/b/locks.db");
    let error = FileStore::new(&nested).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let store = FileStore::new(&nested).create_parents(true).open().await.unwrap();
    assert_eq!(store.to_string(), format!("file:{}", nested.canonicalize().unwrap().display()));
    let mode = |path: &str| fs::metadata(machine.0.path().join(path)).unwrap().permissions().mode() & 0o777;
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
async fn what_is_not_ours_is_refused_with_a_remedy() {
    let refused = |machine: &Machine| {
        let path = machine.path();
        async move { FileStore::new(path).open().await.unwrap_err() }
    };
    let text = Machine::new();
    fs::write(text.path(), "this is certainly not a database, however long one looks at it").unwrap();
    fs::set_permissions(text.path(), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(refused(&text).await.kind(), ErrorKind::Invalid);

    let foreign = Machine::new();
    Connection::open(foreign.path()).unwrap().execute_batch("CREATE TABLE songs (title)").unwrap();
    let error = refused(&foreign).await;
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("another program") && error.remedy().is_some(), "{error}");

    let newer = Machine::new();
    drop(newer.open().await);
    Connection::open(newer.path()).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let error = refused(&newer).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("newer") && error.remedy().is_some(), "{error}");

    let older = Machine::new();
    drop(older.open().await);
    Connection::open(older.path()).unwrap().execute_batch("PRAGMA user_version = 1").unwrap();
    let error = refused(&older).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("older") && error.remedy().is_some(), "{error}");

    let folder = Machine::new();
    fs::create_dir(folder.path()).unwrap();
    assert_eq!(refused(&folder).await.kind(), ErrorKind::Invalid);

    let linked = Machine::new();
    drop(linked.open().await);
    fs::hard_link(linked.path(), linked.0.path().join("other.db")).unwrap();
    assert_eq!(refused(&linked).await.kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn a_file_or_folder_that_others_can_write_is_refused_unless_that_is_allowed() {
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

#[tokio::test]
async fn a_symbolic_link_leads_to_the_same_lines() {
    let machine = Machine::new();
    let client = machine.client().await;
    client.granted(&client.mutex("n")).await;
    let link = machine.0.path().join("link.db");
    std::os::unix::fs::symlink(machine.path(), &link).unwrap();
    let through = Client::on(FileStore::new(link).open().await.unwrap(), short()).await;
    through.queued(&through.mutex("n")).await;
}

#[tokio::test]
async fn another_boot_is_not_believed_while_a_client_of_this_one_lives() {
    let machine = Machine::new();
    let client = machine.client().await;
    let held = client.mutex("n");
    let token = client.granted(&held).await;
    let error = FileStore::new(machine.path()).boot(Boot::pretends_another_boot).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.remedy().unwrap().contains("boot_id"), "{error}");
    assert_eq!(client.renew(&[(&held, LiveState::Granted)]).await.unwrap(), [Renewal::Held { token, ttl: held.ttl }]);
}

/// The program leaves this behind with `acquire`: a held lock, and no living process.
#[tokio::test]
async fn a_detached_lock_outlasts_an_opening_with_another_boot_id() {
    let machine = Machine::new();
    let holder = machine.client_with(SessionSpec { detached: true, ..SessionSpec::new(TTL, Duration::ZERO) }).await;
    let held = holder.mutex("stock");
    let token = holder.granted(&held).await;
    let Client { store, session, spec } = holder;
    drop(store);
    let error = FileStore::new(machine.path()).boot(Boot::pretends_another_boot).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("stock is still held for "), "{error}");
    assert!(error.remedy().unwrap().contains("boot_id in all containers"), "{error}");
    let adopted = Client { store: machine.open().await, session, spec };
    assert_eq!(adopted.renew(&[(&held, LiveState::Granted)]).await.unwrap(), [Renewal::Held { token, ttl: held.ttl }]);
    adopted.withdraw(&held).await;
    drop(adopted);
    let container = FileStore::new(machine.path()).boot(Boot::pretends_another_boot).open().await.unwrap();
    let container = Client::on(container, short()).await;
    assert_eq!(container.granted(&container.mutex("stock")).await, token + 1);
}

/// Only the date distinguishes such a container from a machine that was restarted. A detached lock outlives that too.
#[tokio::test]
async fn with_another_boot_id_a_date_that_was_set_far_forward_passes_for_a_restart_and_a_detached_lock_stays() {
    let machine = Machine::new();
    let holder = machine.client_with(SessionSpec { detached: true, ..SessionSpec::new(TTL, Duration::ZERO) }).await;
    let token = holder.granted(&holder.mutex("stock")).await;
    drop(holder);
    let forward = || {
        let mut boot = Boot::pretends_another_boot()?;
        boot.began += micros(clock());
        Ok(boot)
    };
    let container = Client::on(FileStore::new(machine.path()).boot(forward).open().await.unwrap(), short()).await;
    container.queued(&container.mutex("stock")).await;
    let line = container.store.line(&name("stock")).await.unwrap();
    assert_eq!(line.entries[0].token, Some(token));
}

#[tokio::test]
async fn a_lock_delay_outlasts_an_opening_with_another_boot_id() {
    let machine = Machine::new();
    let crashing = machine.client_with(SessionSpec::new(TTL, ms(1500))).await;
    let token = crashing.granted(&crashing.mutex("stock")).await;
    let start = clock();
    drop(crashing);
    // Now its end is recorded, and the delay begins.
    drop(machine.open().await);
    let container = loop {
        match FileStore::new(machine.path()).boot(Boot::pretends_another_boot).open().await {
            Ok(store) => break Client::on(store, short()).await,
            Err(error) => assert!(error.to_string().contains("stock is still held"), "{error}"),
        }
    };
    assert_eq!(container.granted(&container.mutex("stock")).await, token + 1);
    assert!(since(start) >= ms(1499), "{:?}", since(start));
}

/// The clock of the second start goes on for longer than that of the first did, and the lock was taken for a day.
#[tokio::test]
async fn a_restart_is_believed_although_the_clock_has_passed_the_old_times() {
    let machine = Machine::new();
    let spec = SessionSpec { detached: true, ..SessionSpec::new(Duration::from_secs(86_400), Duration::ZERO) };
    let old = machine.client_with(spec).await;
    let token = old.granted(&old.mutex("n")).await;
    drop(old);
    let boot = || Ok(Boot::after_a_restart(Duration::from_nanos(clock().as_nanos()) + Duration::from_secs(60)));
    let store = FileStore::new(machine.path()).boot(boot).open().await.unwrap();
    let new = Client::on(store, short()).await;
    new.queued(&new.mutex("n")).await;
    let holder = new.store.line(&name("n")).await.unwrap().entries.remove(0);
    assert_eq!(holder.token, Some(token));
    let until = new.store.write(|txn| txn.number("SELECT max(hold_until_us) FROM lk_session")).await.unwrap();
    assert!(until > micros(clock() + Duration::from_secs(86_400 + 30)), "its life is one of the new start: {until}");
}

#[tokio::test]
async fn the_date_of_the_start_is_noted_again_when_it_was_corrected() {
    let machine = Machine::new();
    drop(machine.open().await);
    let began = || {
        let db = Connection::open(machine.path()).unwrap();
        db.query_row("SELECT began_us FROM lk_meta", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let before = began();
    assert!(before.abs_diff(Boot::of_this_process().unwrap().began) < 10_000_000, "{before}");
    let corrected = || {
        let mut boot = Boot::of_this_process()?;
        boot.began += 3_600_000_000;
        Ok(boot)
    };
    drop(FileStore::new(machine.path()).boot(corrected).open().await.unwrap());
    assert!((began() - before).abs_diff(3_600_000_000) < 10_000_000, "{}", began());
}

/// A process that is stopped before its turn, with a reading of the clock from before, takes later
/// changes for the work of an earlier boot.
#[tokio::test]
async fn the_clock_of_an_opening_is_read_behind_the_gate() {
    static READ: AtomicBool = AtomicBool::new(false);
    let machine = Machine::new();
    let boot = || {
        READ.store(true, Ordering::Release);
        Boot::of_this_process()
    };
    let (gate, opening) = at_the_gate(&machine, FileStore::new(machine.path()).boot(boot)).await;
    assert!(!READ.load(Ordering::Acquire));
    gate.unlock().unwrap();
    opening.await.unwrap().unwrap();
    assert!(READ.load(Ordering::Acquire));
}

#[test]
fn a_new_file_never_has_two_names() {
    use std::os::unix::fs::MetadataExt;

    let machine = Machine::new();
    let path = machine.path();
    let make = || {
        for _ in 0..2000 {
            files::create(&path).unwrap();
            files::create(&path).unwrap();
            fs::remove_file(&path).unwrap();
        }
    };
    std::thread::scope(|scope| {
        let making = scope.spawn(make);
        while !making.is_finished() {
            assert!(fs::metadata(&path).map_or(0, |meta| meta.nlink()) < 2);
        }
    });
    assert_eq!(fs::read_dir(machine.0.path()).unwrap().count(), 0, "nothing is left of the making");
}

/// A user who may write the folder may make the store's files before the store does.
#[tokio::test]
async fn what_another_user_has_put_where_all_may_write_is_refused() {
    for suffix in ["", "-wal", "-shm", ".gate", ".live", ".notify"] {
        let machine = Machine::new();
        fs::set_permissions(machine.0.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let planted = files::suffixed(&machine.path(), suffix);
        if [".live", ".notify"].contains(&suffix) { fs::create_dir(&planted) } else { fs::write(&planted, "") }
            .unwrap();
        if std::os::unix::fs::chown(&planted, Some(12_345), None).is_err() {
            return left_out("only root can play another user");
        }
        let error = FileStore::new(machine.path()).open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{suffix}: {error}");
        assert!(error.to_string().contains(&format!("locks.db{suffix} ")) && error.remedy().is_some(), "{error}");
        FileStore::new(machine.path()).allow(Check::Permissions).open().await.unwrap();
    }
}

/// Shuts the gate, and opens the file until the opening waits there.
async fn at_the_gate(machine: &Machine, builder: FileStoreBuilder) -> (File, JoinHandle<Result<FileStore>>) {
    use std::os::unix::fs::MetadataExt;

    drop(machine.open().await);
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

/// The log of another program, or of a killed client, stays where it was.
#[tokio::test]
async fn a_look_at_a_database_leaves_its_log_alone() {
    let foreign = Machine::new();
    {
        let db = Connection::open(foreign.path()).unwrap();
        db.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE songs (title); INSERT INTO songs VALUES (1)")
            .unwrap();
    }
    let files = || ["", "-wal"].map(|suffix| fs::read(files::suffixed(&foreign.path(), suffix)).unwrap());
    let before = files();
    assert!(!before[1].is_empty());
    let refused = FileStore::new(foreign.path()).open().await.unwrap_err();
    assert!(refused.to_string().contains("another program"), "{refused}");
    assert_eq!(files(), before);
}

#[tokio::test]
async fn a_token_reaches_the_disk_before_it_is_given_out() {
    let machine = Machine::new();
    let client = machine.client().await;
    let store = &client.store;
    let synchronous = |txn: &mut Txn<'_>| txn.number("PRAGMA synchronous");
    for _ in 0..2 {
        assert_eq!(store.commit(Commit::OnDisk, synchronous).await.unwrap(), 2, "FULL");
        assert_eq!(store.write(synchronous).await.unwrap(), 1, "NORMAL: nothing of it has to outlive the machine");
    }
    let claim = client.mutex("n");
    let unsafely = claim.clone();
    let refused = store.write(move |txn| txn.claim(&unsafely)).await.unwrap_err();
    assert!(refused.to_string().contains("might not reach the disk"), "{refused}");
    client.granted(&claim).await;
    let waiting = Claim { resend: true, ..client.mutex("n") };
    client.queued(&Claim { resend: false, ..waiting.clone() }).await;
    for known in [Claim { resend: true, ..claim }, waiting] {
        let busy = faults::occupy(&client).await;
        let (looked, beside, ()) = tokio::join!(store.claim(&known), store.write(synchronous), async { drop(busy) });
        assert_eq!(beside.unwrap(), 1, "{looked:?} gave out no new token");
    }
    let busy = faults::occupy(&client).await;
    let (synced, beside, ()) =
        tokio::join!(store.commit(Commit::OnDisk, synchronous), store.write(synchronous), async { drop(busy) });
    assert_eq!((synced.unwrap(), beside.unwrap()), (2, 2), "one transaction, and one token in it");
    let mode: String =
        Connection::open(machine.path()).unwrap().query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

#[tokio::test]
async fn an_id_that_a_resend_retires_is_retired_for_a_minute_at_least() {
    let machine = Machine::new();
    let client = machine.client_with(short()).await;
    let start = clock();
    let lost = Claim { resend: true, ..client.mutex("n") };
    assert_eq!(client.store.claim(&lost).await.unwrap(), Verdict::Gone);
    let until = client.store.write(|txn| txn.number("SELECT until_us FROM lk_gone")).await.unwrap();
    assert!(until >= micros(start + Duration::from_secs(60)), "{until}");
}

/// Its claims end with the process that opened it, and no other client may believe in them.
#[tokio::test]
async fn a_session_that_is_not_detached_is_opened_by_no_other_client() {
    let machine = Machine::new();
    let (opener, other) = (machine.client().await, machine.open().await);
    let refused = Store::open(&other, &opener.session, &opener.spec).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SessionLost, "{refused}");
    Store::open(&opener.store, &opener.session, &opener.spec).await.unwrap();
}
