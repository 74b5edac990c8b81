//! Many at once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::*;

/// Acquires as the engine does: claims, waits, and claims again.
pub(super) async fn acquire(client: &Client, claim: &Claim) -> u64 {
    loop {
        match client.store.claim(claim).await.unwrap() {
            Verdict::Granted { token, .. } => return token,
            Verdict::Queued { seen, look_again, .. } => {
                client.store.wait(Interest::Claim(&claim.key), seen, look_again).await.unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Sends a request for each of the claims before any is answered.
async fn at_once<T, F>(
    client: &Client,
    claims: &[Claim],
    request: impl Fn(FileStore, Claim) -> F,
) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let tasks: Vec<_> =
        claims.iter().map(|c| tokio::spawn(request(client.store.clone(), c.clone()))).collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap().unwrap());
    }
    answers
}

#[test]
fn eight_stores_on_one_name_exclude_each_other_with_rising_tokens() {
    const ROUNDS: usize = 40;
    let machine = Arc::new(Machine::new());
    let (inside, last) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (machine, inside, last) =
                (Arc::clone(&machine), Arc::clone(&inside), Arc::clone(&last));
            std::thread::spawn(move || {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let client = machine.client().await;
                    for _ in 0..ROUNDS {
                        let claim = client.mutex("n");
                        let token = acquire(&client, &claim).await;
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
                        assert!(
                            last.swap(token, Ordering::SeqCst) < token,
                            "a token went back, or was given twice"
                        );
                        inside.fetch_sub(1, Ordering::SeqCst);
                        client.withdraw(&claim).await;
                    }
                });
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[tokio::test]
async fn many_can_open_a_new_file_at_once_and_go_away_again() {
    for _ in 0..8 {
        let machine = Machine::new();
        let opening: Vec<_> =
            (0..10).map(|_| tokio::spawn(FileStore::new(machine.path()).open())).collect();
        for store in opening {
            drop(store.await.unwrap().unwrap());
        }
    }
}

#[tokio::test]
async fn a_full_line_is_swept_before_anybody_is_refused() {
    let machine = Machine::new();
    let (holder, dying, b) =
        (machine.client().await, machine.client().await, machine.client().await);
    holder.granted(&holder.mutex("n")).await;
    b.queued(&b.mutex("n")).await;
    for _ in 0..3 {
        dying.queued(&dying.mutex("n")).await;
    }
    drop(dying);
    b.queued(&Claim { max_waiters: 4, ..b.mutex("n") }).await;
    assert_eq!(b.store.line(&name("n")).await.unwrap().entries.len(), 3);
}

#[tokio::test]
async fn ten_thousand_claims_are_renewed_at_once() {
    let machine = Machine::new();
    let client = machine.client().await;
    let claims: Vec<Claim> = (0..10_000).map(|i| client.mutex(&format!("n{i}"))).collect();
    for chunk in claims.chunks(256) {
        let verdicts =
            at_once(&client, chunk, |store, claim| async move { store.claim(&claim).await }).await;
        assert!(verdicts.iter().all(|v| matches!(v, Verdict::Granted { .. })));
    }
    let live: Vec<_> = claims.iter().map(|claim| (claim, LiveState::Granted)).collect();
    let start = clock();
    let renewed = client.renew(&live).await.unwrap();
    assert!(renewed.iter().all(|r| matches!(r, Renewal::Held { .. })));
    println!("10 000 claims renewed in {:?}", since(start));
    assert!(since(start) < Duration::from_secs(10));
}

/// No client claims their names again, and no client opens the store again.
#[tokio::test]
async fn ended_claims_on_unused_names_are_removed_by_later_sessions() {
    const MANY: u32 = 100;
    let machine = Machine::new();
    let store = machine.open().await;
    let spec = SessionSpec { detached: true, ..SessionSpec::new(ms(200), Duration::ZERO) };
    let db = Connection::open(machine.path()).unwrap();
    let left = |table: &str| -> u32 {
        db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    for i in 0..MANY {
        let client = Client::on(store.clone(), spec.clone()).await;
        let claim = client.mutex(&format!("job/{i}"));
        client.granted(&claim).await;
    }
    let mut others = 0;
    let cleared = async {
        while left("lk_claim") > 0 {
            Store::open(&store, &SessionId::random(), &SessionSpec::new(TTL, Duration::ZERO))
                .await
                .unwrap();
            others += 1;
        }
    };
    tokio::time::timeout(TTL, cleared).await.unwrap();
    assert_eq!(left("lk_session"), others);
}

/// No client claims their names again, or opens a session or the store again.
#[tokio::test]
async fn kept_claims_on_unused_names_are_removed_by_later_claims() {
    const ROUND: u32 = 1024;
    let machine = Machine::new();
    let client = machine.client().await;
    let db = Connection::open(machine.path()).unwrap();
    let left =
        || -> u32 { db.query_row("SELECT count(*) FROM lk_claim", [], |row| row.get(0)).unwrap() };
    let keep = |store: FileStore, claim: Claim| async move {
        store.amend(&claim.key, 1, &Amend::MinHold(Duration::from_secs(3600))).await
    };
    for round in 0..4 {
        let claims: Vec<Claim> =
            (0..ROUND).map(|i| client.mutex(&format!("{round}/{i}"))).collect();
        at_once(&client, &claims, |store, claim| async move { store.claim(&claim).await }).await;
        at_once(&client, &claims, keep).await;
        at_once(
            &client,
            &claims,
            |store, claim| async move { store.withdraw(&claim.key, None).await },
        )
        .await;
        let over = db.execute("UPDATE lk_claim SET until_us = 1 WHERE state = 3", []).unwrap();
        assert!(over >= ROUND as usize, "{over} were kept");
    }
    assert!(left() < 2 * ROUND, "{} claims are left of {}", left(), 4 * ROUND);
}
