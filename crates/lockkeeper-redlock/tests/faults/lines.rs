//! What single lines of the scripts protect. Each of these tests fails without its line.

use std::time::Duration;

use lockkeeper::ErrorKind;
use lockkeeper::doctor::initialize;
use lockkeeper::store::{
    Broken, Claim, Evict, Evicted, Interest, Live, LiveState, Renewal, Revision, Target, Wake,
};
use lockkeeper_live::{Redis, Redlock, with};

use crate::support::{
    ByHand, LONG, SLOW, TIME_LIMIT, TTL, behind_proxies, holders, holding, keeper, line_key, lock,
    name, renewed, until_holding, within,
};

/// Servers whose time stands still: no reservation and no claim ends by itself.
fn standing() -> Redlock {
    Redlock::of(3, &Redis::builder().with_standing_clock()).unwrap()
}

async fn by_hand(servers: &Redlock, name: &str) -> ByHand {
    ByHand::connect(&with(&servers.url(), SLOW), name).await
}

/// The waiter of a ticket: an exclusive one.
fn waits_with(ticket: u64) -> Revision {
    Revision(1 << 63 | 1 << 62 | ticket)
}

/// `lua/claim.lua`: `HDEL` before `HSET`, for a renewal.
#[tokio::test]
async fn a_renewal_goes_on_on_full_servers() {
    let (servers, name) = (Redlock::start().unwrap(), name());
    let guard = lock(&keeper(&servers.url(), LONG).await, &name).await;
    until_holding(&servers, &name, 3).await;
    servers.nodes().iter().for_each(|node| node.set("maxmemory", "1mb").unwrap());
    renewed(&guard).await;
    guard.release().await.unwrap();
}

/// `lua/claim.lua`: `since>now`. The clocks went back after the servers were seen for the first
/// time. They count after `max-keep`, and not when their clocks have caught up.
#[tokio::test]
async fn a_first_contact_in_the_future_is_one_of_now() {
    let (servers, name) = (Redlock::start().unwrap(), name());
    for node in servers.nodes() {
        let (run, now) = (node.info("run_id").unwrap(), node.time().unwrap());
        let later = (now + Duration::from_secs(3600)).as_millis();
        node.run(&["SET", "lk:born", &format!("{run} {later}")]).unwrap();
    }
    let keeper = keeper(&(servers.url() + "?max-keep=2s"), TTL).await;
    lock(&keeper, &name).await.release().await.unwrap();
}

/// `lua/withdraw.lua`: `PTTL`. A later withdrawal makes no tombstone shorter.
#[tokio::test]
async fn a_tombstone_is_never_shortened() {
    const LASTS: Duration = Duration::from_secs(600);
    let (servers, name) = (Redlock::start().unwrap(), name());
    let client = by_hand(&servers, &name).await;
    let claim = client.writer();
    client.token(&claim).await.expect("it is free");
    until_holding(&servers, &name, 3).await;
    client.store.withdraw(&claim.key, Some(LASTS)).await.unwrap();
    until_holding(&servers, &name, 0).await;
    client.store.withdraw(&claim.key, Some(LASTS / 10)).await.unwrap();
    for node in servers.nodes() {
        let keys: Vec<String> = node.query(&["KEYS", "*:g:*"]).unwrap();
        let left: u128 = node.query(&["PTTL", &keys[0]]).unwrap();
        assert!(left > LASTS.as_millis() / 2, "{left} ms");
    }
}

/// `lua/claim.lua`: the number of the claim to replace. Two servers have lost the reader and taken
/// it again with a higher number: others may have had the lock in between.
#[tokio::test]
async fn a_reader_with_another_number_is_not_replaced() {
    const RAISE: &str = "local key = KEYS[1]
        for _, field in ipairs(redis.call('HKEYS', key)) do
            if string.sub(field, 1, 1) == 'h' then
                local value = redis.call('HGET', key, field)
                local number = struct.unpack('<d', value)
                redis.call('HSET', key, field, struct.pack('<d', number+1)..string.sub(value, 9))
            end
        end";
    let (servers, name) = (Redlock::start().unwrap(), name());
    let client = by_hand(&servers, &name).await;
    let reader = client.reader(0);
    client.token(&reader).await.expect("it is free");
    until_holding(&servers, &name, 3).await;
    for node in &servers.nodes()[..2] {
        node.run(&["EVAL", RAISE, "1", &line_key(&name)]).unwrap();
    }
    assert_eq!(client.token(&client.writer_for(&reader)).await, None);
    client.store.withdraw(&reader.key, None).await.unwrap();
}

