//! Each client in Rust locks and releases by an order of the runner. The test starts servers.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};

use compare_common::clock::{SECOND, nanos};
use compare_common::order::{Go, Order};
use compare_common::runner::ending_with_us;
use compare_common::trace;
use tempfile::TempDir;

const ON_ONE_SERVER: [&str; 12] = [
    "raw",
    "scripts",
    "scripts-plain",
    "scripts-redisson",
    "lockkeeper",
    "lockkeeper-mt",
    "lockkeeper-read",
    "lockkeeper-plain",
    "lockkeeper-redisson",
    "lockkeeper-redisson-fenced",
    "lockkeeper-redisson-read",
    "rslock",
];
const ON_A_MAJORITY: [&str; 2] = ["lockkeeper-redlock", "rslock-redlock"];

/// A program that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server(dir: &TempDir) -> (Ends, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let child = ending_with_us("redis-server".as_ref(), None)
        .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut server = Ends(child);
    let output = BufReader::new(server.0.stdout.take().unwrap());
    let is_ready = |line: String| line.contains("Ready to accept connections");
    let mut lines = output.lines().map_while(Result::ok);
    assert!(lines.any(is_ready), "redis-server ended");
    // The server goes on to write its log.
    std::thread::spawn(move || lines.for_each(drop));
    (server, format!("127.0.0.1:{port}"))
}

fn answer(output: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// Lets the client lock and release for a moment; returns how often it did.
fn pairs(kind: &str, url: &str, dir: &TempDir) -> usize {
    let mut client = Command::new(env!("CARGO_BIN_EXE_compare-redis-client"));
    client.args([kind, url]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = Ends(client.spawn().unwrap());
    let mut orders = client.0.stdin.take().unwrap();
    let mut output = BufReader::new(client.0.stdout.take().unwrap());
    assert_eq!(answer(&mut output), "ready", "{kind}");
    let trace = dir.path().join(kind);
    let go = Go {
        lock: format!("smoke-{kind}"),
        own: true,
        clients: 1,
        tasks: 1,
        awaited: true,
        hold: 0,
        every: 0,
        most: 0,
        end: nanos() + SECOND / 5,
        limit: 3 * SECOND,
        trace: trace.display().to_string(),
    };
    writeln!(orders, "{}", Order::Go(go)).unwrap();
    assert_eq!(answer(&mut output), "done", "{kind}");
    trace::read(&trace).unwrap().iter().filter(|cycle| cycle.granted > 0).count()
}

#[test]
fn each_client_locks_and_releases() {
    let dir = TempDir::new().unwrap();
    let servers: Vec<_> = (0..3).map(|_| server(&dir)).collect();
    let addresses: Vec<_> = servers.iter().map(|(_, address)| address.as_str()).collect();
    let (one, all) = (format!("redis://{}", addresses[0]), addresses.join(","));
    for kind in ON_ONE_SERVER {
        assert!(pairs(kind, &one, &dir) > 1, "{kind} did nothing");
    }
    for kind in ON_A_MAJORITY {
        assert!(pairs(kind, &format!("redlock://{all}"), &dir) > 1, "{kind} did nothing");
    }
}
