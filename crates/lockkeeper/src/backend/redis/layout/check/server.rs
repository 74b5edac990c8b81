//! A server whose clock is ours: the scripts as they are, but for where they read the time.

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use redis::{Parser, PushKind, Value};

use super::super::scripts::SCRIPTS;
use super::super::{Push, pushed};
use crate::backend::redis::wire::Request;

/// Where the time begins, in microseconds: some day of 2096, so that nothing that is to expire has expired for the server.
const BEGIN: u64 = 4_000_000_000_000_000;

pub(super) struct Server {
    stream: TcpStream,
    parser: Parser,
    /// From the digest of a script to that of the same with our clock.
    digests: HashMap<String, String>,
    clock: String,
    /// Those of this run: others may test on the same server.
    channels: Vec<String>,
    heard: VecDeque<(String, Push)>,
}

impl Server {
    pub(super) fn connect(address: &str, run: &str, channels: Vec<String>) -> Self {
        let stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        stream.set_nodelay(true).unwrap();
        let clock = format!("lk-clock:{run}");
        let mut server =
            Self { stream, parser: Parser::new(), digests: HashMap::new(), clock, channels, heard: VecDeque::new() };
        server.command(&[b"HELLO", b"3"]);
        server.command(&[b"PSUBSCRIBE", b"lk:w:*"]);
        for script in SCRIPTS {
            let text = script.text().replace("call('TIME')", &format!("call('LRANGE','{}','0','1')", server.clock));
            let Value::BulkString(digest) = server.command(&[b"SCRIPT", b"LOAD", text.as_bytes()]) else {
                panic!("SCRIPT LOAD")
            };
            server.digests.insert(script.digest().to_owned(), String::from_utf8(digest).unwrap());
        }
        server
    }

    pub(super) fn set_clock(&mut self, since: Duration) {
        let half = Duration::from_nanos(500);
        let now = Duration::from_micros(BEGIN) + since + half;
        let (seconds, micros) = (now.as_secs().to_string(), now.subsec_micros().to_string());
        let clock = self.clock.clone();
        self.command(&[b"DEL", clock.as_bytes()]);
        self.command(&[b"RPUSH", clock.as_bytes(), seconds.as_bytes(), micros.as_bytes()]);
    }

    /// The answer; what was pushed until then is [heard](Self::heard).
    pub(super) fn ask(&mut self, request: &Request) -> Value {
        let packed = request.packed();
        let text = String::from_utf8_lossy(&packed[..80]);
        let digest = text.split("\r\n").nth(4).unwrap().to_owned();
        let ours = self.digests.get(&digest).expect("the request calls one of the scripts");
        let at = text.find(&digest).unwrap();
        let mut bytes = packed.to_vec();
        bytes[at..at + ours.len()].copy_from_slice(ours.as_bytes());
        // What a script publishes to its own caller may come behind its answer.
        bytes.extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
        self.stream.write_all(&bytes).unwrap();
        let answer = self.answer();
        assert_eq!(self.answer(), Value::SimpleString("PONG".into()));
        answer
    }

    pub(super) fn heard(&mut self) -> impl Iterator<Item = (String, Push)> {
        std::mem::take(&mut self.heard).into_iter()
    }

    fn command(&mut self, parts: &[&[u8]]) -> Value {
        self.stream.write_all(Request::command(parts).packed()).unwrap();
        if parts[0] == b"PSUBSCRIBE" { Value::Nil } else { self.answer() }
    }

    fn answer(&mut self) -> Value {
        loop {
            match self.parser.parse_value(&mut self.stream).unwrap() {
                Value::Push { kind: PushKind::PMessage, data } => {
                    let [_, Value::BulkString(channel), Value::BulkString(payload)] = &data[..] else { panic!() };
                    let push = pushed(payload).expect("scripts publish what is understood");
                    let channel = String::from_utf8(channel.clone()).unwrap();
                    if self.channels.contains(&channel) {
                        self.heard.push_back((channel, push));
                    }
                }
                Value::Push { .. } => {}
                Value::ServerError(error) => panic!("{error:?}"),
                value => return value,
            }
        }
    }
}