/// `lua/claim.lua`: the waiter that may claim next comes before others.
#[tokio::test]
async fn the_waiter_that_was_woken_comes_first() {
    let (servers, name) = (standing(), name());
    let (first, other) = (by_hand(&servers, &name).await, by_hand(&servers, &name).await);
    let woken = first.store.wait(Interest::Name(&first.name), waits_with(10), LONG).await.unwrap();
    assert_eq!(woken, Wake::Changed);
    assert_eq!(other.token(&other.writer()).await, None);
    first.token(&first.writer()).await.expect("it may claim next");
}

/// `lua/claim.lua`: `floor==0`. A server lets a waiter claim next, and the holder takes the server
/// again all the same.
#[tokio::test]
async fn a_reservation_keeps_no_holder_off_a_server() {
    let (servers, name) = (standing(), name());
    let (holder, other) = (by_hand(&servers, &name).await, by_hand(&servers, &name).await);
    let claim = holder.writer();
    let token = holder.token(&claim).await.expect("it is free");
    until_holding(&servers, &name, 3).await;
    servers.nodes()[0].run(&["DEL", &line_key(&name)]).unwrap();
    let short = Duration::from_millis(300);
    let waited = other.store.wait(Interest::Name(&other.name), waits_with(10), short).await;
    assert_eq!(waited.unwrap(), Wake::Elapsed);
    let reserved: bool = servers.nodes()[0].query(&["HEXISTS", &line_key(&name), "n"]).unwrap();
    assert!(reserved, "the server lets the waiter claim next");
    let live = [Live { key: claim.key.clone(), state: LiveState::Granted }];
    let renewed = holder.store.renew(&claim.key.session, &live).await.unwrap();
    assert_eq!(renewed.claims, [Renewal::Held { token, ttl: LONG }]);
    until_holding(&servers, &name, 3).await;
}

/// `lua/claim.lua`: `PEXPIRE`, and the clock in a number. The counter of a lock stays for a day,
/// and the number after its loss is not lower: it is the time of the server, to two seconds.
#[tokio::test]
async fn a_counter_stays_for_a_day_and_is_not_lower_after_its_loss() {
    const DAY: i64 = 24 * 3600 * 1000;
    let (servers, name) = (Redlock::start().unwrap(), name());
    let client = by_hand(&servers, &name).await;
    let claim = client.writer();
    let now = servers.nodes()[0].time().unwrap();
    let token = client.token(&claim).await.expect("it is free");
    assert!(Duration::from_micros(token) + Duration::from_secs(2) > now, "{token}");
    until_holding(&servers, &name, 3).await;
    client.store.withdraw(&claim.key, None).await.unwrap();
    until_holding(&servers, &name, 0).await;
    for node in servers.nodes() {
        let left: i64 = node.query(&["PTTL", &line_key(&name)]).unwrap();
        assert!((DAY..DAY * 2).contains(&left), "{left} ms");
        node.run(&["DEL", &line_key(&name)]).unwrap();
    }
    assert!(client.token(&client.writer()).await.expect("it is free") >= token);
}

/// `lua/claim.lua`: `HDEL` of the dead. Readers without an end leave nothing in the line.
#[tokio::test]
async fn dead_readers_leave_nothing_in_the_line() {
    let (servers, name) = (standing(), name());
    let client = by_hand(&servers, &name).await;
    for _ in 0..4 {
        client.token(&client.reader(0)).await.expect("readers share");
    }
    for node in servers.nodes() {
        node.standing_clock().unwrap().advance(LONG * 2).await.unwrap();
    }
    client.token(&client.writer()).await.expect("the readers are dead");
    until_holding(&servers, &name, 3).await;
    assert!(servers.nodes().iter().all(|node| holders(node, &name).len() == 1));
}

/// `lua/claim.lua`: `keep_moved`. The clocks go back by an hour, and clients only try. The dead
/// holder begins its life again once, and not with each try.
#[tokio::test]
async fn tries_do_not_prolong_a_dead_lock_after_the_clocks_went_back() {
    let ((servers, _proxies), name) = (behind_proxies(3), name());
    let client = by_hand(&servers, &name).await;
    client.token(&Claim { ttl: TTL, ..client.writer() }).await.expect("it is free");
    until_holding(&servers, &name, 3).await;
    for node in servers.nodes() {
        node.set_clock_offset(-3600).unwrap();
    }
    let tries = async { while client.token(&client.writer()).await.is_none() {} };
    within(TIME_LIMIT, tries).await;
    assert!(holding(&servers, &name) >= 2);
}

