//! Values that are no locks, in the places of locks.

use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper::store::{Admin as _, ClaimId, Evict, MAX, Store as _, Target};
use lockkeeper::{Error, ErrorKind};
use lockkeeper_live::redis;

use crate::support::{Claimant, JAVA, LONG, keeper, name, store};

/// The error names the key and the type, and the value stays.
#[tokio::test]
async fn a_value_of_another_type_is_named_and_stays() {
    let server = redis().unwrap();
    let list = |name: &str| vec!["RPUSH".to_owned(), name.to_owned(), "x".to_owned()];
    for layout in Layout::ALL {
        let (name, keeper) = (name(), keeper(server, layout).await);
        let side = format!("lkf:{{{name}}}");
        for key in [&name, &side] {
            let command = list(key);
            server.run(&command.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
            let error = match layout {
                Layout::RedissonSemaphore => {
                    keeper.semaphore(&*name, 2).unwrap().try_acquire().await.map(drop)
                }
                _ => keeper.mutex(&*name).unwrap().try_lock().await.map(drop),
            };
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{layout:?}: {error}");
            let says = format!("the key {key} holds a value of the type list");
            assert!(error.message().contains(&says), "{layout:?}: {error}");
            assert_eq!(server.query::<u32>(&["LLEN", key]).unwrap(), 1, "{layout:?}");
            server.run(&["DEL", key]).unwrap();
        }
    }
}

#[tokio::test]
async fn a_semaphore_whose_number_is_none_is_named() {
    let (server, name) = (redis().unwrap(), name());
    let keeper = keeper(server, Layout::RedissonSemaphore).await;
    server.run(&["SET", &name, "seven"]).unwrap();
    let error = keeper.semaphore(&*name, 2).unwrap().try_acquire().await.unwrap_err();
    assert!(error.message().contains("no number of permits"), "{error}");
    assert_eq!(server.query::<String>(&["GET", &name]).unwrap(), "seven");
}

/// An application may have a large hash under the name of a lock.
#[tokio::test]
async fn a_hash_of_an_application_is_no_lock() {
    let (server, name) = (redis().unwrap(), name());
    let keeper = keeper(server, Layout::Redisson).await;
    server.run(&["HSET", &name, "a", "1", "b", "2"]).unwrap();
    let error = keeper.mutex(&*name).unwrap().try_lock().await.unwrap_err();
    assert!(error.message().contains("a hash of several fields"), "{error}");
    assert!(keeper.admin().unwrap().list(&name, 10).await.unwrap().is_empty());
}

/// A person finds the layout of a lock by the keys that are there while it is held.
#[tokio::test]
async fn each_layout_is_found_by_the_types_of_its_keys() {
    let server = redis().unwrap();
    for layout in Layout::ALL {
        let (name, keeper) = (name(), keeper(server, layout).await);
        let guard = match layout {
            Layout::RedissonSemaphore => {
                keeper.semaphore(&*name, 2).unwrap().acquire().await.unwrap()
            }
            _ => keeper.mutex(&*name).unwrap().lock().await.unwrap(),
        };
        let kind = |key: &str| server.query::<String>(&["TYPE", key]).unwrap();
        let is_string = matches!(layout, Layout::Plain | Layout::RedissonSemaphore);
        assert_eq!(kind(&name), if is_string { "string" } else { "hash" }, "{layout:?}");
        let permits = kind(&format!("{{{name}}}:timeout")) == "zset";
        assert_eq!(permits, layout == Layout::RedissonSemaphore, "{layout:?}");
        let fenced = kind(&format!("redisson_lock_token:{{{name}}}")) == "string";
        assert_eq!(fenced, layout == Layout::RedissonFenced, "{layout:?}");
        if !is_string {
            let has_mode = server.query::<bool>(&["HEXISTS", &name, "mode"]).unwrap();
            assert_eq!(has_mode, layout == Layout::RedissonRw, "{layout:?}");
        }
        guard.release().await.unwrap();
    }
}

/// An owner of Redisson is `UUID:THREAD`. A removal would delete the data of the application.
#[tokio::test]
async fn a_hash_of_one_field_that_is_no_owner_is_refused_and_stays() {
    let server = redis().unwrap();
    let is_refused = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("a field that is no UUID:THREAD"), "{error}");
    };
    for layout in [Layout::Redisson, Layout::RedissonFenced, Layout::RedissonRw] {
        let (name, store) = (name(), store(server, layout).await);
        let mode = if layout == Layout::RedissonRw { &["mode", "read"][..] } else { &[] };
        let fields = [&["HSET", &name, "name", "bob"], mode].concat();
        server.run(&fields).unwrap();
        let lock = name.parse().unwrap();
        for weight in [MAX, 1] {
            let claim = Claimant::new(&store, &name, LONG).await.of(weight, MAX);
            if weight == MAX || layout == Layout::RedissonRw {
                is_refused(claim.send().await.unwrap_err());
            }
        }
        is_refused(store.line(&lock).await.unwrap_err());
        for id in [ClaimId::random().hash(), "1ed1d6d3ab5a3ae0".parse().unwrap()] {
            let broken = store.evict(&lock, &Target::Id(id), Evict::Now, "ops", "stuck").await;
            is_refused(broken.unwrap_err());
        }
        is_refused(store.request_release(&lock, "ops", "stuck").await.unwrap_err());
        assert!(store.lines(&name, None, 10).await.unwrap().is_empty());
        assert_eq!(server.query::<String>(&["HGET", &name, "name"]).unwrap(), "bob");
        assert_eq!(server.query::<usize>(&["HLEN", &name]).unwrap(), 1 + mode.len() / 2);
    }
}

#[tokio::test]
async fn an_owner_of_redisson_without_a_ttl_is_explained() {
    let server = redis().unwrap();
    for layout in [Layout::Redisson, Layout::RedissonFenced, Layout::RedissonRw] {
        let (name, keeper) = (name(), keeper(server, layout).await);
        // A transaction of Redisson has a third part.
        let owner = format!("{JAVA}:8f2c:write");
        let mode = if layout == Layout::RedissonRw { &["mode", "write"][..] } else { &[] };
        server.run(&[&["HSET", &name, &owner, "1"], mode].concat()).unwrap();
        let info = keeper.inspect(&*name).await.unwrap();
        let reason = info.holders[0].reason.clone().unwrap_or_default();
        assert!(reason.contains("no ttl") && reason.contains("break --now"), "{reason}");
        assert!(keeper.mutex(&*name).unwrap().try_lock().await.unwrap().is_none());
    }
}

/// The number of permits stays without a ttl when all are free.
#[tokio::test]
async fn the_permits_of_a_semaphore_of_lockkeeper_are_no_simple_lock() {
    let (server, name) = (redis().unwrap(), name());
    let permits = keeper(server, Layout::RedissonSemaphore).await;
    permits.semaphore(&*name, 2).unwrap().acquire().await.unwrap().release().await.unwrap();
    let plain = keeper(server, Layout::Plain).await;
    let error = plain.mutex(&*name).unwrap().try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.message().contains("the number of permits of a semaphore"), "{error}");
    assert!(plain.admin().unwrap().list(&name, 10).await.unwrap().is_empty());
    assert_eq!(server.query::<String>(&["GET", &name]).unwrap(), "2");
}
