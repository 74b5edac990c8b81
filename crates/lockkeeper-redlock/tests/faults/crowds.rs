//! Many clients want one lock: it goes from one to the next, nobody starves, and no two hold it.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::Keeper;
use lockkeeper_live::{Redlock, Way};

use crate::support::{LONG, TTL, behind_proxies, keeper, name};

const CLIENTS: usize = 8;

/// What one client has seen.
#[derive(Debug, Default)]
struct Seen {
    grants: u64,
    longest: Duration,
    tokens: Vec<u64>,
    /// How long the client waited for each of these tokens.
    waits: Vec<Duration>,
}

/// Takes the lock again and again. The kernel is the witness that no other client holds it.
async fn contend(keeper: Keeper, name: String, witness: Arc<File>, until: Instant) -> Seen {
    let mut seen = Seen::default();
    while Instant::now() < until {
        let began = Instant::now();
        let Ok(guard) = keeper.mutex(&*name).unwrap().lock().wait(LONG).await else { continue };
        let wait = began.elapsed();
        seen.longest = seen.longest.max(wait);
        if guard.check().is_ok() {
            witness.try_lock().expect("another client holds the lock");
            seen.tokens.push(guard.token().get());
            seen.waits.push(wait);
            if guard.check().is_err() {
                eprintln!("the lock was lost while it was held");
            }
            witness.unlock().unwrap();
        }
        seen.grants += 1;
        drop(guard.release().await);
    }
    seen
}

async fn crowd(clients: usize, url: &str, lasts: Duration, ttl: Duration) -> Vec<Seen> {
    contention(keepers(clients, url, ttl).await, lasts).await
}

/// Clients that have connected.
async fn keepers(clients: usize, url: &str, ttl: Duration) -> Vec<Keeper> {
    let mut keepers = Vec::new();
    for _ in 0..clients {
        keepers.push(keeper(url, ttl).await);
    }
    keepers
}

async fn contention(keepers: Vec<Keeper>, lasts: Duration) -> Vec<Seen> {
    let (name, until) = (name(), Instant::now() + lasts);
    let folder = std::env::temp_dir().join(format!("redlock-{}", name.replace('/', "-")));
    File::create(&folder).unwrap();
    let mut tasks = Vec::new();
    for keeper in keepers {
        // Each client has a description of its own of the file.
        let witness = Arc::new(File::options().write(true).open(&folder).unwrap());
        tasks.push(tokio::spawn(contend(keeper, name.clone(), witness, until)));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.push(task.await.unwrap());
    }
    std::fs::remove_file(&folder).unwrap();
    all
}

/// The goal on a quiet machine is 1000 hand-offs per second, and no wait above 50 ms. A busy one is
/// slower, so the limits here are those of a livelock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_clients_hand_one_lock_on_without_a_livelock() {
    const LASTS: Duration = Duration::from_secs(4);
    let servers = Redlock::start().unwrap();
    let all = crowd(CLIENTS, &servers.url(), LASTS, LONG).await;
    let grants: u64 = all.iter().map(|seen| seen.grants).sum();
    let longest = all.iter().map(|seen| seen.longest).max().unwrap();
    let fewest = all.iter().map(|seen| seen.grants).min().unwrap();
    eprintln!(
        "{:.0} hand-offs/s, the longest wait {longest:?}, {fewest} of {grants} by the last client",
        grants as f64 / LASTS.as_secs_f64()
    );
    assert!(grants > 40 && longest < Duration::from_secs(5), "{grants}, {longest:?}");
    assert!(fewest * 8 > grants / CLIENTS as u64, "a client starves: {all:?}");
    let mut tokens: Vec<_> = all.iter().flat_map(|seen| seen.tokens.iter()).collect();
    let count = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), count, "a token was given twice");
}

/// The shortest wait of a client between two of its grants, where another one had the lock
/// meanwhile: the tokens say in which order.
fn shortest_turn(all: &[Seen]) -> Option<Duration> {
    let has_other = |from: u64, to: u64| {
        all.iter().flat_map(|seen| &seen.tokens).any(|token| (from + 1..to).contains(token))
    };
    let of = |seen: &Seen| {
        let turns = seen.tokens.windows(2).zip(&seen.waits[1..]);
        turns.filter(|(two, _)| has_other(two[0], two[1])).map(|(_, wait)| *wait).min()
    };
    all.iter().filter(|seen| !seen.waits.is_empty()).filter_map(of).min()
}

/// One server of three is slow or silent. A client that is turned away would wait for its
/// withdrawal there each time, for 300 or 400 ms here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_off_waits_for_no_server_that_it_does_not_need() {
    const LASTS: Duration = Duration::from_millis(2500);
    for is_silent in [false, true] {
        let (servers, proxies) = behind_proxies(3);
        let clients = keepers(3, &servers.url_through(&proxies), LONG).await;
        match is_silent {
            true => proxies[2].hold(Way::ToClient),
            false => proxies[2].delay(Way::ToClient, Duration::from_millis(300)),
        }
        let all = contention(clients, LASTS).await;
        let shortest = shortest_turn(&all).expect("no turn of another client");
        eprintln!("{shortest:?} with a server that is silent ({is_silent})");
        assert!(shortest < Duration::from_millis(200), "{shortest:?}: {all:?}");
    }
}

/// Servers are cut off, slow and stopped while clients contend. The kernel sees no two holders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_shows_no_two_holders_to_the_witness() {
    const LASTS: Duration = Duration::from_secs(12);
    let (servers, proxies) = behind_proxies(3);
    let (is_over, faults) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (over, made) = (Arc::clone(&is_over), Arc::clone(&faults));
    let url = servers.url_through(&proxies);
    let storm = tokio::spawn(async move {
        let mut round = 0_usize;
        while !over.load(Ordering::SeqCst) {
            let proxy = &proxies[round % 3];
            match round % 5 {
                0 => proxy.hold(Way::ToServer),
                1 => proxy.hold(Way::ToClient),
                2 => proxy.cut(),
                3 => proxy.delay(Way::Both, Duration::from_millis(100)),
                _ => proxy.hold(Way::Both),
            }
            made.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(300)).await;
            proxy.heal();
            round += 1;
        }
    });
    let all = crowd(5, &url, LASTS, TTL).await;
    is_over.store(true, Ordering::SeqCst);
    storm.await.unwrap();
    let grants: u64 = all.iter().map(|seen| seen.grants).sum();
    eprintln!("{grants} grants beside {} faults", faults.load(Ordering::SeqCst));
    assert!(grants > 50 && faults.load(Ordering::SeqCst) > 10, "{all:?}");
}
