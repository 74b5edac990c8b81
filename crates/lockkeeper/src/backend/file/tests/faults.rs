//! When the disk, another process or an operator gets in the way.

use super::*;

#[tokio::test]
async fn a_full_disk_is_unavailable_and_nothing_has_happened() {
    let machine = Machine::new();
    let client = machine.client().await;
    let held = client.mutex("held");
    let token = client.granted(&held).await;
    let limit =
        |pages: &'static str| client.store.write(move |turn| turn.pragma(&format!("PRAGMA max_page_count = {pages}")));
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
    assert!(client.store.line(&name(&format!("{i}-{}", "x".repeat(200)))).await.unwrap().entries.is_empty());
    assert_eq!(client.renew(&[(&held, LiveState::Granted)]).await.unwrap(), [Renewal::Held { token }]);
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
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("deleted or replaced"), "{error}");
        assert!(client.store.claim(&client.mutex("m")).await.is_err());
        if let Some(other) = other {
            other.granted(&other.mutex("n")).await;
        }
    }
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
    assert_eq!(client.store.names("", 9).await.unwrap(), [name("n")]);
    assert_eq!(client.store.wait(Interest::Claim(&held.key), Revision(0), ms(50)).await.unwrap(), {
        let token = client.store.line(&name("n")).await.unwrap().entries[0].token.unwrap();
        Wake::Granted { token }
    });
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
    assert!(since(start) < ms(100));
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
        client.store.write(|turn| {
            turn.fill("half done", 1)?;
            turn.pragma("SELECT * FROM no_such_table")
        }),
        client.store.claim(&two),
    );
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Internal);
    assert!(matches!((a.unwrap(), b.unwrap()), (Verdict::Granted { .. }, Verdict::Granted { .. })));
    assert_eq!(client.store.line(&name("half done")).await.unwrap().last_token, None);
}
