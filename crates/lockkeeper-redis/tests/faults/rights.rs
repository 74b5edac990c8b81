//! A user without a right that the scripts need.

use std::future::IntoFuture;
use std::time::Duration;

use lockkeeper::doctor::Level;
use lockkeeper::store::{Live, LiveState, SessionId, Store as _};
use lockkeeper::{Effect, ErrorKind, Keeper, RedisStore};
use lockkeeper_live::{Cluster, Redis};

use crate::sessions::detached;
use crate::support::{Claimant, LONG, TIME_LIMIT, name, until_waiting, within};

const TTL: Duration = Duration::from_secs(15);

/// The user of Redis 7 with all rights, but without channels.
const WITHOUT_CHANNELS: &str = "on >pw ~* +@all";

const WAIVED: &str = "?unsafe=rights";

async fn keeper(server: &Redis, waived: &str) -> lockkeeper::Result<Keeper> {
    let url = format!("redis://app:pw@{}{waived}", server.address());
    Keeper::builder(RedisStore::from_url(&url.parse()?)?).ttl(TTL).connect().await
}

/// Six clients wait for one lock, and no client may publish. Each release lets in one of them, in
/// their order, and never two.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_the_right_to_publish_a_release_lets_in_exactly_one() {
    let server = Redis::builder().user("app", WITHOUT_CHANNELS).start().unwrap();
    let (holder, name) = (keeper(&server, WAIVED).await.unwrap(), name());
    let guard = holder.mutex(&*name).unwrap().lock().await.unwrap();
    let (got, mut holds) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..6 {
        let (own, of, got) = (keeper(&server, WAIVED).await.unwrap(), name.clone(), got.clone());
        tokio::spawn(async move {
            let guard = own.mutex(of).unwrap().lock().into_future().await.unwrap();
            got.send((number, guard)).unwrap();
        });
        until_waiting(&holder, &name, number + 1).await;
    }
    drop(guard);
    let mut token = 0;
    for turn in 0..6 {
        let (number, guard) = within(TIME_LIMIT, holds.recv()).await.unwrap();
        assert_eq!(number, turn, "out of order");
        // Long enough to renew every wrong grant: a waiter renews every 1.7 s.
        let second = tokio::time::timeout(Duration::from_secs(2), holds.recv()).await;
        assert!(second.is_err(), "two at once: {second:?}");
        guard.check().unwrap();
        assert!(guard.token().get() > token);
        token = guard.token().get();
        drop(guard);
    }
}

/// The usual rule for a user of Redis 7 is refused when the store is opened, with the missing
/// rights and the remedy. So is each user who lacks a command of the scripts.
#[tokio::test]
async fn a_user_without_the_rights_of_the_scripts_is_refused_at_opening() {
    let server = Redis::builder().user("app", WITHOUT_CHANNELS).start().unwrap();
    let refused = async |what: &str| {
        let error = keeper(&server, "").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        let text = error.to_string();
        assert!(
            text.contains(what) && text.contains("doctor") && text.contains("unsafe=rights"),
            "{text}"
        );
    };
    refused("PUBLISH").await;
    server.run(&["ACL", "SETUSER", "app", "allchannels"]).unwrap();
    keeper(&server, "").await.unwrap();
    for command in ["zadd", "hset", "pexpireat", "del"] {
        server.run(&["ACL", "SETUSER", "app", &format!("-{command}")]).unwrap();
        refused(&command.to_uppercase()).await;
        server.run(&["ACL", "SETUSER", "app", &format!("+{command}")]).unwrap();
    }
    // The check does not cover the keys that a user may touch: they depend on the names in use.
    server.run(&["ACL", "SETUSER", "app", "resetkeys", "~lk:{team%2F*"]).unwrap();
    let keeper = keeper(&server, "").await.unwrap();
    let guard = keeper.mutex("team/lock").unwrap().lock().await.unwrap();
    guard.release().await.unwrap();
    let keys: Vec<String> = server.query(&["KEYS", "*"]).unwrap();
    assert_eq!(keys, ["lk:{team%2Flock}"], "the trial has left something");
}

/// The rule for a team that docs/operations.md has, for a user with the password `pw`.
fn rule_of_a_team() -> Vec<String> {
    let document = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md"));
    let rule = document.split("ACL SETUSER billing ").nth(1).unwrap().split("```").next().unwrap();
    rule.split_whitespace().map(|word| word.replace(">PASSWORD", ">pw")).collect()
}

