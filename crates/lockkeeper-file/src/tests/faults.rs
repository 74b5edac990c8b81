//! When the disk, another process or an operator gets in the way.

use super::*;

#[tokio::test]
async fn a_full_disk_is_unavailable_and_nothing_has_happened() {
    let machine = Machine::new();
    let client = machine.client().await;
    let held = client.mutex("held");
    let token = client.granted(&held).await;
    let limit = |pages: &'static str| {
        client.store.write(move |txn| txn.pragma(&format!("PRAGMA max_page_count = {pages}")))
    };
    limit("1").await.unwrap();
    let mut error = None;
    for i in 0..2000 {
        match client.store.claim(&client.mutex(&format!("{i}-{}", "x".repeat(200)))).await {
            Ok(_) => {}
            Err(e) => {
                error = Some((i, e));
                break;
            }
        }
    }
    let (i, error) = error.expect("the disk is full some time");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
    assert!(error.remedy().unwrap().contains("space"), "{error}");
    assert!(
        client
            .store
            .line(&name(&format!("{i}-{}", "x".repeat(200))))
            .await
            .unwrap()
            .entries
            .is_empty()
    );
    assert_eq!(
        client.renew(&[(&held, LiveState::Granted)]).await.unwrap(),
        [Renewal::Held { token, ttl: held.ttl }]
    );
    limit("1000000").await.unwrap();
    client.granted(&client.mutex("again")).await;
}

#[tokio::test]
async fn a_file_that_was_deleted_or_replaced_is_not_used_any_more() {
    for replace in [false, true] {
        let machine = Machine::new();
        let client = machine.client().await;
        let held = client.mutex("n");
        client.granted(&held).await;
        for suffix in ["", "-wal", "-shm"] {
            let mut path = machine.path().into_os_string();
            path.push(suffix);
            fs::remove_file(path).unwrap();
        }
        let other = if replace { Some(machine.client().await) } else { None };
        let error = client.renew(&[(&held, LiveState::Granted)]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert!(error.to_string().contains("deleted or replaced"), "{error}");
        assert!(client.store.claim(&client.mutex("m")).await.is_err());
        if let Some(other) = other {
            other.granted(&other.mutex("n")).await;
        }
    }
}

/// A client that waits at the gate makes another file, and grants the same lock.
#[tokio::test]
async fn a_commit_to_a_file_deleted_during_the_turn_does_not_count() {
    let machine = Machine::new();
    let client = machine.client().await;
    let path = machine.path();
    let removing = client.store.write(move |_: &mut Txn<'_>| {
        fs::remove_file(&path).unwrap();
        Ok(())
    });
    let error = removing.await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Closed, Effect::Unknown), "{error}");
}

#[tokio::test]
async fn a_stopped_process_in_the_gate_stops_writes_but_not_reads() {
    let machine = Machine::new();
    let (client, next) = (machine.client().await, machine.client().await);
    let held = client.mutex("n");
    client.granted(&held).await;
    next.queued(&next.mutex("n")).await;
    let gate = File::open(machine.0.path().join("locks.db.gate")).unwrap();
    gate.lock().unwrap();
    let mut renewal = client.store.renew(&client.session, &[]);
    let waited = tokio::time::timeout(ms(50), &mut renewal).await;
    assert!(waited.is_err(), "{waited:?}");
    assert_eq!(client.store.line(&name("n")).await.unwrap().entries.len(), 2);
    assert_eq!(client.store.lines("", None, 9).await.unwrap()[0].0, name("n"));
    assert_eq!(
        client.store.wait(Interest::Claim(&held.key), Revision(0), ms(50)).await.unwrap(),
        {
            let token = client.store.line(&name("n")).await.unwrap().entries[0].token.unwrap();
            Wake::Granted { token }
        }
    );
    drop(next);
    gate.unlock().unwrap();
    renewal.await.unwrap();
}

#[tokio::test]
async fn dropping_a_store_never_waits_for_the_gate() {
    let machine = Machine::new();
    let client = machine.client().await;
    let gate = File::open(machine.0.path().join("locks.db.gate")).unwrap();
    gate.lock().unwrap();
    let waited = tokio::time::timeout(ms(20), client.renew(&[])).await;
    assert!(waited.is_err());
    let start = clock();
    drop(client);
    assert!(since(start) < ms(5000));
}

