//! Sentinels choose another master.

use std::time::{Duration, Instant};

use lockkeeper_live::locks::LONG;
use lockkeeper_live::{Redis, Sentinel, sentinel};

#[test]
fn all_tests_of_a_process_share_some() {
    let start = Instant::now();
    let sentinel = sentinel().unwrap();
    eprintln!("Sentinels take {:?}", start.elapsed());
    assert_eq!(sentinel.master().unwrap(), 0);
    let master = &sentinel.servers()[0];
    master.run(&["SET", "a", "1"]).unwrap();
    assert_eq!(master.query::<u32>(&["WAIT", "1", "5000"]).unwrap(), 1);
    assert!(sentinel.url().ends_with("/lk"), "{}", sentinel.url());
}

#[test]
fn they_choose_another_when_they_are_asked_to_and_again() {
    let sentinel = Sentinel::builder().down_after(LONG).start().unwrap();
    assert_eq!(sentinel.fail_over().unwrap(), 1);
    sentinel.servers()[1].run(&["SET", "a", "1"]).unwrap();
    sentinel.wait_until_settled().unwrap();
    assert_eq!(sentinel.fail_over().unwrap(), 0);
}

#[test]
fn they_choose_another_when_the_master_is_killed() {
    let server = Redis::builder().password("a-password");
    let mut sentinel = Sentinel::builder()
        .replicas(2)
        .down_after(Duration::from_millis(500))
        .server(server)
        .start()
        .unwrap();
    sentinel.server(0).kill().unwrap();
    let start = Instant::now();
    let new = sentinel.wait_for_other_master(0).unwrap();
    eprintln!("a failover takes {:?}", start.elapsed());
    assert_ne!(new, 0);
    sentinel.server(0).restart().unwrap();
    sentinel.wait_until_settled().unwrap();
    assert_eq!(sentinel.servers()[0].info("role").unwrap(), "slave");
}
