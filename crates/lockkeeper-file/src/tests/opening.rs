//! Opening a file: what it keeps, and what it refuses.

use std::sync::atomic::{AtomicBool, Ordering};

use super::rights::at_the_gate;
use super::*;

#[tokio::test]
async fn tokens_go_on_after_reopening_and_in_a_new_file() {
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
    let store = FileStore::new(machine.path())
        .boot(|| Ok(Boot::after_a_restart(ms(5000))))
        .open()
        .await
        .unwrap();
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
        assert_eq!(
            client.store.line(&claim.key.name).await.unwrap().last_token,
            Some(token),
            "{i}"
        );
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
    let tokens =
        [client.granted(&client.mutex("n")).await, client.granted(&client.mutex("m")).await];
    client.queued(&client.mutex("n")).await;
    drop(client);
    let store = FileStore::new(machine.path())
        .boot(|| Ok(Boot::after_a_restart(ms(5000))))
        .open()
        .await
        .unwrap();
    let new = Client::on(store, short()).await;
    assert_eq!(
        new.granted(&new.mutex("n")).await,
        tokens[0] + 2,
        "the one that waited had a token too"
    );
    assert_eq!(new.granted(&new.mutex("m")).await, tokens[1] + 1);
}

#[tokio::test]
async fn what_is_not_ours_is_refused_with_a_remedy() {
    let refused = |machine: &Machine| {
        let path = machine.path();
        async move { FileStore::new(path).open().await.unwrap_err() }
    };
    let text = Machine::new();
    fs::write(text.path(), "this is certainly not a database, however long one looks at it")
        .unwrap();
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
async fn a_symbolic_link_leads_to_the_same_lines() {
    let machine = Machine::new();
    let client = machine.client().await;
    client.granted(&client.mutex("n")).await;
    let link = machine.0.path().join("link.db");
    std::os::unix::fs::symlink(machine.path(), &link).unwrap();
    let through = Client::on(FileStore::new(link).open().await.unwrap(), short()).await;
    through.queued(&through.mutex("n")).await;
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

/// The log of another program, or of a killed client, stays where it was.
#[tokio::test]
async fn a_look_at_a_database_leaves_its_log_alone() {
    let foreign = Machine::new();
    {
        let db = Connection::open(foreign.path()).unwrap();
        db.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .unwrap();
        db.execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE songs (title); INSERT INTO songs VALUES (1)",
        )
        .unwrap();
    }
    let files =
        || ["", "-wal"].map(|suffix| fs::read(files::suffixed(&foreign.path(), suffix)).unwrap());
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
        assert_eq!(
            store.write(synchronous).await.unwrap(),
            1,
            "NORMAL: nothing of it has to outlive the machine"
        );
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
        let (looked, beside, ()) =
            tokio::join!(store.claim(&known), store.write(synchronous), async { drop(busy) });
        assert_eq!(beside.unwrap(), 1, "{looked:?} gave out no new token");
    }
    let busy = faults::occupy(&client).await;
    let (synced, beside, ()) =
        tokio::join!(store.commit(Commit::OnDisk, synchronous), store.write(synchronous), async {
            drop(busy)
        });
    assert_eq!((synced.unwrap(), beside.unwrap()), (2, 2), "one transaction, and one token in it");
    let mode: String = Connection::open(machine.path())
        .unwrap()
        .query_row("PRAGMA journal_mode", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
}

#[tokio::test]
async fn an_id_that_a_resend_retires_stays_retired_for_a_minute() {
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

#[tokio::test]
async fn what_a_killed_opening_has_left_is_removed_by_the_next() {
    let machine = Machine::new();
    let left = files::scratch(&machine.path(), ".new-");
    let other = files::scratch(&machine.0.path().join("other.db"), ".new-");
    fs::write(&left, "").unwrap();
    fs::write(&other, "").unwrap();
    drop(machine.open().await);
    assert!(!left.exists() && other.exists());
}

/// The names only begin like a name that a killed opening has left.
#[tokio::test]
async fn an_opening_removes_no_file_of_a_user_and_of_another_store() {
    let machine = Machine::new();
    let notes = files::suffixed(&machine.path(), ".new-schema.sql");
    fs::write(&notes, "mine").unwrap();
    let beside = files::suffixed(&machine.path(), ".new-1");
    let open = || async { FileStore::new(&beside).open().await.unwrap() };
    let holder = Client::on(open().await, SessionSpec::new(TTL, Duration::ZERO)).await;
    let claim = holder.mutex("n");
    let token = holder.granted(&claim).await;
    drop(machine.open().await);
    assert!(notes.exists());
    let renewed = holder.renew(&[(&claim, LiveState::Granted)]).await;
    assert_eq!(renewed, Ok(vec![Renewal::Held { token, ttl: claim.ttl }]));
    let other = Client::on(open().await, SessionSpec::new(TTL, Duration::ZERO)).await;
    let second = other.store.claim(&other.r#try("n")).await.unwrap();
    assert!(matches!(second, Verdict::Busy { .. }), "{second:?}");
}
