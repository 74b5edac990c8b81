//! Three members, and what becomes of them when one fails.

use lockkeeper_live::{Control, Etcd};

fn three() -> Etcd {
    Etcd::builder().members(3).start().unwrap()
}

/// What a member reads, once it can.
fn read(member: &Control, key: &str) -> Vec<u8> {
    (0..10).find_map(|_| member.get(key).ok()).unwrap().unwrap().value
}

#[test]
fn an_isolated_leader_is_replaced_and_knows_only_what_is_old() {
    let etcd = three();
    let old = etcd.leader().unwrap();
    etcd.control().put("a", "1").unwrap();
    etcd.isolate(old).unwrap();
    let new = etcd.wait_for_other_leader(old).unwrap();
    etcd.member(new).put("a", "2").unwrap();
    assert_eq!(read(etcd.control(), "a"), b"2");
    assert_eq!(etcd.member(old).get_stale("a").unwrap().unwrap().value, b"1");
    // Neither does it say what it cannot know, nor take what nobody else has.
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
    etcd.control().put("a", "2").unwrap();
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
    etcd.member(new).put("a", "1").unwrap();
    etcd.resume(old).unwrap();
    assert_eq!(read(etcd.member(old), "a"), b"1");
}

#[test]
fn a_killed_leader_comes_back_with_what_the_others_have() {
    let mut etcd = three();
    let (old, addresses) = (etcd.leader().unwrap(), etcd.addresses());
    let pid = etcd.pid(old);
    etcd.control().put("a", "1").unwrap();
    etcd.kill(old).unwrap();
    let new = etcd.wait_for_other_leader(old).unwrap();
    assert_eq!(read(etcd.member(new), "a"), b"1");
    etcd.member(new).put("a", "2").unwrap();
    etcd.restart(old).unwrap();
    assert_eq!(read(etcd.member(old), "a"), b"2");
    assert!(etcd.addresses() == addresses && etcd.pid(old) != pid);
}

#[test]
fn without_a_majority_nothing_is_written_until_there_is_one() {
    let mut etcd = three();
    etcd.control().put("a", "1").unwrap();
    etcd.kill(1).unwrap();
    etcd.kill(2).unwrap();
    assert!(etcd.member(0).put("a", "2").is_err());
    assert_eq!(etcd.member(0).get_stale("a").unwrap().unwrap().value, b"1");
    etcd.restart(1).unwrap();
    etcd.restart(2).unwrap();
    // What was refused for lack of an answer may be done once there is a majority.
    let now = read(etcd.member(2), "a");
    assert!(now == b"1" || now == b"2", "{now:?}");
}

#[test]
fn all_are_started_again_on_what_they_had() {
    for members in [1, 3] {
        let mut etcd = Etcd::builder().members(members).start().unwrap();
        let lease = etcd.control().grant(600).unwrap();
        let revision = etcd.control().put_with_lease("a", "1", lease).unwrap();
        etcd.restart_all().unwrap();
        let entry = etcd.control().get("a").unwrap().unwrap();
        assert_eq!((entry.create_revision, entry.lease), (revision, lease));
        assert_eq!(etcd.control().leases().unwrap(), [lease]);
    }
}

#[test]
fn the_only_one_cannot_be_isolated() {
    let error = Etcd::start().unwrap().isolate(0).unwrap_err();
    assert!(error.to_string().contains("nobody to be cut off from"), "{error}");
}
