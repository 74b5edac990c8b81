//! Other clients change a watched key; or no client does.

use lockkeeper::optimistic::redis::{Changes, Reply, Watched};
use lockkeeper::{Effect, ErrorKind};
use lockkeeper_live::Proxy;
use lockkeeper_live::contract::{
    ByResp2, BySentinels, Clustered, RedisBehindTls, Servers as _, Standalone,
};
use tokio::task::JoinSet;

use super::{Calls, less, once, patient, put, shared_with, take_one, value};
use crate::support::{TIME_LIMIT, name, store, within};

/// Wherever the store is: the first look is overtaken, the second is not; all is done together, and
/// the answers are the same in both protocols.
#[tokio::test]
async fn a_transaction_is_done_as_a_whole_wherever_the_store_is() {
    for url in [
        Standalone::url(),
        ByResp2::url(),
        RedisBehindTls::url(),
        BySentinels::url(),
        Clustered::url(),
    ] {
        let (transactions, tag) = (super::store(&url).await.transactions(), name());
        let (stock, orders) = (format!("{{{tag}}}:stock"), format!("{{{tag}}}:orders"));
        let put = |value: &'static str| {
            let stock = stock.clone();
            transactions.watch([&stock]).run(move |_| {
                let changes = Changes::none().and(&["HSET", &stock, "left", value]);
                async move { Ok::<_, lockkeeper::Error>(changes) }
            })
        };
        put("7").await.unwrap();
        let calls = Calls::default();
        let sell = transactions.watch([&stock, &orders]).policy(patient()).run(
            async |watched: Watched| {
                let there = watched.read(&["HGETALL", &stock]).await?;
                if calls.next() == 1 {
                    put("5").await?;
                }
                assert_eq!(there.list()[0].text(), Some("left"));
                let left = (there.list()[1].number().unwrap() - 1).to_string();
                Ok::<_, lockkeeper::Error>(
                    Changes::none()
                        .and(&["HSET", &stock, "left", &left])
                        .and(&["RPUSH", &orders, "42"])
                        .and(&["HGETALL", &stock])
                        .and(&["GET", &format!("{{{tag}}}:none")]),
                )
            },
        );
        let replies = within(TIME_LIMIT, sell).await.unwrap();
        let bytes = |text: &str| Reply::Bytes(text.into());
        let expected = [
            Reply::Int(0),
            Reply::Int(1),
            Reply::List(vec![bytes("left"), bytes("4")]),
            Reply::Nil,
        ];
        assert_eq!((replies, calls.so_far()), (expected.to_vec(), 2), "{url}");
    }
}

/// Eight clients decrement the found value, one by one: the rest is right, so no client has
/// overwritten another.
#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_lose_no_update() {
    let (server, key) = shared_with(200);
    let transactions = store(server.address()).await.transactions();
    let mut takers = JoinSet::new();
    for _ in 0..8 {
        let (transactions, key) = (transactions.clone(), key.clone());
        takers.spawn(async move {
            for _ in 0..25 {
                take_one(transactions.watch([&key]).policy(patient()), &key).await.unwrap();
            }
        });
    }
    while let Some(ended) = within(TIME_LIMIT, takers.join_next()).await {
        ended.unwrap();
    }
    assert_eq!(value(server, &key), Some(0));
}

/// Another client is faster each time: the error says so, with the store and the keys, and nothing
/// was changed.
#[tokio::test]
async fn a_conflict_each_time_is_reported_and_changes_nothing() {
    let (server, key) = shared_with(7);
    let (transactions, calls) = (store(server.address()).await.transactions(), Calls::default());
    let beaten =
        transactions.watch([&key]).policy(patient().attempts(3)).run(async |watched: Watched| {
            let changes = less(watched, key.clone()).await;
            put(server, &key, 100 + i64::try_from(calls.next()).unwrap());
            changes
        });
    let error = beaten.await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect(), calls.so_far()),
        (ErrorKind::Conflict, Effect::None, 3)
    );
    let printed = error.to_string();
    assert!(
        printed.contains(&key)
            && printed.contains(&server.address().to_string())
            && printed.contains("Try: "),
        "{printed}"
    );
    assert_eq!(value(server, &key), Some(103));
}

