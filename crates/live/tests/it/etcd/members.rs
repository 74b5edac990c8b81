//! Three members, and the effect of a failure of one.

use std::time::{Duration, Instant};

use lockkeeper_live::{Control, Etcd};

/// Their time-outs are long, so that a busy machine causes no election.
fn three() -> Etcd {
    Etcd::builder().members(3).election_timeout(Duration::from_secs(2)).start().unwrap()
}

/// Repeats a request until the member can handle it: without a leader the member cannot.
fn once<T, E: std::fmt::Debug>(ask: impl Fn() -> Result<T, E>) -> T {
    let began = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{error:?}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The value that a member reads.
fn read(member: &Control, key: &str) -> Vec<u8> {
    once(|| member.get(key)).unwrap().value
}

#[test]
fn an_isolated_leader_is_replaced_and_knows_only_what_is_old() {
    let etcd = three();
    let old = etcd.leader().unwrap();
    once(|| etcd.control().put("a", "1"));
    etcd.isolate(old).unwrap();
    let new = etcd.wait_for_other_leader(old).unwrap();
    once(|| etcd.member(new).put("a", "2"));
    assert_eq!(read(etcd.control(), "a"), b"2");
    assert_eq!(etcd.member(old).get_stale("a").unwrap().unwrap().value, b"1");
    // The member neither reports what it cannot know, nor accepts a write that no other member has.
    assert!(etcd.member(old).get("a").is_err());
    assert!(etcd.member(old).put("a", "3").is_err());
    assert_eq!(etcd.member(old).get_stale("a").unwrap().unwrap().value, b"1");
    etcd.heal(old);
    assert_eq!(read(etcd.member(old), "a"), b"2");
}

#[test]
fn an_isolated_follower_changes_no_leader() {
    let etcd = three();
    let leader = etcd.leader().unwrap();
    let follower = (leader + 1) % 3;
    etcd.isolate(follower).unwrap();
    assert!(etcd.member(follower).get("a").is_err());
    once(|| etcd.control().put("a", "2"));
    etcd.heal(follower);
    assert_eq!(read(etcd.member(follower), "a"), b"2");
    assert_eq!(etcd.leader().unwrap(), leader);
}

#[test]
fn a_paused_leader_is_replaced_and_follows_when_it_goes_on() {
    let mut etcd = three();
    let old = etcd.leader().unwrap();
    etcd.pause(old).unwrap();
    let new = etcd.wait_for_other_leader(old).unwrap();
    once(|| etcd.member(new).put("a", "1"));
    etcd.resume(old).unwrap();
    assert_eq!(read(etcd.member(old), "a"), b"1");
}

#[test]
fn a_killed_leader_comes_back_with_what_the_others_have() {
    let mut etcd = three();
    let (old, addresses) = (etcd.leader().unwrap(), etcd.addresses());
    let pid = etcd.pid(old);
    once(|| etcd.control().put("a", "1"));
    etcd.kill(old).unwrap();
    let new = etcd.wait_for_other_leader(old).unwrap();
    assert_eq!(read(etcd.member(new), "a"), b"1");
    once(|| etcd.member(new).put("a", "2"));
    etcd.restart(old).unwrap();
    assert_eq!(read(etcd.member(old), "a"), b"2");
    assert!(etcd.addresses() == addresses && etcd.pid(old) != pid);
}

#[test]
fn without_a_majority_nothing_is_written_until_there_is_one() {
    let mut etcd = three();
    once(|| etcd.control().put("a", "1"));
    etcd.kill(1).unwrap();
    etcd.kill(2).unwrap();
    assert!(etcd.member(0).put("a", "2").is_err());
    assert_eq!(etcd.member(0).get_stale("a").unwrap().unwrap().value, b"1");
    etcd.restart(1).unwrap();
    etcd.restart(2).unwrap();
    // A write that was refused without an answer may be done once there is a majority.
    let now = read(etcd.member(2), "a");
    assert!(now == b"1" || now == b"2", "{now:?}");
}

#[test]
fn all_are_started_again_on_what_they_had() {
    for mut etcd in [Etcd::start().unwrap(), three()] {
        let lease = once(|| etcd.control().grant(600));
        let revision = once(|| etcd.control().put_with_lease("a", "1", lease));
        etcd.restart_all().unwrap();
        let entry = once(|| etcd.control().get("a")).unwrap();
        assert_eq!((entry.mod_revision, entry.lease), (revision, lease));
        // One that was granted without an answer would be there too.
        assert!(once(|| etcd.control().leases()).contains(&lease));
    }
}

#[test]
fn the_only_one_cannot_be_isolated() {
    let error = Etcd::start().unwrap().isolate(0).unwrap_err();
    assert!(error.to_string().contains("nobody to be cut off from"), "{error}");
}
