//! The contract, on one store.

use super::*;

#[tokio::test]
async fn a_lock_is_granted_queued_for_and_handed_on() {
    let machine = Machine::new();
    let client = machine.client().await;
    let (first, second) = (client.mutex("a/b"), client.mutex("a/b"));
    let token = client.granted(&first).await;
    assert_eq!(client.queued(&second).await.0, 1);
    assert!(matches!(client.store.claim(&client.r#try("a/b")).await.unwrap(),
        Verdict::Busy { holder: Some(holder), retry_after: Some(left), .. } if &*holder == "tester" && left <= TTL));
    assert_eq!(client.withdraw(&first).await, Withdrawal::Removed);
    assert_eq!(client.withdraw(&first).await, Withdrawal::Absent);
    let line = client.store.line(&name("a/b")).await.unwrap();
    assert_eq!(
        (line.entries.len(), line.entries[0].granted, line.capacity()),
        (1, true, Some(MAX))
    );
    assert!(client.granted(&second).await > token);
    assert_eq!(names(&client.store, "a/").await, [name("a/b")]);
    assert_eq!(names(&client.store, "b").await, []);
}

#[tokio::test]
async fn readers_share_and_a_writer_waits_for_all_of_them() {
    let machine = Machine::new();
    let client = machine.client().await;
    let (r1, r2, w, r3) = (client.read("n"), client.read("n"), client.mutex("n"), client.read("n"));
    client.granted(&r1).await;
    client.granted(&r2).await;
    assert_eq!(client.queued(&w).await.0, 2);
    assert_eq!(client.queued(&r3).await.0, 3);
    client.withdraw(&w).await;
    assert!(matches!(client.wait(&r3, ms(0)).await, Wake::Granted { .. } | Wake::Elapsed));
    client.granted(&r3).await;
}

#[tokio::test]
async fn a_downgrade_lets_readers_in() {
    let machine = Machine::new();
    let client = machine.client().await;
    let (w, r) = (client.mutex("n"), client.read("n"));
    client.granted(&w).await;
    client.queued(&r).await;
    assert_eq!(client.store.amend(&r.key, 1, &Amend::Lower(1)).await.unwrap(), Amended::NotLive);
    assert_eq!(client.store.amend(&w.key, 1, &Amend::Lower(1)).await.unwrap(), Amended::Done);
    client.granted(&r).await;
    client.store.amend(&r.key, 2, &Amend::Value(Arc::from(*b"v"))).await.unwrap();
    let line = client.store.line(&name("n")).await.unwrap();
    assert_eq!(line.entries[1].meta.value.as_deref(), Some(&b"v"[..]));
}

#[tokio::test]
async fn an_upgrade_needs_an_empty_line_and_takes_a_new_token() {
    let machine = Machine::new();
    let client = machine.client().await;
    let (r1, r2) = (client.read("n"), client.read("n"));
    let old = client.granted(&r1).await;
    client.granted(&r2).await;
    let upgrade = Claim { replaces: Some(r1.key.id), queue: false, ..client.mutex("n") };
    assert!(matches!(client.store.claim(&upgrade).await.unwrap(), Verdict::Busy { .. }));
    client.withdraw(&r2).await;
    assert!(client.granted(&upgrade).await > old);
    assert_eq!(client.withdraw(&r1).await, Withdrawal::Absent);
}

#[tokio::test]
async fn another_capacity_or_a_lower_epoch_is_refused_and_a_line_is_bounded() {
    let machine = Machine::new();
    let client = machine.client().await;
    let holder = Claim { meta: Meta { epoch: 2, ..Meta::default() }, ..client.mutex("n") };
    client.granted(&holder).await;
    let store = &client.store;
    let kind = |claim: Claim| async move { store.claim(&claim).await.unwrap_err().kind() };
    assert_eq!(
        kind(Claim { weight: 1, capacity: 3, ..client.mutex("n") }).await,
        ErrorKind::Mismatch
    );
    assert_eq!(kind(client.mutex("n")).await, ErrorKind::Mismatch);
    let epoch2 =
        || Claim { max_waiters: 2, ..Claim { meta: holder.meta.clone(), ..client.mutex("n") } };
    client.queued(&epoch2()).await;
    client.queued(&epoch2()).await;
    assert_eq!(kind(epoch2()).await, ErrorKind::QueueFull);
}

#[tokio::test]
async fn a_known_id_gets_its_answer_again_and_a_withdrawn_one_never() {
    let machine = Machine::new();
    let client = machine.client().await;
    let claim = client.mutex("n");
    let token = client.granted(&claim).await;
    let again = Claim { resend: true, ..claim.clone() };
    assert_eq!(client.granted(&again).await, token);
    client.store.withdraw(&claim.key, Some(TTL)).await.unwrap();
    assert_eq!(client.store.claim(&claim).await.unwrap(), Verdict::Gone);

    let lost = Claim { resend: true, ..client.mutex("n") };
    assert_eq!(client.store.claim(&lost).await.unwrap(), Verdict::Gone);
    let late = Claim { resend: false, ..lost };
    assert_eq!(client.store.claim(&late).await.unwrap(), Verdict::Gone, "tombstoned by the resend");
}

#[tokio::test]
async fn a_renewal_reports_each_claims_state_and_makes_none() {
    let machine = Machine::new();
    let client = machine.client().await;
    let (held, queued, absent) = (client.mutex("n"), client.mutex("n"), client.mutex("n"));
    let token = client.granted(&held).await;
    client.queued(&queued).await;
    use LiveState::{Granted, InFlight, Queued};
    let asked = [(&held, Granted), (&queued, Queued), (&absent, InFlight), (&absent, Queued)];
    let expected = [
        Renewal::Held { token, ttl: held.ttl },
        Renewal::Queued,
        Renewal::Unknown,
        Renewal::Lost(None),
    ];
    assert_eq!(client.renew(&asked).await.unwrap(), expected);
    let many: Vec<_> = asked.iter().cycle().take(40).copied().collect();
    let all = client.renew(&many).await.unwrap();
    assert_eq!(all[..4], expected, "the same with one query for all");
    assert_eq!(client.store.line(&name("n")).await.unwrap().entries.len(), 2);
}

#[tokio::test]
async fn a_session_that_is_not_renewed_is_lost_with_all_it_had() {
    let machine = Machine::new();
    let (client, other) = (machine.client_with(short()).await, machine.client().await);
    let claim = client.mutex("n");
    client.granted(&claim).await;
    tokio::time::sleep(ms(3050)).await;
    assert_eq!(client.renew(&[]).await.unwrap_err().kind(), ErrorKind::SessionLost);
    assert_eq!(client.store.claim(&claim).await.unwrap_err().kind(), ErrorKind::SessionLost);
    other.granted(&other.mutex("n")).await;
}

#[tokio::test]
async fn a_waiting_claim_ends_long_before_the_session() {
    let machine = Machine::new();
    let holder = machine.client().await;
    let spec = SessionSpec { wait_ttl: ms(3000), ..SessionSpec::new(TTL, Duration::ZERO) };
    let client = machine.client_with(spec).await;
    let (held, waiting) = (client.mutex("own"), client.mutex("n"));
    let token = client.granted(&held).await;
    holder.granted(&holder.mutex("n")).await;
    client.queued(&waiting).await;
    tokio::time::sleep(ms(1600)).await;
    assert_eq!(client.renew(&[(&waiting, LiveState::Queued)]).await.unwrap(), [Renewal::Queued]);
    tokio::time::sleep(ms(1600)).await;
    assert_eq!(client.renew(&[(&waiting, LiveState::Queued)]).await.unwrap(), [Renewal::Queued]);
    tokio::time::sleep(ms(3050)).await;
    let asked = [(&waiting, LiveState::Queued), (&held, LiveState::Granted)];
    assert_eq!(
        client.renew(&asked).await.unwrap(),
        [Renewal::Lost(None), Renewal::Held { token, ttl: client.spec.ttl }]
    );
}

#[tokio::test]
async fn a_pushed_grant_has_no_more_time_until_its_own_request() {
    let machine = Machine::new();
    let holder = machine.client().await;
    let spec = SessionSpec { wait_ttl: ms(1500), ..SessionSpec::new(TTL, Duration::ZERO) };
    let client = machine.client_with(spec).await;
    let (held, pushed) = (holder.mutex("n"), client.mutex("n"));
    holder.granted(&held).await;
    client.queued(&pushed).await;
    holder.withdraw(&held).await;
    let left = |line: Line| line.entries[0].expires_in.unwrap();
    assert!(left(client.store.line(&name("n")).await.unwrap()) <= ms(1500));
    client.granted(&pushed).await;
    assert!(left(client.store.line(&name("n")).await.unwrap()) > ms(5000));
}

#[tokio::test]
async fn a_closed_session_leaves_nothing() {
    let machine = Machine::new();
    let client = machine.client_with(SessionSpec::new(TTL, TTL)).await;
    let (held, waiting) = (client.mutex("n"), client.mutex("n"));
    client.granted(&held).await;
    client.queued(&waiting).await;
    client.store.close(&client.session, &[]).await.unwrap();
    client.store.close(&client.session, &[]).await.unwrap();
    assert!(client.store.line(&name("n")).await.unwrap().entries.is_empty());
    assert_eq!(client.store.claim(&waiting).await.unwrap_err().kind(), ErrorKind::SessionLost);
}

#[tokio::test]
async fn what_no_renewal_lists_for_a_ttl_is_removed_and_no_sooner() {
    let machine = Machine::new();
    let client = machine.client_with(short()).await;
    let (listed, leftover) = (client.mutex("a"), client.mutex("b"));
    client.granted(&listed).await;
    let start = clock();
    client.granted(&leftover).await;
    let there = || async { client.store.line(&name("b")).await.unwrap().entries.len() };
    while since(start) < client.spec.ttl {
        client.renew(&[(&listed, LiveState::Granted)]).await.unwrap();
        let left = there().await;
        assert!(left == 1 || since(start) >= client.spec.ttl, "{:?}", since(start));
        tokio::time::sleep(ms(40)).await;
    }
    while since(start) < ms(20_000) && there().await == 1 {
        client.renew(&[(&listed, LiveState::Granted)]).await.unwrap();
        tokio::time::sleep(ms(40)).await;
    }
    assert_eq!(there().await, 0);
    assert_eq!(client.store.line(&name("a")).await.unwrap().entries.len(), 1);
}

/// Like the sessions of adopted handles, which are never closed.
#[tokio::test]
async fn nothing_is_remembered_of_sessions_that_ended_by_themselves() {
    let machine = Machine::new();
    let store = machine.open().await;
    let spec = SessionSpec::new(ms(100), Duration::ZERO);
    let mut most = 0;
    for _ in 0..300 {
        let client = Client::on(store.clone(), spec.clone()).await;
        // A busy machine may end the session before that.
        let _ = client.renew(&[]).await;
        tokio::time::sleep(ms(5)).await;
        most = store.write(|txn| Ok(txn.remembered())).await.unwrap().max(most);
    }
    assert!(most < 200, "{most}");
}

#[tokio::test]
async fn a_marked_claim_is_refused_its_renewals_and_ends_by_itself() {
    let machine = Machine::new();
    let client = machine.client_with(short()).await;
    let claim = client.mutex("n");
    let token = client.granted(&claim).await;
    let target = Target::Token(token);
    assert_eq!(
        client.store.evict(&claim.key.name, &target, Evict::Mark, "ops", "stuck").await.unwrap(),
        Evicted::Done
    );
    let lost = client.renew(&[(&claim, LiveState::Granted)]).await.unwrap();
    assert!(
        matches!(&lost[0], Renewal::Lost(Some(broken)) if &*broken.by == "ops" && &*broken.reason == "stuck")
    );
    assert_eq!(
        client.store.claim(&Claim { resend: true, ..claim.clone() }).await.unwrap(),
        Verdict::Gone
    );
    assert_eq!(client.store.line(&claim.key.name).await.unwrap().entries.len(), 1);
    tokio::time::sleep(ms(1600)).await;
    client.renew(&[]).await.unwrap();
    tokio::time::sleep(ms(1450)).await;
    assert!(
        client.store.line(&claim.key.name).await.unwrap().entries.is_empty(),
        "the session lives on, it does not"
    );
}

#[tokio::test]
async fn who_removed_a_claim_at_once_is_reported_to_its_holder() {
    let machine = Machine::new();
    let (client, other) = (machine.client().await, machine.client().await);
    let claim = client.mutex("n");
    let target = Target::Token(client.granted(&claim).await);
    assert_eq!(
        other.store.evict(&name("n"), &target, Evict::Now, "ops", "stuck").await.unwrap(),
        Evicted::Done
    );
    other.granted(&other.mutex("n")).await;
    // The record of the break outlasts a tombstone of the same id.
    client.store.withdraw(&claim.key, Some(ms(1))).await.unwrap();
    let lost = client.renew(&[(&claim, LiveState::Granted)]).await.unwrap();
    let lost_to = Broken { by: "ops".into(), reason: "stuck".into(), removed: true };
    assert_eq!(lost, [Renewal::Lost(Some(lost_to))]);
    assert_eq!(client.store.claim(&Claim { resend: true, ..claim }).await.unwrap(), Verdict::Gone);
}

#[tokio::test]
async fn an_evicted_claim_is_gone_at_once_by_hash_too() {
    let machine = Machine::new();
    let client = machine.client().await;
    let (held, waiting) = (client.mutex("n"), client.mutex("n"));
    client.granted(&held).await;
    client.queued(&waiting).await;
    let target = Target::Id(held.key.id.hash());
    assert_eq!(
        client.store.evict(&name("n"), &target, Evict::Now, "", "").await.unwrap(),
        Evicted::Done
    );
    assert_eq!(
        client.store.evict(&name("n"), &target, Evict::Now, "", "").await.unwrap(),
        Evicted::Absent
    );
    client.granted(&waiting).await;
}

#[tokio::test]
async fn a_ttl_out_of_range_is_unsupported() {
    let machine = Machine::new();
    let store = machine.open().await;
    for spec in [
        SessionSpec::new(ms(99), Duration::ZERO),
        SessionSpec::new(TTL, Duration::from_secs(90_000)),
    ] {
        let error = Store::open(&store, &SessionId::random(), &spec).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

#[tokio::test]
async fn requests_take_their_place_when_they_are_polled_first() {
    let machine = Machine::new();
    let client = machine.client().await;
    let gate = File::open(machine.0.path().join("locks.db.gate")).unwrap();
    gate.lock().unwrap();
    let (first, second) = (client.mutex("n"), client.mutex("n"));
    let (mut one, mut two) = (client.store.claim(&first), client.store.claim(&second));
    for request in [&mut two, &mut one] {
        assert!(
            tokio::time::timeout(Duration::ZERO, request).await.is_err(),
            "nobody gets through the gate"
        );
    }
    drop(two);
    gate.unlock().unwrap();
    assert!(
        matches!(one.await.unwrap(), Verdict::Queued { .. }),
        "the dropped one was done all the same"
    );
    client.granted(&second).await;
}

#[tokio::test]
async fn a_lease_in_the_file_is_whole_after_each_claim_and_seldom_written() {
    let machine = Machine::new();
    let client = machine.client().await;
    let whole = i64::try_from(TTL.as_micros()).unwrap();
    let mut written = std::collections::HashSet::new();
    for i in 0..20 {
        let asked = micros(clock());
        client.granted(&client.mutex(&format!("n{i}"))).await;
        let until = client
            .store
            .write(|txn| txn.number("SELECT hold_until_us FROM lk_session"))
            .await
            .unwrap();
        assert!(until >= asked + whole && until <= micros(clock()) + whole + 250_000, "{until}");
        written.insert(until);
    }
    assert!(written.len() < 20);
}

#[tokio::test]
async fn a_session_cannot_renew_the_claim_of_another() {
    let machine = Machine::new();
    let (client, other) = (machine.client().await, machine.client().await);
    let claim = client.mutex("n");
    client.granted(&claim).await;
    assert_eq!(other.renew(&[(&claim, LiveState::Granted)]).await.unwrap(), [Renewal::Lost(None)]);
    let many = [(&claim, LiveState::Granted); 40];
    assert!(
        other.renew(&many).await.unwrap().iter().all(|renewal| *renewal == Renewal::Lost(None))
    );
}

#[tokio::test]
async fn the_requests_of_one_turn_are_done_in_their_order() {
    let machine = Machine::new();
    let client = machine.client().await;
    let claims = [(); 3].map(|()| client.mutex("n"));
    let busy = faults::occupy(&client).await;
    let [first, second, third] = claims.each_ref().map(|claim| client.store.claim(claim));
    let (first, second, third, ()) = tokio::join!(first, second, third, async { drop(busy) });
    assert!(matches!(first.unwrap(), Verdict::Granted { .. }));
    assert!(matches!(second.unwrap(), Verdict::Queued { ahead: 1, .. }));
    assert!(matches!(third.unwrap(), Verdict::Queued { ahead: 2, .. }));
}