/// Reading alone is a transaction too: the values were there at one time, or the transaction reads
/// again.
#[tokio::test]
async fn what_is_seen_belongs_together_also_if_nothing_is_changed() {
    let (server, key) = shared_with(1);
    let other = format!("{key}:other");
    put(server, &other, 1);
    let (transactions, calls) = (store(server.address()).await.transactions(), Calls::default());
    let seen = std::sync::Mutex::new(Vec::new());
    let looked = transactions.watch([&key, &other]).run(async |watched: Watched| {
        let first = watched.read(&["GET", &key]).await?.number();
        if calls.next() == 1 {
            server.run(&["MSET", &key, "2", &other, "2"]).unwrap();
        }
        *seen.lock().unwrap() = vec![first, watched.read(&["GET", &other]).await?.number()];
        Ok::<_, lockkeeper::Error>(Changes::none())
    });
    assert_eq!((looked.await.unwrap().len(), calls.so_far()), (0, 2));
    assert_eq!(seen.into_inner().unwrap(), [Some(2), Some(2)]);
}

/// The caller's error is returned as it is. The connection is used again, and watches nothing any
/// more: a change of its old keys is no conflict for the next transaction.
#[tokio::test]
async fn a_decision_against_it_changes_nothing_and_leaves_nothing_watched() {
    #[derive(Debug, PartialEq)]
    enum SellError {
        SoldOut,
        Store(ErrorKind),
    }
    impl From<lockkeeper::Error> for SellError {
        fn from(error: lockkeeper::Error) -> Self {
            Self::Store(error.kind())
        }
    }
    let (server, key) = shared_with(0);
    let proxy = Proxy::resp(server.address()).unwrap();
    let transactions = store(proxy.address()).await.transactions();
    for round in 0..3 {
        let sold_out = transactions.watch([&key]).run(async |watched: Watched| {
            let left = watched.read(&["GET", &key]).await?.number();
            assert_eq!(left, Some(round));
            Err(SellError::SoldOut)
        });
        assert_eq!(sold_out.await, Err(SellError::SoldOut));
        put(server, &key, 10);
        let next = format!("{key}:next");
        take_one(transactions.watch([&next]).policy(once()), &next).await.unwrap();
        put(server, &key, round + 1);
    }
    assert_eq!(proxy.seen().connections, 2, "one for the store, and one for its transactions");
    drop(transactions);
    proxy.until(|seen| seen.open == 0).await.unwrap();
}

/// Several transactions run at the same time, each on a connection of its own. The store keeps the
/// connections for later transactions, and closes them with itself.
#[tokio::test]
async fn transactions_at_the_same_time_do_not_see_what_the_others_watch() {
    let (server, key) = shared_with(7);
    let proxy = Proxy::resp(server.address()).unwrap();
    let store = store(proxy.address()).await;
    let transactions = store.transactions();
    let (other, calls) = (format!("{key}:other"), Calls::default());
    let outer = transactions.watch([&key]).policy(once()).run(async |watched: Watched| {
        calls.next();
        // A key that is changed inside is watched only inside.
        take_one(transactions.watch([&other]).policy(once()), &other).await?;
        take_one(transactions.watch([&other]).policy(once()), &other).await?;
        less(watched, key.clone()).await
    });
    outer.await.unwrap();
    assert_eq!(
        (value(server, &key), value(server, &other), calls.so_far()),
        (Some(6), Some(-2), 1)
    );
    drop(transactions);
    take_one(store.transactions().watch([&other]), &other).await.unwrap();
    assert_eq!(proxy.seen().connections, 3, "the store has kept them");
    drop(store);
    proxy.until(|seen| seen.open == 0).await.unwrap();
}
