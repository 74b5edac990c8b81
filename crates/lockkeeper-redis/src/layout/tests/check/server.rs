//! A server whose clock is ours: the scripts as they are, but for where they read the time.

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use redis::{Parser, Value};

use super::faults::Admin;
use crate::LockName;
use crate::layout::scripts::SCRIPTS;
use crate::layout::{Keys, Push, pushed};
use crate::wire::Request;
use lockkeeper_core::kit::seeded::Seeded;

/// The beginning of the time, in microseconds: a day of 2096, so that no key expires by the clock
/// of the server.
const BEGIN: u64 = 4_000_000_000_000_000;

pub(super) struct Server {
    stream: TcpStream,
    parser: Parser,
    /// A user that may do everything.
    pub(super) admin: Admin,
    pub(super) user: String,
    pub(super) seed: Seeded,
    pub(super) lines: Vec<Keys>,
    /// How many of 1000 requests meet a fault.
    pub(super) faults: u16,
    pub(super) refused: u32,
    pub(super) passed: u32,
    /// Messages may have been lost since this was looked at.
    pub(super) loses_pushes: bool,
    /// From the digest of a script to that of the same with our clock.
    digests: HashMap<String, String>,
    clock: String,
    /// The channels of this run. Others may test on the same server.
    channels: Vec<String>,
    pub(super) pushes: VecDeque<(String, Push)>,
}

impl Server {
    pub(super) fn connect(
        address: &str,
        run: &str,
        channels: Vec<String>,
        seed: u64,
        names: &[LockName],
    ) -> Self {
        let stream =
            TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        stream.set_nodelay(true).unwrap();
        let clock = format!("lk-clock:{run}");
        let user = format!("check-{run}");
        let mut admin = Admin::connect(address);
        admin.command(&[
            b"ACL",
            b"SETUSER",
            user.as_bytes(),
            b"on",
            b"nopass",
            b"~*",
            b"&*",
            b"+@all",
        ]);
        let mut server = Self {
            stream,
            parser: Parser::new(),
            admin,
            user,
            seed: Seeded::new(!seed),
            lines: names.iter().map(Keys::of).collect(),
            faults: 0,
            refused: 0,
            passed: 0,
            loses_pushes: false,
            digests: HashMap::new(),
            clock,
            channels,
            pushes: VecDeque::new(),
        };
        server.command(&[b"HELLO", b"3", b"AUTH", server.user.clone().as_bytes(), b"any"]);
        for script in *SCRIPTS {
            let text = script
                .text()
                .replace("call('TIME')", &format!("call('LRANGE','{}','0','1')", server.clock));
            let Value::BulkString(digest) = server.command(&[b"SCRIPT", b"LOAD", text.as_bytes()])
            else {
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

    /// Returns the answer, perhaps after a fault. [`pushes`](Self::pushes) has the messages until
    /// then.
    pub(super) fn ask(&mut self, request: &Request) -> Value {
        match self.seed.happens(self.faults) {
            true => self.ask_with_a_fault(request),
            false => self.ask_once(request),
        }
    }

    /// The same, with whatever is refused.
    pub(super) fn ask_once(&mut self, request: &Request) -> Value {
        let packed = &request.bytes;
        let text = String::from_utf8_lossy(&packed[..80]);
        let digest = text.split("\r\n").nth(4).unwrap().to_owned();
        let ours = self.digests.get(&digest).expect("the request calls one of the scripts");
        let at = text.find(&digest).unwrap();
        let mut bytes = packed.to_vec();
        bytes[at..at + ours.len()].copy_from_slice(ours.as_bytes());
        self.stream.write_all(&bytes).unwrap();
        let answer = self.answer();
        // The messages of the script come before the answer to this question.
        self.admin.command(&[b"PING"]);
        for (channel, payload) in self.admin.published.drain(..) {
            // Others test on the same server, and try whether they may publish.
            if self.channels.contains(&channel) {
                let push = pushed(&payload).expect("scripts publish what is understood");
                self.pushes.push_back((channel, push));
            }
        }
        answer
    }

    pub(super) fn pushes(&mut self) -> impl Iterator<Item = (String, Push)> {
        std::mem::take(&mut self.pushes).into_iter()
    }

    fn command(&mut self, parts: &[&[u8]]) -> Value {
        self.stream.write_all(&Request::command(parts).bytes).unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Value {
        match self.parser.parse_value(&mut self.stream).unwrap() {
            Value::ServerError(error) if self.faults == 0 => panic!("{error:?}"),
            value => value,
        }
    }
}
