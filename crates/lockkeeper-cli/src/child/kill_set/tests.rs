//! The set of a command's processes, with real processes.

use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use rustix::process::{Signal, kill_process_group, pidfd_send_signal};

use super::*;
use crate::child::seen::has_ended;

fn sleeper() -> (Child, Pid) {
    let child = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
    let pid = Pid::from_child(&child);
    (child, pid)
}

fn groups(kill_set: &KillSet) -> HashSet<Pid> {
    kill_set.groups().collect()
}

#[test]
fn what_was_seen_once_dies_wherever_it_went() {
    let ((mut command, leader), (mut left, pid)) = (sleeper(), sleeper());
    let mut kill_set = KillSet::of(leader);
    kill_set.seen.extend(KillSet::of(pid).seen);
    assert!(kill_set.look());
    assert!(kill_set.kill());
    for child in [&mut command, &mut left] {
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
    assert!(!kill_set.kill());
}

#[test]
fn who_has_no_descriptor_is_known_by_number_and_start() {
    let ((mut command, leader), (mut left, pid)) = (sleeper(), sleeper());
    let mut kill_set = KillSet::of(leader);
    kill_set.seen.extend(KillSet::of(pid).seen);
    kill_set.seen.values_mut().for_each(|seen| seen.process = None);
    assert!(kill_set.look());
    assert!(kill_set.kill());
    for child in [&mut command, &mut left] {
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
    assert!(!kill_set.kill());
}

#[test]
fn a_group_without_members_is_nobodys() {
    let (mut command, leader) = sleeper();
    let mut kill_set = KillSet::of(leader);
    assert_eq!(groups(&kill_set), HashSet::from([leader]));
    assert!(kill_set.kill());
    command.wait().unwrap();
    assert!(!kill_set.look());
    assert!(kill_set.groups.is_empty());
}

#[test]
fn a_group_whose_leader_has_ended_keeps_its_members() {
    let script = "sleep 1000 >/dev/null & echo $!";
    let command = Command::new("sh")
        .args(["-c", script])
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut kill_set = KillSet::of(Pid::from_child(&command));
    let member = String::from_utf8(command.wait_with_output().unwrap().stdout).unwrap();
    kill_set.look_around(Duration::MAX);
    assert!(kill_set.kill());
    let is_alive = || Process::of(member.trim().parse().unwrap()).is_some_and(|it| !it.has_ended);
    while kill_set.kill() {
        kill_set.pause(Duration::from_millis(5));
    }
    assert!(!is_alive());
}

/// A command whose group has a member that lost its parent before any look. A child of that member
/// is in a session of its own.
fn with_a_member_that_nobody_has_seen() -> (Child, Pid) {
    let member = "setsid sleep 1000 >/dev/null & echo $!; exec sleep 1000 >/dev/null";
    let script = format!("(sh -c '{member}' &); exec sleep 1000 >/dev/null");
    let (command, _, mut stdout) = shell(&script);
    let job = pid_from(&mut stdout);
    (command, job)
}

#[test]
fn a_child_of_an_unseen_orphan_dies_with_the_command() {
    let (mut command, job) = with_a_member_that_nobody_has_seen();
    let mut kill_set = KillSet::of(Pid::from_child(&command));
    kill_set.look_around(Duration::MAX);
    assert!(kill_set.seen.contains_key(&job));
    kill_process_group(Pid::from_child(&command), Signal::KILL).unwrap();
    command.wait().unwrap();
    let process = open(job).unwrap().unwrap();
    kill_set.kill();
    assert!(has_ended(&process, Duration::from_secs(60)));
}

/// A shell that leads a group, with its input and output.
fn shell(script: &str) -> (Child, ChildStdin, BufReader<ChildStdout>) {
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut command = command.spawn().unwrap();
    let (stdin, stdout) = (command.stdin.take().unwrap(), command.stdout.take().unwrap());
    (command, stdin, BufReader::new(stdout))
}

fn pid_from(stdout: &mut BufReader<ChildStdout>) -> Pid {
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    Pid::from_raw(line.trim().parse().unwrap()).unwrap()
}

fn until(pid: Pid, is: impl Fn(&Process) -> bool) {
    while !is(&Process::of(pid.as_raw_nonzero().get()).unwrap()) {
        thread::yield_now();
    }
}

/// Looks once more, ends the command, and gives whether the daemon lives.
fn outlives(daemon: Pid, mut kill_set: KillSet, mut command: Child) -> bool {
    kill_set.look_around(Duration::MAX);
    assert!(kill_set.kill());
    assert_eq!(command.wait().unwrap().signal(), Some(9));
    let process = open(daemon).unwrap().unwrap();
    let lives = !has_ended(&process, Duration::from_millis(100));
    let _ = pidfd_send_signal(&process, Signal::KILL);
    lives
}

/// The starter waits until the daemon is up, and then leaves.
#[test]
fn a_daemon_seen_beside_its_starter_is_left_alone_afterwards() {
    let script = "(setsid sleep 1000 >/dev/null & echo $!; read leave); exec sleep 1000 >/dev/null";
    let (command, stdin, mut stdout) = shell(script);
    let daemon = pid_from(&mut stdout);
    until(daemon, |it| it.session == Some(daemon));
    let starter = Process::of(daemon.as_raw_nonzero().get()).unwrap().parent;
    let mut kill_set = KillSet::of(Pid::from_child(&command));
    kill_set.look_around(Duration::MAX);
    assert!(
        kill_set.seen.contains_key(&daemon),
        "while its starter lives it belongs to the command"
    );
    drop(stdin);
    until(daemon, |it| it.parent != starter);
    assert!(outlives(daemon, kill_set, command));
}

/// The starter leads the session, and starts the daemon after a look and before the next one.
#[test]
fn a_daemon_in_its_seen_starters_group_is_left_alone_afterwards() {
    let script = "setsid sh -c 'echo $$; read go; sleep 1000 >/dev/null & echo $!'; exec sleep 1000 >/dev/null";
    let (command, stdin, mut stdout) = shell(script);
    let starter = pid_from(&mut stdout);
    let mut kill_set = KillSet::of(Pid::from_child(&command));
    kill_set.look_around(Duration::MAX);
    assert!(kill_set.seen.contains_key(&starter));
    drop(stdin);
    let daemon = pid_from(&mut stdout);
    until(daemon, |it| it.parent != Some(starter));
    assert!(outlives(daemon, kill_set, command));
}

/// A kernel without `CONFIG_PROC_CHILDREN`: full looks at all processes are the only looks.
#[test]
fn where_the_kernel_lists_no_children_they_are_found_among_all_processes() {
    let (mut command, job) = with_a_member_that_nobody_has_seen();
    let mut kill_set = KillSet::of(Pid::from_child(&command));
    kill_set.lists_children = false;
    kill_set.look_around(Duration::MAX);
    assert!(kill_set.seen.contains_key(&job));
    let looked = kill_set.looked;
    kill_set.look_around(Duration::MAX);
    assert_eq!(kill_set.looked, looked, "that would cost too much");
    assert!(kill_set.kill());
    command.wait().unwrap();
}

/// The number of a group that lost its last member while no look happened.
#[test]
fn after_a_long_pause_a_group_without_known_members_counts_as_foreign() {
    let ((mut command, leader), (mut stranger, theirs)) = (sleeper(), sleeper());
    let mut kill_set = KillSet::of(leader);
    kill_set.know_group(theirs);
    kill_set.forget_strangers();
    assert_eq!(
        groups(&kill_set),
        HashSet::from([leader, theirs]),
        "between two looks it is the same group"
    );
    kill_set.trusted = now().saturating_sub(TRUSTED);
    assert!(kill_set.kill());
    assert_eq!(command.wait().unwrap().signal(), Some(9));
    assert_eq!(stranger.try_wait().unwrap(), None);
    let status = std::fs::read_to_string(format!("/proc/{}/stat", stranger.id())).unwrap();
    assert!(!status.contains(") T "), "it was stopped, and left so");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// The command keeps its number until it is reaped, and its group does too.
#[test]
fn the_group_of_an_unreaped_command_stays_its_own_after_any_pause() {
    let (mut command, leader) = sleeper();
    let mut kill_set = KillSet::of(leader);
    command.kill().unwrap();
    let process = open(leader).unwrap().unwrap();
    assert!(has_ended(&process, Duration::from_secs(60)));
    kill_set.trusted = now().saturating_sub(TRUSTED);
    kill_set.forget_strangers();
    assert_eq!(groups(&kill_set), HashSet::from([leader]));
    command.wait().unwrap();
    kill_set.forget_strangers();
    assert_eq!(groups(&kill_set), HashSet::from([leader]), "the pause was over before");
}

/// Another group may have the number of the group that the command has left.
#[test]
fn the_original_group_stays_the_commands_own_while_it_has_a_member() {
    let ((mut command, leader), (mut first, own)) = (sleeper(), sleeper());
    let mut kill_set = KillSet::of(leader);
    kill_set.know_group(own);
    kill_set.set_own(own);
    kill_set.look_around(Duration::MAX);
    assert_eq!(kill_set.own(), Some(own));
    first.kill().unwrap();
    first.wait().unwrap();
    kill_set.look_around(Duration::MAX);
    assert_eq!(kill_set.own(), None);
    assert!(kill_set.kill());
    command.wait().unwrap();
}

#[test]
fn only_what_has_the_number_of_this_start_is_the_commands() {
    let run_by = |variables: &[(&str, String)]| {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.clone()));
        Command::new("sleep").arg("1000").envs(variables).process_group(0).spawn().unwrap()
    };
    let (mut command, leader) = sleeper();
    let mut kill_set = KillSet::of(leader).marked(7);
    let mut ours = run_by(&[environment::mark(7)]);
    let mut strangers = [
        run_by(&[environment::mark(8)]),
        run_by(&[("OTHER", environment::mark(7).1)]),
        run_by(&[]),
    ];
    // True once the child executes sleep(1) with its environment.
    let is_ready = |child: &Child| {
        let name = format!("/proc/{}/comm", child.id());
        std::fs::read_to_string(name).unwrap().starts_with("sleep")
    };
    while ![&ours].into_iter().chain(&strangers).all(is_ready) {
        thread::yield_now();
    }
    assert!(kill_set.kill());
    for child in [&mut command, &mut ours] {
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
    for stranger in &mut strangers {
        assert_eq!(stranger.try_wait().unwrap(), None);
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}

/// A look saw the process as a child. No look happened since it became a daemon, or a job whose
/// parent was killed.
#[test]
fn a_process_with_a_new_session_is_killed_and_not_left_stopped() {
    let ((mut command, leader), (mut left, pid)) = (sleeper(), sleeper());
    let mut kill_set = KillSet::of(leader);
    kill_set.seen.extend(KillSet::of(pid).seen);
    kill_set.seen.get_mut(&pid).unwrap().session = Some(leader);
    assert!(kill_set.kill());
    let process = open(pid).unwrap().unwrap();
    assert!(has_ended(&process, Duration::from_secs(60)));
    for child in [&mut command, &mut left] {
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}
