//! Passwords, users, certificates.

use std::path::Path;
use std::process::Command;

use lockkeeper_live::{Certificates, Redis, redis_tls};

#[test]
fn a_password_is_asked_for() {
    let redis = Redis::builder().password("a-password").start().unwrap();
    redis.run(&["SET", "a", "1"]).unwrap();
    assert!(redis.url().starts_with("redis://:a-password@127.0.0.1:"));
    assert!(cli(&redis, &["GET", "a"]).contains("NOAUTH"));
    assert_eq!(cli(&redis, &["--user", "default", "--pass", "a-password", "GET", "a"]), "1");
    assert!(cli(&redis, &["--pass", "another", "GET", "a"]).contains("WRONGPASS"));
}

#[test]
fn a_user_may_what_his_rules_say() {
    let redis = Redis::builder()
        .user("u", "on >pw ~lk:* +get +set")
        .user("off", "off >pw ~* +@all")
        .start()
        .unwrap();
    let as_user = |words: &[&str]| cli(&redis, &[&["--user", "u", "--pass", "pw"], words].concat());
    assert_eq!(as_user(&["SET", "lk:a", "1"]), "OK");
    assert!(as_user(&["SET", "other", "1"]).contains("NOPERM"));
    assert!(as_user(&["DEL", "lk:a"]).contains("NOPERM"));
    assert!(cli(&redis, &["--user", "off", "--pass", "pw", "GET", "a"]).contains("WRONGPASS"));
}

#[test]
fn an_encrypted_port_is_the_only_one() {
    let redis = redis_tls().unwrap();
    assert!(redis.url().starts_with("rediss://"));
    let authority = redis.certificates().unwrap().authority();
    assert_eq!(cli(redis, &["--tls", "--cacert", path(&authority), "PING"]), "PONG");
    assert_ne!(cli(redis, &["PING"]), "PONG");
    let stranger = Certificates::new().unwrap();
    assert_ne!(cli(redis, &["--tls", "--cacert", path(&stranger.authority()), "PING"]), "PONG");
}

#[test]
fn a_client_without_a_certificate_is_turned_away() {
    let redis = Redis::builder().mutual_tls(Certificates::new().unwrap()).start().unwrap();
    let certificates = redis.certificates().unwrap();
    let (authority, client, key) =
        (certificates.authority(), certificates.client(), certificates.client_key());
    let trusting = ["--tls", "--cacert", path(&authority)];
    assert_ne!(cli(&redis, &[&trusting[..], &["PING"]].concat()), "PONG");
    let shown = ["--cert", path(&client), "--key", path(&key), "PING"];
    assert_eq!(cli(&redis, &[&trusting[..], &shown].concat()), "PONG");
}

/// The answer of the port to Redis's own client.
fn cli(redis: &Redis, words: &[&str]) -> String {
    let port = redis.port().to_string();
    let output =
        Command::new("redis-cli").args(["-h", "127.0.0.1", "-p", &port]).args(words).output();
    let output = output.expect("redis-cli is missing. Try: apt-get install redis-tools");
    let text = [output.stdout, output.stderr].concat();
    // The client warns of passwords on its command line.
    let lines = String::from_utf8(text).unwrap();
    lines.lines().filter(|line| !line.starts_with("Warning")).collect::<Vec<_>>().join(" ")
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
