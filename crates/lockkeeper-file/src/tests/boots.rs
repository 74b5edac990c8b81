//! What outlives a restart of the machine: detached sessions, with all that belongs to them.

use super::*;
use crate::store::TOMBSTONE_MIN;

fn detached(ttl: Duration, lock_delay: Duration) -> SessionSpec {
    SessionSpec { detached: true, ..SessionSpec::new(ttl, lock_delay) }
}

/// As if the machine had been restarted a while ago.
fn boot() -> Result<Boot> {
    Ok(Boot::after_a_restart(Duration::from_nanos(clock().as_nanos())))
}

async fn restarted(machine: &Machine) -> FileStore {
    FileStore::new(machine.path()).boot(boot).open().await.unwrap()
}

/// Its client ends with the machine; what it knew is known on another host.
fn leave(client: Client) -> (SessionId, SessionSpec) {
    let Client { store, session, spec } = client;
    drop(store);
    (session, spec)
}

#[tokio::test]
async fn what_is_detached_is_held_over_a_restart_and_the_rest_is_free() {
    let machine = Machine::new();
    let [theirs, ours] = [
        machine.client_with(detached(TTL, Duration::ZERO)).await,
        machine.client_with(SessionSpec::new(TTL, Duration::ZERO)).await,
    ];
    let (held, waiting) = (theirs.mutex("a"), theirs.mutex("b"));
    let token = theirs.granted(&held).await;
    ours.granted(&ours.mutex("b")).await;
    theirs.queued(&waiting).await;
    ours.queued(&ours.mutex("a")).await;
    drop(ours);
    let (session, spec) = leave(theirs);
    let there = Client { store: restarted(&machine).await, session, spec };
    let next = Client::on(there.store.clone(), short()).await;
    next.queued(&next.mutex("a")).await;
    let renewed =
        there.renew(&[(&held, LiveState::Granted), (&waiting, LiveState::Queued)]).await.unwrap();
    assert_eq!(renewed[0], Renewal::Held { token, ttl: TTL });
    assert_eq!(
        there.store.line(&name("a")).await.unwrap().entries.len(),
        2,
        "the one that waited there is gone"
    );
    let granted = there.granted(&Claim { resend: true, ..waiting }).await;
    assert_eq!(there.withdraw(&held).await, Withdrawal::Removed);
    assert_eq!(there.store.line(&name("b")).await.unwrap().entries[0].token, Some(granted));
    assert!(next.granted(&next.mutex("c")).await > 0);
}

/// Its holder may have renewed it just before the machine went down, and believes for a ttl from
/// then on.
#[tokio::test]
async fn what_is_detached_has_its_whole_life_from_the_restart_on_and_ends_then() {
    let machine = Machine::new();
    let holder = machine.client_with(detached(ms(3000), ms(500))).await;
    let held = holder.mutex("n");
    let token = holder.granted(&held).await;
    tokio::time::sleep(ms(1500)).await;
    leave(holder);
    let start = clock();
    let store = restarted(&machine).await;
    let next = Client::on(store, SessionSpec::new(TTL, Duration::ZERO)).await;
    let left = next.store.line(&name("n")).await.unwrap().entries[0].expires_in.unwrap();
    assert!(left > ms(2000), "{left:?}");
    while next.store.line(&name("n")).await.unwrap().entries.len() == 1 {
        tokio::time::sleep(ms(20)).await;
    }
    assert!(since(start) >= ms(3490), "{:?}", since(start));
    assert_eq!(next.granted(&next.mutex("n")).await, token + 1);
}

/// A session whose life was over before that is not revived by it.
#[tokio::test]
async fn what_had_ended_before_a_restart_stays_ended() {
    let machine = Machine::new();
    let ended = machine.client_with(detached(ms(200), Duration::ZERO)).await;
    let held = ended.mutex("n");
    ended.granted(&held).await;
    tokio::time::sleep(ms(600)).await;
    // A time in the file shows that the machine was up then.
    let later = machine.client_with(detached(TTL, Duration::ZERO)).await;
    let (session, spec) = leave(ended);
    leave(later);
    let there = Client { store: restarted(&machine).await, session, spec };
    assert!(there.store.line(&name("n")).await.unwrap().entries.is_empty());
    let lost = there.renew(&[(&held, LiveState::Granted)]).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::SessionLost);
}