/// Two of three servers have lost their memory. The third one alone knows whether the lock is held.
#[tokio::test]
async fn a_lock_that_a_majority_may_have_forgotten_is_not_shown_as_free() {
    let (servers, name) = (Redlock::start().unwrap(), name());
    let (url, keeper) = (servers.url(), keeper(&servers.url(), LONG).await);
    let guard = lock(&keeper, &name).await;
    until_holding(&servers, &name, 3).await;
    servers.nodes()[..2].iter().for_each(|node| node.run(&["FLUSHALL"]).unwrap());
    assert!(keeper.inspect(&*name).await.unwrap().is_held());
    let refused = initialize(&url.parse().unwrap()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert!(refused.to_string().contains(&format!("has a holder of {name:?}")), "{refused}");
    drop(guard.release().await);
    until_holding(&servers, &name, 0).await;
    let unknown = keeper.inspect(&*name).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Unavailable, "{unknown}");
    assert!(unknown.to_string().contains("may have forgotten locks"), "{unknown}");
    initialize(&url.parse().unwrap()).await.unwrap();
    assert!(!keeper.inspect(&*name).await.unwrap().is_held());
}

/// The holder learns who has removed its lock.
#[tokio::test]
async fn a_removed_holder_learns_who_has_removed_it_and_why() {
    let (servers, name) = (Redlock::start().unwrap(), name());
    let client = by_hand(&servers, &name).await;
    let claim = client.writer();
    client.token(&claim).await.expect("it is free");
    until_holding(&servers, &name, 3).await;
    let (admin, target) = (client.store.admin().unwrap(), Target::Id(claim.key.id.hash()));
    let evicted = admin.evict(&client.name, &target, Evict::Now, "ops", "stuck").await.unwrap();
    assert_eq!(evicted, Evicted::Done);
    let live = Live { key: claim.key.clone(), state: LiveState::Granted };
    let renewed = client.store.renew(&claim.key.session, &[live]).await.unwrap();
    let by = Broken { by: "ops".into(), reason: "stuck".into(), removed: true };
    assert_eq!(renewed.claims, [Renewal::Lost(Some(by))]);
}

/// A server was started again with the claim of a lock that the others have released meanwhile.
#[tokio::test]
async fn the_old_claim_of_a_server_that_does_not_count_holds_nothing() {
    let (servers, name) = (Redlock::start().unwrap(), name());
    let (url, keeper) = (servers.url(), keeper(&servers.url(), LONG).await);
    let _guard = lock(&keeper, &name).await;
    until_holding(&servers, &name, 3).await;
    servers.nodes()[2].run(&["SET", "lk:born", "another-run 0"]).unwrap();
    servers.nodes()[..2].iter().for_each(|node| node.run(&["DEL", &line_key(&name)]).unwrap());
    assert!(!keeper.inspect(&*name).await.unwrap().is_held());
    initialize(&url.parse().unwrap()).await.unwrap();
}

/// Nobody claims a lock meanwhile.
#[tokio::test]
async fn servers_count_a_life_after_the_first_client_has_opened_the_store() {
    let (servers, name) = (Redlock::start().unwrap(), name());
    servers.nodes().iter().for_each(|node| node.run(&["DEL", "lk:born"]).unwrap());
    let keeper = lockkeeper::connect(&with(&servers.url(), "max-keep=1s&ttl=1s")).await.unwrap();
    let error = keeper.inspect(&*name).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let known = async {
        while keeper.inspect(&*name).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT, known).await;
}

/// `lua/keep.lua`: `pcall`. The opening of a store needs no room on its servers.
#[tokio::test]
async fn a_store_on_full_servers_that_were_started_again_is_opened() {
    let (servers, name) = (Redlock::start().unwrap(), name());
    let held = lock(&keeper(&servers.url(), LONG).await, &name).await;
    for node in servers.nodes() {
        node.run(&["SET", "lk:born", "another-run 0"]).unwrap();
        node.set("maxmemory", "1mb").unwrap();
    }
    let opened = lockkeeper::connect(&with(&servers.url(), SLOW)).await.unwrap();
    assert_eq!(opened.inspect(&*name).await.unwrap_err().kind(), ErrorKind::Unavailable);
    drop(held);
}
