//! The clock of a server is moved, and no other clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockkeeper_live::Redis;

#[test]
fn a_clock_goes_forward_and_back() {
    let mut redis = Redis::builder().with_clock().start().unwrap();
    assert_is_ahead(&redis, 0);
    redis.run(&["SET", "a", "1", "PX", "30000"]).unwrap();
    redis.set_clock_offset(60).unwrap();
    assert_is_ahead(&redis, 60);
    assert_eq!(redis.query::<Option<u32>>(&["GET", "a"]).unwrap(), None);
    redis.set_clock_offset(0).unwrap();
    redis.run(&["SET", "a", "1", "PX", "30000"]).unwrap();
    redis.set_clock_offset(-3600).unwrap();
    assert_is_ahead(&redis, -3600);
    assert!(redis.query::<u64>(&["PTTL", "a"]).unwrap() > 3_600_000);
    redis.restart().unwrap();
    assert_is_ahead(&redis, -3600);
}

#[test]
fn a_server_without_a_clock_of_its_own_says_so() {
    let redis = Redis::start().unwrap();
    assert_is_ahead(&redis, 0);
    assert!(redis.set_clock_offset(1).unwrap_err().to_string().contains("without a clock"));
}

#[tokio::test]
async fn a_clock_that_stands_goes_on_when_it_is_moved_and_counts_the_requests_of_others() {
    let redis = Redis::builder().with_standing_clock().start().unwrap();
    let (clock, first) = (redis.standing_clock().unwrap(), redis.time().unwrap());
    redis.run(&["SET", "a", "1", "PX", "30000"]).unwrap();
    let requests = clock.requests().await.unwrap();
    assert_eq!(clock.requests().await.unwrap(), requests);
    assert_eq!(redis.time().unwrap(), first);
    clock.advance(Duration::from_millis(29_999)).await.unwrap();
    assert_eq!(redis.query::<Option<u32>>(&["GET", "a"]).unwrap(), Some(1));
    clock.advance(Duration::from_millis(2)).await.unwrap();
    assert_eq!(redis.query::<Option<u32>>(&["GET", "a"]).unwrap(), None);
    assert_eq!(redis.time().unwrap(), first + Duration::from_millis(30_001));
    assert!(clock.requests().await.unwrap() >= requests + 4);
    assert!(
        redis.set_clock_offset(1).is_err() && Redis::start().unwrap().standing_clock().is_err()
    );
}

fn assert_is_ahead(redis: &Redis, seconds: i64) {
    let now = || {
        i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
    };
    let before = now();
    let printed = i64::try_from(redis.time().unwrap().as_millis()).unwrap() - 1000 * seconds;
    let slack = i64::try_from(Duration::from_millis(2).as_millis()).unwrap();
    assert!(before - slack <= printed && printed <= now() + slack, "{before} {printed} {}", now());
}
