//! The ends of lives, to the millisecond, and servers without room.

use std::time::Duration;

use lockkeeper::LockName;
use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper::store::{Interest, MAX, Renewal, Store as _, Verdict, Wake};
use lockkeeper_live::Redis;

use crate::support::{Claimant, JAVA, LONG, TIME_LIMIT, name, store, within};

/// Many times the duration of a look, and shorter than the pause between two looks.
const SOON: Duration = Duration::from_millis(500);

/// Another program takes the lock for a second.
fn takes(server: &Redis, layout: Layout, name: &str) {
    let writer = format!("{JAVA}:write");
    match layout {
        Layout::Plain => server.run(&["SET", name, "worker-7"]).unwrap(),
        Layout::RedissonRw => server.run(&["HSET", name, "mode", "write", &writer, "1"]).unwrap(),
        _ => server.run(&["HSET", name, JAVA, "1"]).unwrap(),
    }
    server.run(&["PEXPIRE", name, "1000"]).unwrap();
}

/// The key of the holder is there, and has no whole millisecond left. If the line had no holder, it
/// would be the same as the line of a free lock, and the waiter would wait for a change.
#[tokio::test]
async fn a_waiter_turned_away_in_the_last_millisecond_of_a_holder_sees_its_end() {
    for layout in [Layout::Plain, Layout::Redisson, Layout::RedissonFenced, Layout::RedissonRw] {
        let server = Redis::builder().with_standing_clock().start().unwrap();
        let (clock, name) = (server.standing_clock().unwrap(), name());
        let store = store(&server, layout).await;
        let claim = Claimant::new(&store, &name, LONG).await;
        takes(&server, layout, &name);
        clock.advance(Duration::from_secs(1)).await.unwrap();
        assert_eq!(server.query::<i64>(&["PTTL", &name]).unwrap(), 0, "{layout:?}");
        let (seen, retry_after) = match claim.send().await.unwrap() {
            Verdict::Busy { seen, retry_after, .. } => (seen, retry_after),
            other => panic!("{layout:?}: {other:?}"),
        };
        clock.advance(Duration::from_millis(1)).await.unwrap();
        let of: LockName = name.parse().unwrap();
        let woken = store.wait(Interest::Name(&of), seen, SOON);
        assert_eq!(within(TIME_LIMIT, woken).await.unwrap(), Wake::Changed, "{layout:?}");
        assert_eq!(retry_after, Some(Duration::ZERO), "{layout:?}");
        claim.granted().await;
    }
}

/// A full server refuses each command that may need memory, unless the script has begun to write.
#[tokio::test]
async fn a_full_server_renews_what_is_held_and_takes_it_back() {
    for layout in Layout::ALL {
        let server = Redis::start().unwrap();
        let store = store(&server, layout).await;
        let held = Claimant::new(&store, &name(), LONG).await;
        let claims = match layout {
            Layout::RedissonSemaphore => vec![held.of(2, 3)],
            Layout::RedissonRw => {
                vec![held, Claimant::new(&store, &name(), LONG).await.of(1, MAX)]
            }
            _ => vec![held],
        };
        for claim in &claims {
            claim.granted().await;
        }
        server.set("maxmemory", "1kb").unwrap();
        for claim in &claims {
            assert!(matches!(claim.renewed().await, Renewal::Held { .. }), "{layout:?}");
            claim.granted().await;
            claim.release().await;
        }
    }
}
