//! A watch on one lock.

use std::time::{Duration, Instant};

use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper_live::{Redis, redis};

use crate::support::{JAVA, TIME_LIMIT, keeper, name, until_listening, within};

/// Without messages, each hold would be seen with the next look, most of a second later.
#[tokio::test]
async fn a_watch_sees_each_hold_of_lockkeeper_by_a_message() {
    const HOLDS: u32 = 8;
    let server = redis().unwrap();
    for layout in Layout::ALL {
        let (name, keeper) = (name(), keeper(server, layout).await);
        let mut watch = keeper.watch(&*name).unwrap();
        assert!(!watch.changed().await.unwrap().is_held());
        let began = Instant::now();
        for _ in 0..HOLDS {
            let next = tokio::spawn(async move {
                let changed = watch.changed().await.unwrap();
                (watch, changed)
            });
            until_listening(server, &format!("lkf:{{{name}}}:grants")).await;
            let guard = match layout {
                Layout::RedissonSemaphore => keeper.semaphore(&*name, 2).unwrap().acquire().await,
                _ => keeper.mutex(&*name).unwrap().lock().await,
            };
            let (back, changed) = within(TIME_LIMIT, next).await.unwrap();
            watch = back;
            assert!(changed.is_held(), "{layout:?}");
            guard.unwrap().release().await.unwrap();
            assert!(!within(TIME_LIMIT, watch.changed()).await.unwrap().is_held(), "{layout:?}");
        }
        let took = began.elapsed();
        assert!(took < HOLDS * Duration::from_millis(500), "{layout:?}: {took:?}");
    }
}

fn takes(server: &Redis, layout: Layout, name: &str) {
    let writer = format!("{JAVA}:write");
    match layout {
        Layout::Plain => server.run(&["SET", name, "worker-7"]).unwrap(),
        Layout::RedissonRw => server.run(&["HSET", name, "mode", "write", &writer, "1"]).unwrap(),
        Layout::RedissonSemaphore => {
            server.run(&["SET", name, "0"]).unwrap();
            let permits = format!("{{{name}}}:timeout");
            server.run(&["ZADD", &permits, "922337203685477", "0123456789abcdef"]).unwrap();
        }
        _ => server.run(&["HSET", name, JAVA, "1"]).unwrap(),
    }
}

/// Nobody publishes such a hold. A pause of 5 s missed most of them.
#[tokio::test]
async fn a_watch_sees_a_hold_of_another_program_within_a_second_or_so() {
    const HOLDS: u32 = 3;
    let server = redis().unwrap();
    for layout in Layout::ALL {
        let keeper = keeper(server, layout).await;
        let mut took = Duration::ZERO;
        for _ in 0..HOLDS {
            let name = name();
            let mut watch = keeper.watch(&*name).unwrap();
            assert!(!watch.changed().await.unwrap().is_held());
            let next = tokio::spawn(async move { watch.changed().await.unwrap() });
            until_listening(server, &format!("lkf:{{{name}}}:grants")).await;
            let began = Instant::now();
            takes(server, layout, &name);
            assert!(within(TIME_LIMIT, next).await.unwrap().is_held(), "{layout:?}");
            took += began.elapsed();
        }
        assert!(took < HOLDS * Duration::from_secs(2), "{layout:?}: {took:?}");
    }
}
