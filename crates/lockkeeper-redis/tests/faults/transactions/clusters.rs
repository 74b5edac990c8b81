//! Clusters and Sentinels: the place of the data, and its moves.

use std::time::Duration;

use lockkeeper::optimistic::redis::{Changes, Watched};
use lockkeeper::{Error, ErrorKind};
use lockkeeper_live::{Cluster, Sentinel, cluster};

use super::{Calls, less, patient, put, store, take_one, value};
use crate::support::{LONG, TIME_LIMIT, name, within};

/// Keys of one slot can be watched and changed together, on any node; keys of several slots are
/// refused with a remedy, at any point of a transaction, and nothing is changed.
#[tokio::test]
async fn in_a_cluster_a_transaction_has_one_slot_and_others_are_refused() {
    let (cluster, name) = (cluster().unwrap(), name());
    let transactions = store(&cluster.url()).await.transactions();
    let owner_of = |key: &str| cluster.owner(cluster.slot_of(key).unwrap()).unwrap();
    let mut owners = [false; 3];
    let mut elsewhere = Vec::new();
    for number in 0.. {
        let (a, b) = (format!("{{{name}:{number}}}:a"), format!("{{{name}:{number}}}:b"));
        let owner = owner_of(&a);
        owners[owner] = true;
        elsewhere.push(a.clone());
        let both = transactions.watch([&a, &b]).run(async |watched: Watched| {
            assert!(
                watched
                    .read(&["MGET", &a, &b])
                    .await?
                    .list()
                    .iter()
                    .all(lockkeeper::optimistic::redis::Reply::is_nil)
            );
            Ok::<_, Error>(Changes::none().and(&["SET", &a, "1"]).and(&["SET", &b, "2"]))
        });
        assert_eq!(within(TIME_LIMIT, both).await.unwrap().len(), 2);
        assert_eq!(
            (value(&cluster.nodes()[owner], &a), value(&cluster.nodes()[owner], &b)),
            (Some(1), Some(2))
        );
        if owners == [true; 3] {
            break;
        }
    }
    let is_refused = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(
            error.to_string().contains("slot")
                && error.to_string().contains("Try: keys with the same hash tag"),
            "{error}"
        );
    };
    let here = format!("{{{name}}}");
    is_refused(take_one(transactions.watch([&here, &elsewhere[0]]), &here).await.unwrap_err());
    for other in &elsewhere {
        // A node answers for its own keys, whatever the slot.
        if owner_of(other) != owner_of(&here) {
            let read = transactions.watch([&here]).run(async |watched: Watched| {
                watched.read(&["GET", other]).await?;
                Ok::<_, Error>(Changes::none().and(&["SET", &here, "1"]))
            });
            is_refused(within(TIME_LIMIT, read).await.unwrap_err());
        }
        let write = transactions.watch([&here]).run(async |_: Watched| {
            Ok::<_, Error>(Changes::none().and(&["SET", &here, "1"]).and(&["SET", other, "100"]))
        });
        is_refused(within(TIME_LIMIT, write).await.unwrap_err());
    }
    assert_eq!(value(&cluster.nodes()[owner_of(&here)], &here), None);
}

/// The slot goes to another node between the look and EXEC, with a key in it and without one:
/// nothing is done on the old node, and the transaction begins again on the new one. While the slot
/// is under way, the transaction waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slot_that_moves_takes_its_transactions_along() {
    let cluster = Cluster::builder().replicas(0).node_timeout(LONG).start().unwrap();
    let transactions = store(&cluster.url()).await.transactions();
    for (key, start) in [("there", Some(7)), ("not-there", None)] {
        let slot = cluster.slot_of(key).unwrap();
        let from = cluster.owner(slot).unwrap();
        let to = (from + 1) % 3;
        if let Some(start) = start {
            put(&cluster.nodes()[from], key, start);
        }
        let calls = Calls::default();
        let moved = transactions.watch([key]).policy(patient()).run(async |watched: Watched| {
            let changes = less(watched, key.to_owned()).await;
            if calls.next() == 1 {
                tokio::task::block_in_place(|| cluster.move_slot(slot, to)).unwrap();
            }
            changes
        });
        within(TIME_LIMIT, moved).await.unwrap();
        assert_eq!(value(&cluster.nodes()[to], key), Some(start.unwrap_or(0) - 1), "{key}");
        assert!(calls.so_far() >= 2, "{key}");
        // On the way back, the transaction is not done before the slot has arrived.
        cluster.begin_move(slot, to, from).unwrap();
        cluster.move_keys(slot, to, from).unwrap();
        let waiting = tokio::spawn(take_one(transactions.watch([key]).policy(patient()), key));
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!waiting.is_finished());
        tokio::task::block_in_place(|| cluster.end_move(slot, to, from)).unwrap();
        within(TIME_LIMIT, waiting).await.unwrap().unwrap();
        assert_eq!(value(&cluster.nodes()[from], key), Some(start.unwrap_or(0) - 2), "{key}");
    }
}

/// Another server becomes master between the look and EXEC, and again: each time the new master
/// does the transaction once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failover_between_the_look_and_exec_repeats_the_transaction_on_the_new_master() {
    let sentinel = Sentinel::builder().down_after(LONG).start().unwrap();
    let transactions = store(&sentinel.url()).await.transactions();
    put(&sentinel.servers()[0], "stock", 7);
    for round in 0..2 {
        let calls = Calls::default();
        crate::topologies::until_replicated(&sentinel.servers()[round], "mark");
        let taken =
            transactions.watch(["stock"]).policy(patient()).run(async |watched: Watched| {
                let changes = less(watched, "stock".to_owned()).await;
                if calls.next() == 1 {
                    tokio::task::block_in_place(|| {
                        sentinel.fail_over().unwrap();
                        // Until the old master knows, it takes writes that are lost.
                        sentinel.wait_until_settled().unwrap();
                    });
                }
                changes
            });
        within(2 * TIME_LIMIT, taken).await.unwrap();
        assert!(calls.so_far() >= 2);
        assert_eq!(
            value(&sentinel.servers()[1 - round], "stock"),
            Some(6 - i64::try_from(round).unwrap())
        );
    }
}
