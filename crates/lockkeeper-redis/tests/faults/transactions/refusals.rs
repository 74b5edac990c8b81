//! Impossible transactions are errors with a remedy.

use lockkeeper::fence::redis::FencedKey;
use lockkeeper::optimistic::redis::{Changes, Watched};
use lockkeeper::{Effect, Error, ErrorKind};
use lockkeeper_live::Redis;

use super::{put, shared_with, take_one, value};
use crate::support::store;

/// The documented rights suffice. Without one of them the error names the needed rights, and
/// nothing is changed: above all if MULTI is refused, after which each command would be done by
/// itself.
#[tokio::test]
async fn a_user_without_one_of_the_rights_changes_nothing_and_learns_them() {
    const RIGHTS: [&str; 7] = ["~stock", "+watch", "+unwatch", "+multi", "+exec", "+get", "+set"];
    let server = Redis::builder().user("app", "on >pw +info +ping").start().unwrap();
    // A user for transactions alone.
    let url = server.url().replace("redis://", "redis://app:pw@") + "?unsafe=rights";
    let transactions = super::store(&url).await.transactions();
    for missing in RIGHTS {
        put(&server, "stock", 7);
        let rights = RIGHTS.iter().filter(|right| **right != missing);
        let rule = ["ACL", "SETUSER", "app", "reset", "on", ">pw", "+info", "+ping"];
        // Connected users keep their connection, and have other rights from now on.
        server.run(&rule.iter().chain(rights).copied().collect::<Vec<_>>()).unwrap();
        let taken = take_one(transactions.watch(["stock"]), "stock").await;
        if missing == "+unwatch" {
            taken.unwrap();
            continue;
        }
        let error = taken.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Denied, Effect::None),
            "without {missing}: {error}"
        );
        assert!(
            error.to_string().contains("Try: a user with +watch +unwatch +multi +exec"),
            "{error}"
        );
        assert_eq!(value(&server, "stock"), Some(7), "without {missing}");
    }
    let rule = ["ACL", "SETUSER", "app", "reset", "on", ">pw", "+info", "+ping"];
    server.run(&rule.iter().chain(&RIGHTS).copied().collect::<Vec<_>>()).unwrap();
    take_one(transactions.watch(["stock"]), "stock").await.unwrap();
    assert_eq!(value(&server, "stock"), Some(6));
}

/// A command that the server does not queue aborts the whole transaction. A command that fails only
/// at EXEC does not stop the others; the error says that too.
#[tokio::test]
async fn a_refused_command_is_reported_with_the_commands_that_were_done() {
    let (server, key) = shared_with(7);
    let transactions = store(server.address()).await.transactions();
    let run = |bad: &'static [&'static str]| {
        let key = key.clone();
        transactions.watch([&key]).run(move |_: Watched| {
            let bad: Vec<_> = bad.iter().map(|part| part.replace("KEY", &key)).collect();
            let changes = Changes::none().and(&["SET", &key, "1"]).and(&bad);
            async move { Ok::<_, Error>(changes) }
        })
    };
    for bad in
        [&["NO-SUCH-COMMAND", "KEY"][..], &["SET", "KEY"], &["SELECT", "1"], &["EXEC"], &[""], &[]]
    {
        let error = run(bad).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Invalid, Effect::None),
            "{bad:?}: {error}"
        );
        assert!(error.remedy().is_some() && error.to_string().contains(&key), "{error}");
        assert_eq!(value(server, &key), Some(7), "{bad:?}");
    }
    let error = run(&["RPUSH", "KEY", "x"]).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Invalid, Effect::Unknown), "{error}");
    assert!(
        error
            .to_string()
            .contains("command 2 failed while the others were done: the server says WRONGTYPE"),
        "{error}"
    );
    assert_eq!(value(server, &key), Some(1));
}

/// The caller decides about a wrong read, and a handle kept after its transaction reads nothing any
/// more.
#[tokio::test]
async fn what_cannot_be_read_is_reported_to_who_reads() {
    let (server, key) = shared_with(7);
    let transactions = store(server.address()).await.transactions();
    let kept = std::sync::Mutex::new(None);
    let taken = transactions.watch([&key]).run(async |watched: Watched| {
        for (bad, word) in [
            (["LLEN", &*key], "WRONGTYPE"),
            (["NO-SUCH-COMMAND", &*key], "unknown command"),
            (["MULTI", ""], "MULTI"),
        ] {
            let error = watched.read(&bad).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains(word) && error.remedy().is_some(), "{error}");
        }
        *kept.lock().unwrap() = Some(watched.clone());
        super::less(watched, key.clone()).await
    });
    taken.await.unwrap();
    let kept = kept.into_inner().unwrap().unwrap();
    let error = kept.read(&["GET", &key]).await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Invalid && error.to_string().contains("the transaction is over"),
        "{error}"
    );
    assert_eq!(value(server, &key), Some(6));
}

/// Such a transaction would compare nothing.
#[tokio::test]
async fn a_transaction_that_watches_nothing_is_refused() {
    let (server, key) = shared_with(7);
    let transactions = store(server.address()).await.transactions();
    let error = take_one(transactions.watch([] as [&str; 0]), &key).await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Invalid && error.to_string().contains("Try: watch()"),
        "{error}"
    );
    assert_eq!(value(server, &key), Some(7));
}

/// The older one of two holders would lower the marks that the newer one has raised, and pass from
/// then on.
#[tokio::test]
async fn a_transaction_that_is_fenced_twice_by_one_key_is_refused() {
    let (server, key) = shared_with(7);
    let transactions = store(server.address()).await.transactions();
    let (older, newer) = ("lk1.x.34.l".parse().unwrap(), "lk1.x.35.l".parse().unwrap());
    for other in [key.clone(), format!("{{{key}}}")] {
        let [one, other] = [&*key, &*other].map(|key| FencedKey::new(key).unwrap());
        let error = take_one(transactions.fenced(&one, &newer).fenced(&other, &older), &key)
            .await
            .unwrap_err();
        assert!(
            error.kind() == ErrorKind::Invalid && error.to_string().contains("Try: one fenced()"),
            "{error}"
        );
    }
    assert_eq!(value(server, &key), Some(7));
}