#[tokio::test]
async fn a_liveness_file_that_somebody_deleted_frees_nothing() {
    let machine = Machine::new();
    let (a, b) = (machine.client().await, machine.client().await);
    a.granted(&a.mutex("n")).await;
    fs::remove_dir_all(machine.0.path().join("locks.db.live")).unwrap();
    b.queued(&b.mutex("n")).await;
}

#[tokio::test]
async fn one_failing_request_leaves_those_beside_it_alone() {
    let machine = Machine::new();
    let client = machine.client().await;
    let (one, two) = (client.mutex("one"), client.mutex("two"));
    let (a, failed, b) = tokio::join!(
        client.store.claim(&one),
        client.store.write(|txn| {
            txn.fill("half done", 1)?;
            txn.pragma("SELECT * FROM no_such_table")
        }),
        client.store.claim(&two),
    );
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Internal);
    assert!(matches!((a.unwrap(), b.unwrap()), (Verdict::Granted { .. }, Verdict::Granted { .. })));
    assert_eq!(client.store.line(&name("half done")).await.unwrap().last_token, None);
}

#[tokio::test]
async fn a_request_that_cannot_be_ended_undoes_the_whole_turn() {
    let machine = Machine::new();
    let client = machine.client().await;
    let claim = client.mutex("beside");
    let busy = occupy(&client).await;
    let (beside, failed, ()) = tokio::join!(
        client.store.claim(&claim),
        client.store.write(|txn| {
            txn.fill("half done", 1)?;
            txn.pragma("RELEASE request")
        }),
        async { drop(busy) },
    );
    for error in [beside.unwrap_err(), failed.unwrap_err()] {
        assert_eq!(error.effect(), Effect::None, "{error}");
    }
    for left in ["half done", "beside"] {
        assert_eq!(client.store.line(&name(left)).await.unwrap().last_token, None, "{left}");
    }
    client.granted(&client.mutex("after")).await;
}

