//! Openings with another boot id, and with another date of the start.

use super::*;

#[tokio::test]
async fn another_boot_is_not_believed_while_a_client_of_this_one_lives() {
    let machine = Machine::new();
    let client = machine.client().await;
    let held = client.mutex("n");
    let token = client.granted(&held).await;
    let error =
        FileStore::new(machine.path()).boot(Boot::pretends_another_boot).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.remedy().unwrap().contains("boot_id"), "{error}");
    assert_eq!(
        client.renew(&[(&held, LiveState::Granted)]).await.unwrap(),
        [Renewal::Held { token, ttl: held.ttl }]
    );
}

/// The program leaves this behind with `acquire`: a held lock, and no living process.
#[tokio::test]
async fn a_detached_lock_outlasts_an_opening_with_another_boot_id() {
    let machine = Machine::new();
    let holder = machine
        .client_with(SessionSpec { detached: true, ..SessionSpec::new(TTL, Duration::ZERO) })
        .await;
    let held = holder.mutex("stock");
    let token = holder.granted(&held).await;
    let Client { store, session, spec } = holder;
    drop(store);
    let error =
        FileStore::new(machine.path()).boot(Boot::pretends_another_boot).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("stock is still held for "), "{error}");
    assert!(error.remedy().unwrap().contains("boot_id in all containers"), "{error}");
    let adopted = Client { store: machine.open().await, session, spec };
    assert_eq!(
        adopted.renew(&[(&held, LiveState::Granted)]).await.unwrap(),
        [Renewal::Held { token, ttl: held.ttl }]
    );
    adopted.withdraw(&held).await;
    drop(adopted);
    let container =
        FileStore::new(machine.path()).boot(Boot::pretends_another_boot).open().await.unwrap();
    let container = Client::on(container, short()).await;
    assert_eq!(container.granted(&container.mutex("stock")).await, token + 1);
}

/// Only the date distinguishes such a container from a machine that was restarted. A detached lock
/// outlives that too.
#[tokio::test]
async fn with_another_boot_id_a_date_that_was_set_far_forward_passes_for_a_restart_and_a_detached_lock_stays()
 {
    let machine = Machine::new();
    let holder = machine
        .client_with(SessionSpec { detached: true, ..SessionSpec::new(TTL, Duration::ZERO) })
        .await;
    let token = holder.granted(&holder.mutex("stock")).await;
    drop(holder);
    let forward = || {
        let mut boot = Boot::pretends_another_boot()?;
        boot.began += micros(clock());
        Ok(boot)
    };
    let container =
        Client::on(FileStore::new(machine.path()).boot(forward).open().await.unwrap(), short())
            .await;
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

/// The clock of the second start goes on for longer than that of the first did, and the lock was
/// taken for a day.
#[tokio::test]
async fn a_restart_is_believed_although_the_clock_has_passed_the_old_times() {
    let machine = Machine::new();
    let spec = SessionSpec {
        detached: true,
        ..SessionSpec::new(Duration::from_secs(86_400), Duration::ZERO)
    };
    let old = machine.client_with(spec).await;
    let token = old.granted(&old.mutex("n")).await;
    drop(old);
    let boot = || {
        Ok(Boot::after_a_restart(
            Duration::from_nanos(clock().as_nanos()) + Duration::from_secs(60),
        ))
    };
    let store = FileStore::new(machine.path()).boot(boot).open().await.unwrap();
    let new = Client::on(store, short()).await;
    new.queued(&new.mutex("n")).await;
    let holder = new.store.line(&name("n")).await.unwrap().entries.remove(0);
    assert_eq!(holder.token, Some(token));
    let until = new
        .store
        .write(|txn| txn.number("SELECT max(hold_until_us) FROM lk_session"))
        .await
        .unwrap();
    assert!(
        until > micros(clock() + Duration::from_secs(86_400 + 30)),
        "its life is one of the new start: {until}"
    );
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

/// The machine has been up for hours. The last lock was taken 30 s after its start, before the date
/// was corrected by 20 s.
#[tokio::test]
async fn a_date_corrected_early_in_a_boot_is_no_restart_to_a_container() {
    let machine = Machine::new();
    let client = machine.client().await;
    let claim = client.mutex("n");
    client.granted(&claim).await;
    let hold = Amend::MinHold(Duration::from_secs(3600));
    client.store.amend(&claim.key, 1, &hold).await.unwrap();
    client.withdraw(&claim).await;
    client.store.close(&client.session, &[]).await.unwrap();
    client.store.write(|txn| txn.run("UPDATE lk_claim SET since_us = 30000000")).await.unwrap();
    drop(client);
    let corrected = || {
        let mut boot = Boot::pretends_another_boot()?;
        boot.began += 20_000_000;
        Ok(boot)
    };
    let error = FileStore::new(machine.path()).boot(corrected).open().await.unwrap_err();
    assert!(error.to_string().contains("n is still held"), "{error}");
}