/// The clients that sent what may come late are on other hosts.
#[tokio::test]
async fn tombstones_and_closed_sessions_are_remembered_over_a_restart() {
    let machine = Machine::new();
    let client = machine.client_with(detached(TTL, Duration::ZERO)).await;
    let closed = Client::on(client.store.clone(), detached(TTL, Duration::ZERO)).await;
    let gone = client.mutex("n");
    client.granted(&gone).await;
    client.store.withdraw(&gone.key, Some(TOMBSTONE_MIN)).await.unwrap();
    closed.store.close(&closed.session, &[]).await.unwrap();
    let (once, _) = leave(closed);
    let (session, spec) = leave(client);
    let there = Client { store: restarted(&machine).await, session, spec };
    assert_eq!(there.store.claim(&gone).await.unwrap(), Verdict::Gone);
    assert_eq!(
        Store::open(&there.store, &once, &there.spec).await.unwrap_err().kind(),
        ErrorKind::SessionLost
    );
    let until =
        there.store.write(|txn| txn.number("SELECT max(until_us) FROM lk_gone")).await.unwrap();
    assert!(until < micros(clock() + TOMBSTONE_MIN * 2), "and not for ever: {until}");
}

#[tokio::test]
async fn a_mark_and_a_minimum_hold_outlive_a_restart_with_their_session() {
    let machine = Machine::new();
    let client = machine.client_with(detached(ms(3000), Duration::ZERO)).await;
    let [marked, held, kept] = ["marked", "held", "kept"].map(|name| client.mutex(name));
    let token = client.granted(&marked).await;
    let target = Target::Token(token);
    client.store.evict(&marked.key.name, &target, Evict::Mark, "ops", "stuck").await.unwrap();
    for claim in [&held, &kept] {
        client.granted(claim).await;
        assert_eq!(
            client.store.amend(&claim.key, 1, &Amend::MinHold(TTL)).await.unwrap(),
            Amended::Done
        );
    }
    client.withdraw(&kept).await;
    let ours = machine.client().await;
    let process = ours.mutex("process");
    ours.granted(&process).await;
    ours.store.amend(&process.key, 1, &Amend::MinHold(TTL)).await.unwrap();
    drop(ours);
    let (session, spec) = leave(client);
    let there = Client { store: restarted(&machine).await, session, spec };
    let renewed =
        there.renew(&[(&marked, LiveState::Granted), (&held, LiveState::Granted)]).await.unwrap();
    assert!(
        matches!(&renewed[0], Renewal::Lost(Some(broken)) if &*broken.by == "ops"),
        "{renewed:?}"
    );
    there.withdraw(&held).await;
    for name_of in ["held", "kept"] {
        let line = there.store.line(&name(name_of)).await.unwrap();
        let [entry] = &line.entries[..] else { panic!("{name_of}: {line:?}") };
        let left = entry.expires_in.unwrap();
        assert!(entry.kept && left > TTL / 2 && left <= TTL + ms(1000), "{name_of}: {entry:?}");
    }
    assert!(there.store.line(&name("process")).await.unwrap().entries.is_empty());
    let ends = clock() + ms(3500);
    while !there.store.line(&name("marked")).await.unwrap().entries.is_empty() {
        assert!(clock() < ends, "a mark lets nobody renew it");
        there.renew(&[]).await.unwrap();
        tokio::time::sleep(ms(50)).await;
    }
}

/// The log of the database, which a transaction that waits for the disk makes longer: SQLite waits
/// for the disk after it has written there, and only then.
fn log(machine: &Machine) -> u64 {
    fs::metadata(format!("{}-wal", machine.path().display())).unwrap().len()
}

/// Without that a restart would find it waiting, with a waiter's life, while its holder believes
/// for a whole ttl.
#[tokio::test]
async fn a_detached_waiter_learns_that_it_holds_when_that_is_on_the_disk() {
    let machine = Machine::new();
    for (spec, syncs) in
        [(SessionSpec::new(TTL, Duration::ZERO), 0), (detached(TTL, Duration::ZERO), 1)]
    {
        let [holder, waiter] = [machine.client().await, machine.client_with(spec).await];
        let (held, renewed, sent) = (holder.mutex("n"), waiter.mutex("n"), waiter.mutex("n"));
        holder.granted(&held).await;
        waiter.queued(&renewed).await;
        waiter.queued(&sent).await;
        holder.withdraw(&held).await;
        let reached = || waiter.store.write(|txn| Ok(txn.reached()));
        assert_eq!(reached().await.unwrap(), 0);
        let renewal = waiter.renew(&[(&renewed, LiveState::Queued)]).await.unwrap();
        assert!(matches!(renewal[..], [Renewal::Held { .. }]), "{renewal:?}");
        assert_eq!(reached().await.unwrap(), syncs, "by its renewal");
        waiter.renew(&[(&renewed, LiveState::Granted)]).await.unwrap();
        assert_eq!(reached().await.unwrap(), syncs, "and not with each renewal");
        waiter.withdraw(&renewed).await;
        assert_eq!(reached().await.unwrap(), 2 * syncs, "its end");
        waiter.granted(&Claim { resend: true, ..sent.clone() }).await;
        assert_eq!(reached().await.unwrap(), 3 * syncs, "by its own claim");
        waiter.store.amend(&sent.key, 1, &Amend::MinHold(ms(1))).await.unwrap();
        assert_eq!(reached().await.unwrap(), 4 * syncs, "and so is its minimum hold");
        waiter.withdraw(&sent).await;
        tokio::time::sleep(ms(10)).await;
    }
}