#[tokio::test]
async fn a_file_or_log_that_was_deleted_or_replaced_is_not_used_any_more() {
    for suffix in ["", "-wal", "-shm"] {
        for replace in [false, true] {
            let machine = Machine::new();
            let client = machine.client().await;
            let held = client.mutex("n");
            client.granted(&held).await;
            let path = files::suffixed(&machine.path(), suffix);
            fs::remove_file(&path).unwrap();
            if replace {
                File::create(&path).unwrap();
            }
            let error = client.renew(&[(&held, LiveState::Granted)]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Closed);
            assert!(
                error.to_string().contains(&format!("locks.db{suffix}: it was deleted")),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn the_end_of_a_replaced_database_leaves_the_new_one_alone() {
    let machine = Machine::new();
    let old = machine.client().await;
    old.granted(&old.mutex("n")).await;
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(files::suffixed(&machine.path(), suffix)).unwrap();
    }
    let new = machine.client().await;
    let held = new.mutex("n");
    let token = new.granted(&held).await;
    drop(old);
    let third = machine.client().await;
    third.queued(&third.mutex("n")).await;
    assert_eq!(
        new.renew(&[(&held, LiveState::Granted)]).await.unwrap(),
        [Renewal::Held { token, ttl: held.ttl }]
    );
}

#[tokio::test]
async fn without_one_gate_for_all_sqlite_keeps_writers_apart() {
    let machine = Arc::new(Machine::new());
    let a = machine.client().await;
    fs::remove_file(files::suffixed(&machine.path(), ".gate")).unwrap();
    let b = machine.client().await;
    fs::remove_file(files::suffixed(&machine.path(), ".gate")).unwrap();
    let busy = |client: Client| async move {
        for _ in 0..100 {
            let claim = client.mutex("n");
            many::acquire(&client, &claim).await;
            assert_eq!(client.withdraw(&claim).await, Withdrawal::Removed);
        }
    };
    let (a, b) = (tokio::spawn(busy(a)), tokio::spawn(busy(b)));
    a.await.unwrap();
    b.await.unwrap();
}

#[tokio::test]
async fn a_lease_begins_when_the_gate_is_passed() {
    let machine = Machine::new();
    let client = machine.client().await;
    let held = client.mutex("n");
    client.granted(&held).await;
    let gate = File::open(files::suffixed(&machine.path(), ".gate")).unwrap();
    gate.lock().unwrap();
    let asked = [(&held, LiveState::Granted)];
    let mut renewal = std::pin::pin!(client.renew(&asked));
    assert!(
        tokio::time::timeout(ms(50), &mut renewal).await.is_err(),
        "nobody gets through the gate"
    );
    let opened = clock();
    gate.unlock().unwrap();
    renewal.await.unwrap();
    let left = client.store.line(&name("n")).await.unwrap().entries[0].expires_in.unwrap();
    // The file has whole microseconds.
    assert!(clock() + left + Duration::from_micros(2) >= opened + TTL, "{left:?}");
}

#[tokio::test]
async fn a_request_that_fails_lets_no_client_be_removed() {
    let machine = Machine::new();
    let client = machine.client().await;
    let dying = machine.client().await;
    dying.granted(&dying.mutex("n")).await;
    let file = liveness_file(&machine, &dying);
    drop(dying);
    let failed = client.store.write(|txn| {
        txn.clear_away()?;
        txn.pragma("SELECT * FROM no_such_table")
    });
    failed.await.unwrap_err();
    assert!(file.exists(), "its death is not on record");
    client.granted(&client.mutex("n")).await;
    assert!(!file.exists());
}

#[tokio::test]
async fn what_cannot_be_committed_is_undone_and_every_answer_says_so() {
    let machine = Machine::new();
    let client = machine.client().await;
    let dying = machine.client().await;
    dying.granted(&dying.mutex("n")).await;
    let file = liveness_file(&machine, &dying);
    drop(dying);
    let busy = occupy(&client).await;
    let (freeing, joining) = (client.mutex("n"), client.mutex("m"));
    let (one, unkept, two, ()) = tokio::join!(
        client.store.claim(&freeing),
        // A constraint that is looked at only at the commit.
        client.store.write(|txn| txn.pragma(
            "CREATE TABLE unkept (i INTEGER PRIMARY KEY, j REFERENCES unkept DEFERRABLE INITIALLY DEFERRED);
             INSERT INTO unkept VALUES (1, 2)",
        )),
        client.store.claim(&joining),
        async { drop(busy) },
    );
    unkept.unwrap_err();
    for answer in [one, two] {
        assert_eq!(answer.unwrap_err().effect(), Effect::None);
    }
    assert!(file.exists(), "its death is not on record");
    assert!(client.store.line(&name("m")).await.unwrap().entries.is_empty());
    client.granted(&client.mutex("n")).await;
    assert!(!file.exists());
}

fn liveness_file(machine: &Machine, client: &Client) -> PathBuf {
    machine.0.path().join("locks.db.live").join(&*client.store.0.own)
}

/// Keeps the writer busy until the result is dropped. Requests in this time run in one transaction.
pub(super) async fn occupy(client: &Client) -> std::sync::mpsc::Sender<()> {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (inside, is_inside) = tokio::sync::oneshot::channel();
    let store = client.store.clone();
    tokio::spawn(async move {
        let wait = move |_: &mut Txn<'_>| {
            inside.send(()).unwrap();
            released.recv().unwrap_err();
            Ok(())
        };
        store.write(wait).await.unwrap();
    });
    is_inside.await.unwrap();
    release
}

#[tokio::test]
async fn a_store_does_nothing_in_a_forked_child() {
    let machine = Machine::new();
    let mut store = machine.open().await;
    // A child's view: everything is the same, except the process.
    Arc::get_mut(&mut store.0).unwrap().process = Process::of(std::process::id() + 1);
    let n = name("n");
    let refused = [
        Store::open(&store, &SessionId::random(), &short()).await.map(drop),
        store.line(&n).await.map(drop),
        store.lines("", None, 1).await.map(drop),
        store.wait(Interest::Name(&n), Revision(0), ms(1)).await.map(drop),
    ];
    assert!(refused.into_iter().all(|result| result.unwrap_err().kind() == ErrorKind::Forked));
}
