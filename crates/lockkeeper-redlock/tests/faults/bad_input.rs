//! What cannot be a Redlock is refused, and said.

use lockkeeper::doctor::{Level, examine};
use lockkeeper::{ErrorKind, Keeper, RedlockStore, Secret};
use lockkeeper_live::{Proxy, Redis, Redlock};

use crate::support::{LONG, TIME_LIMIT, TTL, keeper, lock, name, renewed, tried, within};

#[tokio::test]
async fn one_server_behind_two_addresses_is_found_by_its_run() {
    let servers = Redlock::start().unwrap();
    let [a, b, _] = servers.nodes() else { panic!("three servers") };
    let twin = Proxy::resp(a.address()).unwrap();
    let url = format!("redlock://{},{},{}", a.address(), b.address(), twin.address());
    // The opening does not wait for a server that is late. Later the twin does not count.
    let found = async {
        loop {
            if let Err(error) = Keeper::from_url(&*url).unwrap().connect().await {
                return error;
            }
        }
    };
    let error = within(TIME_LIMIT, found).await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains(&format!("the same server as {}", a.address())), "{error}");
    let found = examine(&url.parse().unwrap(), TIME_LIMIT).await;
    assert!(found.iter().any(|found| found.level == Level::Fail
        && found.finding.contains("the same server as")));
}

#[tokio::test]
async fn a_replica_among_the_servers_is_refused() {
    let servers = Redlock::start().unwrap();
    let [a, b, _] = servers.nodes() else { panic!("three servers") };
    let replica = Redis::builder().replica_of(a).start().unwrap();
    let url = format!("redlock://{},{},{}", a.address(), b.address(), replica.address());
    let found = examine(&url.parse().unwrap(), TIME_LIMIT).await;
    let at = replica.address().to_string();
    assert!(
        found.iter().any(|found| found.level == Level::Fail && found.finding.contains(&at)),
        "{found:?}"
    );
    // The other two are a majority, and the replica never counts.
    let keeper = keeper(&url, TTL).await;
    lock(&keeper, &name()).await.release().await.unwrap();
}

#[tokio::test]
async fn a_value_of_another_type_is_named_and_stays() {
    let (servers, name) = (Redlock::start().unwrap(), name());
    let encoded = name.parse::<lockkeeper::LockName>().unwrap().encoded();
    let key = format!("lk:r:{{{encoded}}}");
    let client = keeper(&servers.url(), LONG).await;
    for node in &servers.nodes()[1..] {
        node.run(&["RPUSH", &key, "theirs"]).unwrap();
    }
    let error = tried(&client, &name).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains(&format!("the key {key} holds a list")), "{error}");
    assert_eq!(client.inspect(&*name).await.unwrap_err().kind(), ErrorKind::Unsupported);
    for node in &servers.nodes()[1..] {
        assert_eq!(node.query::<String>(&["LINDEX", &key, "0"]).unwrap(), "theirs");
    }
    // One such server of three does no harm.
    servers.nodes()[1].run(&["DEL", &key]).unwrap();
    lock(&client, &name).await.release().await.unwrap();
}

#[tokio::test]
async fn a_wrong_password_is_said_of_each_server() {
    let servers = Redlock::of(3, &Redis::builder().password("right")).unwrap();
    let hosts = || servers.nodes().iter().map(|node| node.address().to_string());
    let store = RedlockStore::new(hosts()).password(Secret::new("wrong"));
    let error = store.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    for host in hosts() {
        assert!(error.to_string().contains(&format!("{host}: ")), "{error}");
    }
    // The logins may differ, and one wrong one of three is survived.
    let logins = ["right", "wrong", "right"].map(|word| (None, Some(Secret::new(word))));
    let store = RedlockStore::new(hosts()).logins(logins).connect().await.unwrap();
    let keeper = Keeper::builder(store).connect().await.unwrap();
    lock(&keeper, &name()).await.release().await.unwrap();
}

#[tokio::test]
async fn times_that_cannot_be_kept_are_refused() {
    let servers = Redlock::start().unwrap();
    let url = servers.url() + "?max-keep=10s&node-timeout=50ms";
    let client = Keeper::from_url(&*url).unwrap().ttl(TTL).connect().await.unwrap();
    let mutex = client.mutex(name()).unwrap();
    let short = mutex.clone().ttl(std::time::Duration::from_millis(150)).lock().await.unwrap_err();
    let long = mutex.clone().ttl(LONG).lock().await.unwrap_err();
    let delayed = mutex.lock_delay(std::time::Duration::from_secs(9)).lock().await.unwrap_err();
    for error in [short, long, delayed] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

/// A writer that cannot become a reader stays the writer, and a leader goes on showing its value.
#[tokio::test]
async fn what_a_redlock_has_not_is_refused_by_name() {
    let servers = Redlock::start().unwrap();
    let client = keeper(&servers.url(), LONG).await;
    let (shared, elected) = (client.rw_lock(name()).unwrap(), client.election(name()).unwrap());
    let writer = shared.write().await.unwrap();
    let (writer, error) = writer.downgrade().await.unwrap_err().into_parts();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("cannot change a claim that is held"), "{error}");
    let writer = writer.expect("it is given back");
    renewed(&writer).await;
    assert!(shared.try_read().await.unwrap().is_none(), "it is a writer still");
    writer.release().await.unwrap();
    let mut leader = elected.campaign(b"first").await.unwrap();
    let error = leader.proclaim(b"second").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let seen = elected.leader().await.unwrap().expect("a leader");
    assert_eq!(seen.value, b"first");
    leader.resign().await.unwrap();
    let error = client.semaphore(name(), 2).unwrap().try_acquire().await.map(drop).unwrap_err();
    assert!(error.to_string().contains("no semaphores"), "{error}");
    let detached = client.mutex(name()).unwrap().lock().detached(LONG).await;
    assert_eq!(detached.map(drop).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn the_doctor_says_what_an_even_number_means_and_that_versions_agree() {
    let servers = Redlock::of(4, &Redis::builder()).unwrap();
    let found = examine(&servers.url().parse().unwrap(), TIME_LIMIT).await;
    let says = |check: &str| {
        let of = found.iter().filter(|found| found.check == check);
        of.map(|found| found.finding.clone()).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(
        says("quorum"),
        "4 servers, 3 are needed for each lock: no more may fail than of 3 servers"
    );
    assert!(!found.iter().any(|found| found.level == Level::Fail), "{found:?}");
    assert_eq!(says("versions"), "", "{found:?}");
}

/// The servers take the `max-keep` of the first client, one after the other.
#[tokio::test]
async fn of_two_first_clients_with_different_max_keep_one_goes_on() {
    let servers = Redlock::start().unwrap();
    let [a, b, c] = [0, 1, 2].map(|node| servers.nodes()[node].address());
    let urls = [
        format!("redlock://{a},{b},{c}?max-keep=60s"),
        format!("redlock://{c},{b},{a}?max-keep=30s"),
    ];
    let opens = async |url: &String| Keeper::from_url(&**url).unwrap().connect().await.is_ok();
    for round in 0..20 {
        servers.nodes().iter().for_each(|node| node.run(&["DEL", "lk:r:id"]).unwrap());
        tokio::join!(opens(&urls[0]), opens(&urls[1]));
        let (one, other) = (opens(&urls[0]).await, opens(&urls[1]).await);
        assert!(one != other, "round {round}: {one}, {other}");
    }
}