#[tokio::test]
async fn what_has_to_be_on_the_disk_is_written_there() {
    let machine = Machine::new();
    let client = machine.client_with(detached(TTL, Duration::ZERO)).await;
    client.granted(&client.mutex("n")).await;
    let before = log(&machine);
    let waits = client.store.write(|txn| {
        txn.needs_disk = true;
        Ok(())
    });
    waits.await.unwrap();
    assert!(log(&machine) > before, "nothing was written, so SQLite has not waited for the disk");
}

/// The requests of the batch are committed, and others see them. Whether the disk has them is
/// unknown, so the next answer waits for that.
#[tokio::test]
async fn a_disk_that_is_not_reached_leaves_the_effect_unknown_until_it_is_reached() {
    let machine = Machine::new();
    let client = machine.client_with(detached(TTL, Duration::ZERO)).await;
    let claim = client.mutex("n");
    client.granted(&claim).await;
    let refuse = "CREATE TEMP TRIGGER refuses BEFORE UPDATE OF synced ON lk_meta
        BEGIN SELECT raise(ABORT, 'no room'); END";
    client.store.write(move |txn| Ok(txn.db.execute_batch(refuse)?)).await.unwrap();
    let holds = || client.store.amend(&claim.key, 1, &Amend::MinHold(TTL));
    let unknown = holds().await.unwrap_err();
    assert_eq!(unknown.effect(), Effect::Unknown, "{unknown}");
    assert!(holds().await.is_err(), "it has changed nothing, and is not on the disk");
    client.store.write(|txn| Ok(txn.db.execute_batch("DROP TRIGGER refuses")?)).await.unwrap();
    assert_eq!(holds().await.unwrap(), Amended::Done);
    assert_eq!(client.withdraw(&claim).await, Withdrawal::Removed);
    assert!(client.store.line(&claim.key.name).await.unwrap().entries[0].kept);
}

/// A client has learned that the session is over. Nothing with a time was written after that.
#[tokio::test]
async fn a_session_that_was_reported_as_lost_does_not_come_back_with_a_restart() {
    let machine = Machine::new();
    let holder = machine.client_with(detached(ms(300), Duration::ZERO)).await;
    let held = holder.mutex("n");
    holder.granted(&held).await;
    tokio::time::sleep(ms(900)).await;
    assert_eq!(
        holder.renew(&[(&held, LiveState::Granted)]).await.unwrap_err().kind(),
        ErrorKind::SessionLost
    );
    let (session, spec) = leave(holder);
    let there = Client { store: restarted(&machine).await, session, spec };
    assert!(
        there.store.line(&name("n")).await.unwrap().entries.is_empty(),
        "the lock is free at once"
    );
    assert_eq!(
        there.renew(&[(&held, LiveState::Granted)]).await.unwrap_err().kind(),
        ErrorKind::SessionLost
    );
}

/// Nothing else in the file shows how long the machine was up before the restart.
#[tokio::test]
async fn what_closed_sessions_have_left_ends_soon_after_a_restart() {
    let machine = Machine::new();
    let client = machine.client().await;
    let gone = client.mutex("n");
    client.granted(&gone).await;
    client.store.withdraw(&gone.key, Some(TOMBSTONE_MIN)).await.unwrap();
    client.store.close(&client.session, &[]).await.unwrap();
    drop(client);
    let store = restarted(&machine).await;
    for table in ["lk_closed", "lk_gone"] {
        let last = format!("SELECT max(until_us) FROM {table}");
        let until = store.write(move |txn| txn.number(&last)).await.unwrap();
        let left = until - micros(clock());
        assert!(left < 2 * 60_000_000, "{table}: {} s", left / 1_000_000);
    }
}