/// Gives the user of the team these rights, and connects as this user.
async fn as_team(server: &Redis, rules: &[&str]) -> RedisStore {
    server.run(&[&["ACL", "SETUSER", "billing"], rules].concat()).unwrap();
    let url = format!("redis://billing:pw@{}", server.address());
    RedisStore::from_url(&url.parse().unwrap()).unwrap().connect().await.unwrap()
}

/// Two clients with the rights of a team share a detached session, and end it.
#[tokio::test]
async fn a_user_with_the_documented_rights_of_a_team_detaches_locks() {
    let server = Redis::start().unwrap();
    let rule = rule_of_a_team();
    let rule: Vec<_> = rule.iter().map(String::as_str).collect();
    let [one, other] = [as_team(&server, &rule).await, as_team(&server, &rule).await];
    let session = SessionId::random();
    one.open(&session, &detached()).await.unwrap();
    other.open(&session, &detached()).await.unwrap();
    let held = Claimant::new(&one, "billing/lock", LONG).await;
    held.granted().await;
    other.close(&session, &[]).await.unwrap();
    assert_eq!(one.open(&session, &detached()).await.unwrap_err().kind(), ErrorKind::SessionLost);
    held.release().await;
    // The session of a process needs no right but that to its locks.
    let keys = ["resetkeys", "~lk:{billing%2F*"];
    let bare = as_team(&server, &keys).await;
    let claimant = Claimant::new(&bare, "billing/lock", LONG).await;
    claimant.granted().await;
    bare.close(&claimant.claim.key.session, &[]).await.unwrap();
}

/// Without the right to the keys of sessions, an attempt to detach a lock, and the end of a
/// detached session, fail and name the right.
#[tokio::test]
async fn who_may_not_touch_the_keys_of_sessions_is_told_which_right_is_missing() {
    let server = Redis::start().unwrap();
    let rule = rule_of_a_team();
    let rule: Vec<_> = rule.iter().map(String::as_str).collect();
    let team = as_team(&server, &[&rule[..], &["resetkeys", "~lk:{billing%2F*"]].concat()).await;
    let session = SessionId::random();
    let names_the_right = |error: lockkeeper::Error| {
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.remedy().is_some_and(|remedy| remedy.contains("~lk:s:{*")), "{error}");
        error
    };
    let error = names_the_right(team.open(&session, &detached()).await.unwrap_err());
    assert_eq!(error.effect(), Effect::None, "{error}");
    let url = format!("redis://billing:pw@{}?prefix=billing/", server.address());
    let examined = lockkeeper::doctor::examine(&url.parse().unwrap(), TIME_LIMIT).await;
    let found = examined.iter().find(|found| found.check == "rights").unwrap();
    assert!(
        found.level == Level::Warn
            && found.remedy.as_ref().is_some_and(|remedy| remedy.contains("~lk:s:{*")),
        "{found:?}"
    );
    let held = Claimant::new(&team, "billing/lock", LONG).await;
    held.granted().await;
    let live = [Live { key: held.claim.key.clone(), state: LiveState::Granted }];
    let error = names_the_right(team.close(&session, &live).await.unwrap_err());
    assert_eq!(error.effect(), Effect::Unknown, "its claims are withdrawn: {error}");
    held.sees(&[]).await;
}

/// With sharded channels another right is needed: without it no client would get the message of a
/// release.
#[tokio::test]
async fn a_user_without_sharded_publish_rights_is_refused_at_opening() {
    let cluster = Cluster::builder().replicas(0).start().unwrap();
    let all = |rule: &str| {
        let words = ["ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all", rule];
        cluster.nodes().iter().try_for_each(|node| node.run(&words))
    };
    all("+@all").unwrap();
    // Before Redis 7 there are no shards.
    let has_shards = all("-spublish").is_ok();
    let url = cluster.url().replace("://", "://app:pw@");
    match Keeper::from_url(&url).unwrap().connect().await {
        Ok(_) => assert!(!has_shards, "nobody would be told"),
        Err(error) => assert!(has_shards && error.to_string().contains("SPUBLISH"), "{error}"),
    }
    all("+@all").unwrap();
    Keeper::from_url(&url).unwrap().connect().await.unwrap();
}

