//! Names behind a prefix: a keeper accepts the names that it shows.

use std::sync::{Arc, Mutex};

use lockkeeper::layer::Prefix;
use lockkeeper::{
    Break, ErrorKind, Handle, Keeper, KeeperBuilder, LockName, LostReason, MemoryStore, Result,
    Target,
};

/// All ways to set a prefix, and the full name of `n` in their sequencers.
fn keepers(store: &MemoryStore) -> [(KeeperBuilder, &'static str); 4] {
    let below = || Prefix::new(store.clone(), "p/").unwrap();
    [
        (Keeper::builder(store.clone()).prefix("p/"), "p/n"),
        (Keeper::from_url("memory:?prefix=p/").unwrap().store(store.clone()), "p/n"),
        (Keeper::builder(below()), "n"),
        (Keeper::builder(below()).prefix("q/"), "q/n"),
    ]
}

/// The name of the lock in the store, with all prefixes.
fn whole(n: usize) -> &'static str {
    if n == 3 { "p/q/n" } else { "p/n" }
}

type Names = Arc<Mutex<Vec<String>>>;

fn recording(builder: KeeperBuilder, names: &Names) -> KeeperBuilder {
    let names = Arc::clone(names);
    builder.on_event(move |event| {
        // The names in an event are quoted.
        names.lock().unwrap().extend(
            format!("{event:?}").split("name: \"").skip(1).map(|rest| rest[..2].to_owned()),
        );
    })
}

/// Locks of others, which are never shown: a lock outside the prefix, and locks that are named like
/// the prefix.
async fn others(store: &MemoryStore) -> Result<impl Sized> {
    let all = Keeper::builder(store.clone()).connect().await?;
    Ok((
        all.mutex("p/")?.lock().await?,
        all.mutex("p/q/")?.lock().await?,
        all.mutex("pn")?.lock().await?,
        all,
    ))
}

#[tokio::test]
async fn what_is_shown_can_be_given_to_the_same_keeper() {
    for n in 0..4 {
        let (store, names) = (MemoryStore::new(), Names::default());
        let outside = others(&store).await.unwrap();
        let (builder, full) = keepers(&store).into_iter().nth(n).unwrap();
        let keeper = recording(builder, &names).connect().await.unwrap();
        let guard = keeper.mutex("n").unwrap().lock().await.unwrap();
        assert_eq!((guard.name().as_str(), guard.full_name().as_str()), ("n", full));
        assert_eq!(guard.sequencer().name().as_str(), full);
        let all = Keeper::builder(store.clone()).connect().await.unwrap();
        assert!(all.inspect(whole(n)).await.unwrap().is_held());

        let admin = keeper.admin().unwrap();
        // Behind the layer alone, `p/q/` is the name `q/`, which the list may show.
        let shown = admin.list("", 10).await.unwrap();
        let info = shown.into_iter().find(|info| info.name.as_str() != "q/").unwrap();
        assert_eq!((info.name.as_str(), info.full_name().as_str()), ("n", full), "{n}");
        assert_eq!(admin.list("", 1).await.unwrap().len(), 1);
        assert!(keeper.inspect(&info.name).await.unwrap().is_held());
        assert!(keeper.inspect(guard.name()).await.unwrap().is_held());
        let mut watch = keeper.watch(&info.name).unwrap();
        assert_eq!(watch.changed().await.unwrap().name, info.name);
        let busy = keeper.mutex(&info.name).unwrap();
        assert_eq!(busy.name(), &info.name);
        assert!(busy.try_lock().await.unwrap().is_none());
        // The store refuses this attempt.
        let error = keeper.semaphore(&info.name, 2).unwrap().acquire().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.name()),
            (ErrorKind::Mismatch, Some(&info.name)),
            "{error}"
        );

        let token = Target::Token(guard.token());
        assert!(admin.break_lock(error.name().unwrap(), token, "stuck", Break::Now).await.unwrap());
        let lost = guard.release().await.unwrap_err();
        assert_eq!(lost.name(), Some(&info.name));
        assert!(matches!(lost.lost_reason(), Some(LostReason::Removed { .. })), "{lost}");
        let names = names.lock().unwrap();
        assert!(names.len() > 1 && names.iter().all(|name| name == "n\""), "{names:?}");
        drop(outside);
    }
}

#[tokio::test]
async fn several_locks_and_leaders_have_their_short_names() {
    for n in 0..4 {
        let store = MemoryStore::new();
        let keeper = keepers(&store).into_iter().nth(n).unwrap().0.connect().await.unwrap();
        let lock = keeper.multi_lock(["n", "m"]).unwrap();
        assert!(lock.names().map(LockName::as_str).eq(["m", "n"]));
        let guards = lock.lock().await.unwrap();
        assert!(guards.guards().iter().map(|guard| guard.name().as_str()).eq(["m", "n"]));
        guards.release().await.unwrap();
        let election = keeper.election("n").unwrap();
        assert_eq!(election.name().as_str(), "n");
        let leadership = election.campaign("me").await.unwrap();
        assert_eq!(leadership.guard().name().as_str(), "n");
        assert_eq!(election.leader().await.unwrap().unwrap().value, b"me");
        leadership.resign().await.unwrap();
    }
}

/// The readers of handles and sequencers know no prefix, or have another prefix.
#[tokio::test]
async fn handles_and_sequencers_have_the_full_name() {
    let store = MemoryStore::new();
    let keeper = Keeper::builder(store.clone()).prefix("p/").connect().await.unwrap();
    let all = Keeper::builder(store.clone()).connect().await.unwrap();
    let other = Keeper::builder(store.clone()).prefix("q/").connect().await.unwrap();
    let handle = keeper
        .mutex("n")
        .unwrap()
        .lock()
        .detached(std::time::Duration::from_secs(60))
        .await
        .unwrap();
    let handle = || handle.expose().parse::<Handle>().unwrap();
    assert_eq!(handle().full_name().as_str(), "p/n");
    for (keeper, name) in [(&keeper, "n"), (&all, "p/n")] {
        let guard = keeper.adopt(handle()).unwrap();
        guard.renew_once().await.unwrap();
        assert_eq!((guard.name().as_str(), guard.full_name().as_str()), (name, "p/n"));
        assert!(keeper.inspect(guard.name()).await.unwrap().is_held());
    }
    let error = other.adopt(handle()).unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::Mismatch, None));
    assert!(
        error.to_string().contains("\"p/n\"") && error.to_string().contains("\"q/\""),
        "{error}"
    );
    let sequencer = keeper.adopt(handle()).unwrap().sequencer();
    for keeper in [&keeper, &all, &other] {
        assert!(keeper.check_sequencer(&sequencer).await.unwrap());
    }
    keeper.adopt(handle()).unwrap().release().await.unwrap();
    for keeper in [&keeper, &all, &other] {
        assert!(!keeper.check_sequencer(&sequencer).await.unwrap());
    }
}

#[tokio::test]
async fn a_name_too_long_with_the_prefix_is_refused_at_once() {
    let keeper =
        Keeper::builder(MemoryStore::new()).prefix("p".repeat(100)).connect().await.unwrap();
    let error = keeper.mutex("n".repeat(156)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let name = "n".repeat(155);
    let guard = keeper.mutex(&name).unwrap().lock().await.unwrap();
    assert_eq!((guard.name().as_str(), guard.full_name().as_str().len()), (name.as_str(), 255));
    guard.release().await.unwrap();
}
