//! What stays at a server: nothing without an end.

use std::time::Duration;

use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper::store::{
    Admin as _, ClaimId, Evict, Evicted, MAX, Renewal, Store as _, TOMBSTONE_MIN, Target, Verdict,
    Withdrawal,
};
use lockkeeper_live::{Redis, redis};

use crate::support::{Claimant, LONG, TIME_LIMIT, keeper, name, store, within};

fn side(name: &str) -> String {
    format!("lkf:{{{name}}}")
}

/// How many claims have a record beside the lock.
fn records(server: &Redis, name: &str) -> usize {
    let fields: Vec<Vec<u8>> = server.query(&["HKEYS", &side(name)]).unwrap();
    fields.iter().filter(|field| field.len() > 1).count()
}

/// Each key that only lockkeeper writes has an end.
fn all_end(server: &Redis, name: &str) {
    let keys: Vec<String> = server.query(&["KEYS", &format!("{}*", side(name))]).unwrap();
    assert!(!keys.is_empty());
    for key in keys {
        assert!(server.query::<i64>(&["PTTL", &key]).unwrap() > 0, "{key}");
    }
}

fn of_layout(claim: Claimant, layout: Layout) -> Claimant {
    if layout == Layout::RedissonSemaphore { claim.of(1, 1) } else { claim }
}

#[tokio::test]
async fn a_claim_takes_its_record_with_it_and_every_key_has_an_end() {
    let server = redis().unwrap();
    for layout in Layout::ALL {
        let (name, store) = (name(), store(server, layout).await);
        let claim = of_layout(Claimant::new(&store, &name, LONG).await, layout);
        claim.granted().await;
        all_end(server, &name);
        assert_eq!(records(server, &name), 1, "{layout:?}");
        let mut next = claim.clone();
        next.claim.key.id = ClaimId::random();
        next.claim.replaces = Some(claim.claim.key.id);
        next.granted().await;
        assert_eq!(records(server, &name), 1, "{layout:?}: the record of the one replaced is gone");
        let withdrawn = store.withdraw(&next.claim.key, Some(TOMBSTONE_MIN)).await.unwrap();
        assert_eq!(withdrawn, Withdrawal::Removed, "{layout:?}");
        assert_eq!(records(server, &name), 0, "{layout:?}");
        all_end(server, &name);
    }
}

/// The record of a removal stays when the holder cleans up, so that the holder learns who it was.
#[tokio::test]
async fn a_record_of_a_removal_outlives_the_withdrawal_and_says_who_it_was() {
    let server = redis().unwrap();
    for layout in Layout::ALL {
        let (name, store) = (name(), store(server, layout).await);
        let claim = of_layout(Claimant::new(&store, &name, LONG).await, layout);
        claim.granted().await;
        let target = Target::Id(claim.claim.key.id.hash());
        let of = name.parse().unwrap();
        let evicted = store.evict(&of, &target, Evict::Now, "ops", "stuck").await.unwrap();
        assert_eq!(evicted, Evicted::Done, "{layout:?}");
        let withdrawn = store.withdraw(&claim.claim.key, None).await.unwrap();
        assert_eq!(withdrawn, Withdrawal::Absent, "{layout:?}");
        assert!(matches!(claim.send().await, Ok(Verdict::Gone)), "{layout:?}: a late copy");
        match claim.renewed().await {
            Renewal::Lost(Some(broken)) => assert_eq!(&*broken.by, "ops", "{layout:?}"),
            other => panic!("{layout:?}: {other:?}"),
        }
        all_end(server, &name);
    }
}

/// The claim sets the number of permits, of which another name has one.
#[tokio::test]
async fn a_claim_of_permits_that_is_turned_away_leaves_no_key_without_an_end() {
    let (server, name) = (redis().unwrap(), name());
    let store = store(server, Layout::RedissonSemaphore).await;
    let ends = (server.time().unwrap() + LONG).as_millis().to_string();
    server.run(&["ZADD", &format!("{{{name}}}:timeout"), &ends, "0123456789abcdef"]).unwrap();
    Claimant::new(&store, &name, LONG).await.of(2, 2).busy().await;
    assert_eq!(server.query::<i64>(&["GET", &name]).unwrap(), 1);
    all_end(server, &name);
}

/// Their clients have died, and withdraw nothing.
#[tokio::test]
async fn records_of_dead_claims_are_removed_by_later_claims() {
    let server = redis().unwrap();
    for layout in [Layout::RedissonRw, Layout::RedissonSemaphore] {
        let (name, store) = (name(), store(server, layout).await);
        let weighed = |claim: Claimant| match layout {
            Layout::RedissonRw => claim.of(1, MAX),
            _ => claim.of(1, 100),
        };
        for _ in 0..20 {
            let dead = Claimant::new(&store, &name, Duration::from_millis(100)).await;
            weighed(dead).granted().await;
        }
        let forgotten = async {
            loop {
                let claim = weighed(Claimant::new(&store, &name, LONG).await);
                claim.granted().await;
                claim.release().await;
                if records(server, &name) < 20 {
                    return;
                }
            }
        };
        within(TIME_LIMIT, forgotten).await;
    }
}

#[tokio::test]
async fn a_waiter_that_gives_up_stops_listening() {
    let (server, name) = (redis().unwrap(), name());
    for layout in [Layout::Plain, Layout::Redisson] {
        let channel = match layout {
            Layout::Plain => side(&name) + ":channel",
            _ => format!("redisson_lock__channel:{{{name}}}"),
        };
        let (holder, waiter) = (keeper(server, layout).await, keeper(server, layout).await);
        let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
        let listeners = || {
            let (_, count): (String, u64) = server.query(&["PUBSUB", "NUMSUB", &channel]).unwrap();
            count
        };
        let wait = waiter.mutex(&*name).unwrap().lock().wait(Duration::from_millis(200)).await;
        assert!(wait.is_err(), "{layout:?}");
        assert_eq!(listeners(), 1, "{layout:?}: the next wait needs no other subscription");
        let left = async {
            while listeners() > 0 {
                tokio::task::yield_now().await;
            }
        };
        within(TIME_LIMIT, left).await;
        guard.release().await.unwrap();
    }
}
