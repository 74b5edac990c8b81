//! The programs of docs/redis-simple-lock.md: the simple lock on Redis as people write it, its
//! mistakes one by one, and what is right. Each mistake ends with two holders, or with a lock that
//! nobody ever gets.

use ::redis::{Commands, Connection, RedisResult, Script, cmd, pipe};

use lockkeeper_live::locks::name;

/// Takes the lock in one step, if it is free.
fn lock(redis: &mut Connection, name: &str, owner: &str, ttl_ms: u64) -> RedisResult<bool> {
    let set = cmd("SET").arg(name).arg(owner).arg("NX").arg("PX").arg(ttl_ms).to_owned();
    Ok(set.query::<Option<String>>(redis)?.is_some())
}

/// Releases the lock if `owner` holds it.
fn release(redis: &mut Connection, name: &str, owner: &str) -> RedisResult<bool> {
    let script = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                  return redis.call('DEL', KEYS[1]) else return 0 end";
    Script::new(script).key(name).arg(owner).invoke(redis)
}

/// Begins the ttl again if `owner` holds the lock.
fn renew(redis: &mut Connection, name: &str, owner: &str, ttl_ms: u64) -> RedisResult<bool> {
    let script = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                  return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";
    Script::new(script).key(name).arg(owner).arg(ttl_ms).invoke(redis)
}

/// Releases the lock if `owner` holds it, without a script. `pause` is whatever may happen between
/// two requests: a full queue, a stopped process, a slow network.
fn release_by_watch(
    redis: &mut Connection,
    name: &str,
    owner: &str,
    pause: impl FnOnce(),
) -> RedisResult<bool> {
    cmd("WATCH").arg(name).exec(redis)?;
    let holder: Option<String> = redis.get(name)?;
    pause();
    if holder.as_deref() != Some(owner) {
        cmd("UNWATCH").exec(redis)?;
        return Ok(false);
    }
    // Nothing is deleted if the key has changed since WATCH.
    let deleted: Option<(u32,)> = pipe().atomic().del(name).query(redis)?;
    Ok(deleted.is_some())
}

/// WRONG: deletes the lock, although another client may hold it.
fn release_without_a_look(redis: &mut Connection, name: &str) -> RedisResult<()> {
    redis.del(name)
}

/// WRONG: the lock may change hands between GET and DEL.
fn release_after_a_look(
    redis: &mut Connection,
    name: &str,
    owner: &str,
    pause: impl FnOnce(),
) -> RedisResult<()> {
    let holder: Option<String> = redis.get(name)?;
    if holder.as_deref() == Some(owner) {
        pause();
        let () = redis.del(name)?;
    }
    Ok(())
}

/// WRONG: a process that ends between SETNX and EXPIRE leaves a lock without a ttl.
fn lock_in_two_steps(
    redis: &mut Connection,
    name: &str,
    owner: &str,
    ttl_s: i64,
    ends_here: bool,
) -> RedisResult<bool> {
    let taken: bool = redis.set_nx(name, owner)?;
    if ends_here {
        return Ok(taken);
    }
    if taken {
        let () = redis.expire(name, ttl_s)?;
    }
    Ok(taken)
}

/// WRONG: renews the lock, although another client may hold it.
fn renew_without_a_look(redis: &mut Connection, name: &str, ttl_ms: i64) -> RedisResult<bool> {
    redis.pexpire(name, ttl_ms)
}

/// A ttl that runs out during the test.
const SHORT: u64 = 30;
/// A ttl that outlasts the test.
const LONG: u64 = 600_000;

fn client() -> Connection {
    ::redis::Client::open(lockkeeper_live::redis().unwrap().url())
        .unwrap()
        .get_connection()
        .unwrap()
}

/// Two clients, and a lock that the first one has lost: its ttl is over, and the second one holds
/// it.
fn lost_to_another(name: &str) -> (Connection, Connection) {
    let (mut slow, mut other) = (client(), client());
    assert!(lock(&mut slow, name, "slow", SHORT).unwrap());
    goes_over(name, &mut other);
    (slow, other)
}

/// Takes the lock as soon as its ttl is over.
fn goes_over(name: &str, other: &mut Connection) {
    while !lock(other, name, "other", LONG).unwrap() {}
}

