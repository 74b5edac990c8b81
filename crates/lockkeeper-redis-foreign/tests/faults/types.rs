//! Values that are no locks, in the places of locks.

use lockkeeper::ErrorKind;
use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper_live::redis;

use crate::support::{keeper, name};

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