/// A connected client loses a right: its next connection is refused, with the reason.
#[tokio::test]
async fn a_right_that_is_taken_away_is_reported_with_the_next_connection() {
    let server = Redis::builder().user("app", "on >pw ~* &* +@all").start().unwrap();
    let (keeper, name) = (keeper(&server, "").await.unwrap(), name());
    server.run(&["ACL", "SETUSER", "app", "-hset"]).unwrap();
    server.run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
    server.run(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    let error = within(TIME_LIMIT, keeper.mutex("another").unwrap().try_lock()).await.unwrap_err();
    assert!(error.to_string().contains("HSET"), "{error}");
    server.run(&["ACL", "SETUSER", "app", "+hset"]).unwrap();
    let back = async {
        loop {
            if let Ok(Some(guard)) = keeper.mutex(&*name).unwrap().try_lock().await {
                break guard;
            }
        }
    };
    within(TIME_LIMIT, back).await.release().await.unwrap();
}

/// A server without one of the commands: a waiter is served or refused, and two clients never hold
/// at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_a_server_without_one_command_nobody_holds_beside_another() {
    let commands =
        ["PUBLISH", "ZADD", "ZREM", "HSET", "HDEL", "DEL", "PEXPIRE", "ZRANGE", "HGETALL"];
    let all: Vec<_> = commands.into_iter().map(|command| tokio::spawn(without(command))).collect();
    for one in all {
        one.await.unwrap();
    }
}

async fn without(command: &str) {
    let server = Redis::builder().user("app", "on >pw ~* &* +@all");
    let server = server.config("rename-command", &format!("{command} \"\"")).start().unwrap();
    let (keeper, name) = (keeper(&server, WAIVED).await.unwrap(), name());
    let guard = keeper.mutex(&*name).unwrap().lock().await.unwrap();
    let (got, mut holds) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..3 {
        let attempt = keeper.mutex(&*name).unwrap().lock().wait(Duration::from_secs(2));
        let got = got.clone();
        tokio::spawn(async move {
            if let Ok(guard) = attempt.into_future().await {
                drop(got.send(guard));
            }
        });
    }
    drop(got);
    drop(guard);
    let mut alive: Vec<lockkeeper::Guard> = Vec::new();
    while let Ok(Some(next)) = tokio::time::timeout(TTL, holds.recv()).await {
        alive.push(next);
        assert!(
            alive.iter().filter(|guard| guard.check().is_ok()).count() <= 1,
            "{command}: two at once"
        );
    }
}

/// A layout of a later version is refused with its number, and foreign data are refused as such.
/// Neither is taken for a free lock, and neither is changed.
#[tokio::test]
async fn an_unknown_layout_is_refused_by_its_number_and_not_changed() {
    let server = Redis::start().unwrap();
    let store = crate::support::store(server.address()).await;
    let keeper = Keeper::builder(store).connect().await.unwrap();
    let later = [&[0; 16][..], &[0x30], &[7; 83]].concat();
    for (value, says) in
        [(&later[..], "layout 3"), (&later[..30], "layout 3"), (b"something", "has not written")]
    {
        let key = "lk:{a-lock}";
        let _: redis::Value =
            redis::cmd("SET").arg(key).arg(value).query(&mut server.connect().unwrap()).unwrap();
        let errors = [
            keeper.mutex("a-lock").unwrap().try_lock().await.unwrap_err(),
            keeper
                .mutex("a-lock")
                .unwrap()
                .lock()
                .wait(Duration::from_secs(1))
                .into_future()
                .await
                .unwrap_err(),
            keeper.inspect("a-lock").await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            let text = error.to_string();
            assert!(
                text.contains(says) && text.contains("a-lock") && error.remedy().is_some(),
                "{text}"
            );
        }
        let left: Vec<u8> = server.query(&["GET", key]).unwrap();
        assert_eq!(left, value);
    }
}

/// The side key of one lock is of another kind. The renewal of this lock fails, and its holder
/// learns that; the holder's other locks are renewed.
#[tokio::test]
async fn a_line_that_cannot_be_renewed_keeps_no_other_from_being_renewed() {
    let server = Redis::start().unwrap();
    let keeper = crate::support::keeper(server.address(), TTL).await;
    let good = keeper.mutex("good").unwrap().lock().await.unwrap();
    let readers = keeper.rw_lock("bad").unwrap();
    let bad = [readers.read().await.unwrap(), readers.read().await.unwrap()];
    server.run(&["SET", "lk:{bad}:w", "of somebody else"]).unwrap();
    within(2 * TIME_LIMIT, bad[0].lost()).await;
    good.check().unwrap();
    good.release().await.unwrap();
}