/// Whether a third client gets the lock, although the second one holds it.
fn has_two_holders(name: &str) -> bool {
    lock(&mut client(), name, "third", LONG).unwrap()
}

#[test]
fn a_release_without_a_look_lets_a_second_holder_in() {
    let name = name();
    let (mut slow, _other) = lost_to_another(&name);
    release_without_a_look(&mut slow, &name).unwrap();
    assert!(has_two_holders(&name), "the mistake is shown");
}

#[test]
fn a_release_after_a_look_lets_a_second_holder_in() {
    let (name, mut slow, mut other) = (name(), client(), client());
    assert!(lock(&mut slow, &name, "slow", SHORT).unwrap());
    release_after_a_look(&mut slow, &name, "slow", || goes_over(&name, &mut other)).unwrap();
    assert!(has_two_holders(&name), "the mistake is shown");
}

#[test]
fn an_owner_that_is_not_unique_lets_a_second_holder_in() {
    let (name, mut slow, mut other) = (name(), client(), client());
    assert!(lock(&mut slow, &name, "worker", SHORT).unwrap());
    while !lock(&mut other, &name, "worker", LONG).unwrap() {}
    assert!(release(&mut slow, &name, "worker").unwrap());
    assert!(has_two_holders(&name), "the mistake is shown");
}

#[test]
fn a_release_by_script_leaves_the_lock_to_its_holder() {
    let name = name();
    let (mut slow, mut other) = lost_to_another(&name);
    assert!(!release(&mut slow, &name, "slow").unwrap());
    assert!(!has_two_holders(&name));
    assert!(release(&mut other, &name, "other").unwrap());
}

#[test]
fn a_release_by_watch_leaves_the_lock_to_its_holder() {
    let (name, mut slow, mut other) = (name(), client(), client());
    assert!(lock(&mut slow, &name, "slow", SHORT).unwrap());
    let went_over = || goes_over(&name, &mut other);
    assert!(!release_by_watch(&mut slow, &name, "slow", went_over).unwrap());
    assert!(!has_two_holders(&name));
    assert!(release_by_watch(&mut other, &name, "other", || ()).unwrap());
    assert!(lock(&mut slow, &name, "slow", LONG).unwrap());
}

#[test]
fn a_lock_in_two_steps_may_stay_for_ever() {
    let (name, mut dead, mut other) = (name(), client(), client());
    assert!(lock_in_two_steps(&mut dead, &name, "dead", 1, true).unwrap());
    assert_eq!(other.pttl::<_, i64>(&name).unwrap(), -1, "it has no ttl");
    assert!(!lock(&mut other, &name, "other", LONG).unwrap());
    let () = other.del(&name).unwrap();
    assert!(lock_in_two_steps(&mut dead, &name, "alive", 1, false).unwrap());
    assert!(other.pttl::<_, i64>(&name).unwrap() > 0);
}

#[test]
fn a_lock_in_one_step_ends_with_its_ttl() {
    let (name, mut dead, mut other) = (name(), client(), client());
    assert!(lock(&mut dead, &name, "dead", SHORT).unwrap());
    goes_over(&name, &mut other);
}

#[test]
fn a_renewal_without_a_look_keeps_anothers_lock() {
    let name = name();
    let (mut slow, _other) = lost_to_another(&name);
    let before = slow.pttl::<_, i64>(&name).unwrap();
    assert!(
        renew_without_a_look(&mut slow, &name, 2 * LONG as i64).unwrap(),
        "it believes to hold"
    );
    assert!(slow.pttl::<_, i64>(&name).unwrap() > before);
}

#[test]
fn a_renewal_by_script_tells_who_has_lost() {
    let name = name();
    let (mut slow, mut other) = lost_to_another(&name);
    assert!(!renew(&mut slow, &name, "slow", LONG).unwrap());
    assert!(renew(&mut other, &name, "other", LONG).unwrap());
}

/// Each block of Rust on the page is in this file, letter by letter.
#[test]
fn the_programs_on_the_page_are_those_of_this_file() {
    let page = include_str!("../../../../docs/redis-simple-lock.md");
    let file = include_str!("simple_lock.rs");
    let blocks: Vec<_> =
        page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 7, "{}", blocks.len());
    for block in blocks {
        assert!(file.contains(block), "not in the file:\n{block}");
    }
}
