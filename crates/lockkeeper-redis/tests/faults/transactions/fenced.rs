//! The token of a lock, compared in a transaction.

use lockkeeper::fence::redis::{Answer, FencedKey};
use lockkeeper::optimistic::redis::{Changes, Transactions, Watched};
use lockkeeper::{Effect, Error, ErrorKind, Result, Sequencer};
use lockkeeper_live::redis;

use super::{Calls, less, patient, put, value};
use crate::fences::send;
use crate::support::{LONG, keeper, name, store};

/// Takes one away, as a holder.
async fn take(transactions: &Transactions, key: &str, holder: &Sequencer) -> Result<()> {
    let fenced = transactions.fenced(&FencedKey::new(key).unwrap(), holder).policy(patient());
    super::take_one(fenced, key).await.map(drop)
}

/// Looks as a holder, and changes nothing.
pub(super) async fn look(transactions: &Transactions, key: &str, holder: &Sequencer) -> Result<()> {
    let fenced = transactions.fenced(&FencedKey::new(key).unwrap(), holder).policy(patient());
    fenced.run(async |_: Watched| Ok::<_, Error>(Changes::none())).await.map(drop)
}

pub(super) fn is_refused(outcome: Result<()>, older: &Sequencer, newer: &Sequencer) {
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Lost, Effect::None), "{error}");
    assert_eq!(error.name(), Some(older.name()));
    let printed = error.to_string();
    assert!(
        printed.contains(&newer.token().to_string()) && printed.contains("Try: stop working"),
        "{printed}"
    );
}

/// An older holder is refused from the first transaction of a newer holder on, even if that
/// transaction changes nothing. The script of a fenced key and a transaction share their marks:
/// each refuses holders that the other has shut out.
#[tokio::test]
async fn transactions_and_the_script_share_the_marks_that_refuse_an_older_holder() {
    let (server, key) = (redis().unwrap(), name());
    let (keeper, fenced) = (keeper(server.address(), LONG).await, FencedKey::new(&key).unwrap());
    let (transactions, mut connection) =
        (store(server.address()).await.transactions(), server.connect().unwrap());
    let mutex = keeper.mutex(&*key).unwrap();
    let mut holders = Vec::new();
    for _ in 0..3 {
        let guard = mutex.lock().await.unwrap();
        holders.push(guard.sequencer());
        guard.release().await.unwrap();
    }
    let [first, second, third] = &holders[..] else { panic!("three") };
    put(server, &key, 7);
    take(&transactions, &key, first).await.unwrap();
    look(&transactions, &key, second).await.unwrap();
    is_refused(take(&transactions, &key, first).await, first, second);
    is_refused(look(&transactions, &key, first).await, first, second);
    assert_eq!(
        send(&mut connection, &fenced.write(first, &["SET", "100"]).unwrap()).0,
        Answer::Stale { seen: second.token() }
    );
    take(&transactions, &key, second).await.unwrap();
    assert_eq!(
        send(&mut connection, &fenced.read(third, &["GET"]).unwrap()),
        (Answer::Passed, Some("5".to_owned()))
    );
    is_refused(take(&transactions, &key, second).await, second, third);
    take(&transactions, &key, third).await.unwrap();
    assert_eq!(value(server, &key), Some(4));
}

/// The holder stops while it decides; a newer holder comes, and has only looked by then. The older
/// holder goes on: none of its changes is written, and it gets an error.
#[tokio::test]
async fn a_holder_that_is_overtaken_while_it_decides_changes_nothing() {
    let (server, key) = (redis().unwrap(), name());
    let (keeper, fenced) = (keeper(server.address(), LONG).await, FencedKey::new(&key).unwrap());
    let (transactions, calls) = (store(server.address()).await.transactions(), Calls::default());
    let guard = keeper.mutex(&*key).unwrap().lock().await.unwrap();
    let older = guard.sequencer();
    guard.release().await.unwrap();
    let guard = keeper.mutex(&*key).unwrap().lock().await.unwrap();
    let newer = guard.sequencer();
    put(server, &key, 7);
    let overtaken =
        transactions.fenced(&fenced, &older).policy(patient()).run(async |watched: Watched| {
            let changes = less(watched, key.clone()).await;
            calls.next();
            look(&transactions, &key, &newer).await?;
            changes
        });
    is_refused(overtaken.await.map(drop), &older, &newer);
    assert_eq!((value(server, &key), calls.so_far()), (Some(7), 1));
    guard.release().await.unwrap();
}

/// The holder of a read lock may look. Permits have no order that could be compared.
#[tokio::test]
async fn who_may_not_write_changes_nothing() {
    let (server, key) = (redis().unwrap(), name());
    let transactions = store(server.address()).await.transactions();
    put(server, &key, 7);
    let (reader, permit): (Sequencer, Sequencer) =
        ("lk1.s.34.stock".parse().unwrap(), "lk1.p1.35.stock".parse().unwrap());
    look(&transactions, &key, &reader).await.unwrap();
    assert_eq!(take(&transactions, &key, &reader).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(
        look(&transactions, &key, &permit).await.unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    // A client with other data under this key gets an error.
    let marks = format!("{{{key}}}:fence");
    server.run(&["HSET", &marks, "any", "yes"]).unwrap();
    let error = look(&transactions, &key, &reader).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(&marks), "{error}");
    assert_eq!(value(server, &key), Some(7));
}
