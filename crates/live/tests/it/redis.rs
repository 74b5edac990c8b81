//! Redis servers: started, stopped, killed, set up.

use std::time::Instant;

use lockkeeper_live::{Redis, redis};

#[test]
fn all_tests_of_a_process_share_one() {
    assert_eq!(redis().unwrap().pid(), redis().unwrap().pid());
    redis().unwrap().run(&["SET", "a", "1"]).unwrap();
    assert_eq!(redis().unwrap().query::<u32>(&["GET", "a"]).unwrap(), 1);
    assert_eq!(redis().unwrap().info("tcp_port").unwrap(), redis().unwrap().port().to_string());
}

#[test]
fn a_malformed_request_is_an_error_with_the_answer() {
    let error = redis().unwrap().run(&["GET"]).unwrap_err();
    assert!(format!("{error:#}").contains("wrong number of arguments"), "{error:#}");
}

#[test]
fn one_that_does_not_start_shows_what_it_said() {
    let error = Redis::builder().config("maxmemory-policy", "nonsense").start().unwrap_err();
    assert!(format!("{error:#}").contains("maxmemory-policy nonsense"), "{error:#}");
}

#[test]
fn a_killed_one_forgets_unless_it_is_persistent() {
    for (builder, kept) in [(Redis::builder(), None), (Redis::builder().persistent(), Some(7))] {
        let mut redis = builder.start().unwrap();
        let (port, pid) = (redis.port(), redis.pid());
        redis.run(&["SET", "a", "7"]).unwrap();
        redis.kill().unwrap();
        assert!(redis.run(&["PING"]).is_err());
        redis.restart().unwrap();
        assert_eq!((redis.port(), redis.pid() == pid), (port, false));
        assert_eq!(redis.query::<Option<u32>>(&["GET", "a"]).unwrap(), kept);
        redis.restart_empty().unwrap();
        assert_eq!(redis.query::<Option<u32>>(&["GET", "a"]).unwrap(), None);
    }
}

#[test]
fn one_that_is_shut_down_keeps_what_it_had() {
    let mut redis = Redis::builder().config("appendonly", "yes").start().unwrap();
    redis.run(&["SET", "a", "7"]).unwrap();
    redis.shut_down().unwrap();
    redis.restart().unwrap();
    assert_eq!(redis.query::<u32>(&["GET", "a"]).unwrap(), 7);
}

#[test]
fn a_paused_one_answers_when_it_goes_on() {
    let mut redis = Redis::start().unwrap();
    let mut connection = redis.connect().unwrap();
    redis.pause().unwrap();
    connection.send_packed_command(b"INCR a\r\n").unwrap();
    assert_eq!(process_state(&redis), "T");
    redis.resume().unwrap();
    assert_eq!(connection.recv_response().unwrap(), ::redis::Value::Int(1));
    redis.pause().unwrap();
    redis.restart().unwrap();
}

#[test]
fn a_replica_has_what_its_master_has() {
    let master = Redis::start().unwrap();
    master.run(&["SET", "a", "1"]).unwrap();
    let start = Instant::now();
    let replica = Redis::builder().replica_of(&master).start().unwrap();
    eprintln!("a replica takes {:?}", start.elapsed());
    assert_eq!(replica.query::<u32>(&["GET", "a"]).unwrap(), 1);
    assert_eq!(replica.info("role").unwrap(), "slave");
    replica.run(&["REPLICAOF", "NO", "ONE"]).unwrap();
    replica.run(&["SET", "a", "2"]).unwrap();
    assert_eq!(master.query::<u32>(&["GET", "a"]).unwrap(), 1);
}

#[test]
fn many_start_at_once() {
    let starting: Vec<_> = (0..8).map(|_| std::thread::spawn(Redis::start)).collect();
    let servers: Vec<_> =
        starting.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect();
    let mut ports: Vec<_> = servers.iter().map(Redis::port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 8);
    let start = Instant::now();
    drop(Redis::start().unwrap());
    eprintln!("a server takes {:?}", start.elapsed());
}

fn process_state(redis: &Redis) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", redis.pid())).unwrap();
    status.rsplit(") ").next().unwrap()[..1].to_owned()
}
