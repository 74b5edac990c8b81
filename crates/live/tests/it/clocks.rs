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

fn assert_is_ahead(redis: &Redis, seconds: i64) {
    let now = || i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let before = now();
    let printed = i64::try_from(redis.time().unwrap().as_millis()).unwrap() - 1000 * seconds;
    let slack = i64::try_from(Duration::from_millis(2).as_millis()).unwrap();
    assert!(before - slack <= printed && printed <= now() + slack, "{before} {printed} {}", now());
}
