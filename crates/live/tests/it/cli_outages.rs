//! A user loses its access while it waits or holds.

use lockkeeper_live::Redis;

use crate::support::{Process, Store, program};

fn as_user(server: &Redis, args: &[&str]) -> Process {
    let mut command = program();
    let url = format!("redis://app@{}", server.address());
    command.args(["-S", &url]).args(args).env("LOCKKEEPER_PASSWORD", "pw");
    Process::start(&mut command)
}

/// Two runs wait, one of them with a limit. Both report why no answer comes, and a remedy. The run
/// without a limit goes on after the remedy.
fn waiter_is_informed(shut_out: &[&[&str]], restored: &[&str], pieces: &[&str]) {
    let store =
        Store::on(Redis::builder().user("app", "on >pw ~lk:* &lk:* +@all").start().unwrap());
    let mut holder = store.hold("job");
    let start = |args: &[&str]| {
        store.with_server(|server| {
            as_user(server, &[&["run", "--ttl", "10s"], args, &["job", "--", "true"]].concat())
        })
    };
    let mut patient = start(&[]);
    store.inspect_until("job", |lock| crate::support::waiters(lock) == 1);
    let mut limited = start(&["-w", "8s"]);
    store.inspect_until("job", |lock| crate::support::waiters(lock) == 2);
    store.with_server(|server| shut_out.iter().for_each(|words| server.run(words).unwrap()));
    // That a renewal has no answer may be found before the reason.
    let printed = std::iter::repeat_with(|| patient.error_line())
        .find(|printed| printed.contains("Try: "))
        .unwrap();
    for piece in pieces.iter().chain(&["lock \"job\"", "still waiting in line"]) {
        assert!(printed.contains(piece), "{piece:?} is missing: {printed}");
    }
    assert_eq!(limited.finish(), 69);
    let ended = limited.rest();
    let last = ended.lines().last().unwrap();
    for piece in pieces.iter().chain(&["not acquired within"]) {
        assert!(last.contains(piece), "{piece:?} is missing: {ended}");
    }
    store.with_server(|server| server.run(restored).unwrap());
    assert_eq!(holder.finish(), 0);
    assert_eq!(patient.finish(), 0, "{}", patient.rest());
}

#[test]
fn a_user_that_is_disabled_during_a_wait_learns_it_and_goes_on_afterwards() {
    let off: [&[&str]; 2] = [&["ACL", "SETUSER", "app", "off"], &["CLIENT", "KILL", "USER", "app"]];
    waiter_is_informed(
        &off,
        &["ACL", "SETUSER", "app", "on"],
        &["WRONGPASS", "the right password"],
    );
}

#[test]
fn a_user_whose_password_changes_during_a_wait_learns_it_and_goes_on_afterwards() {
    let changed: [&[&str]; 2] =
        [&["ACL", "SETUSER", "app", "resetpass", ">other"], &["CLIENT", "KILL", "USER", "app"]];
    waiter_is_informed(
        &changed,
        &["ACL", "SETUSER", "app", ">pw"],
        &["WRONGPASS", "the right password"],
    );
}

/// Redis 7 ends the connections of a user that loses its channels.
#[test]
fn a_user_that_loses_its_channels_during_a_wait_goes_on_afterwards() {
    let none: [&[&str]; 2] =
        [&["ACL", "SETUSER", "app", "resetchannels"], &["CLIENT", "KILL", "USER", "app"]];
    waiter_is_informed(
        &none,
        &["ACL", "SETUSER", "app", "&lk:*"],
        &["NOPERM", "PUBLISH", "which prints the rule"],
    );
}
