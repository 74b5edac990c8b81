//! The server refuses one command in the middle of a script: either nothing has happened then, or
//! everything.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;

use redis::{Parser, PushKind, Value};

use super::World;
use super::server::Server;
use crate::layout::{self, scripts::commands};
use crate::store::Store;
use crate::wire::Request;

/// A connection of a user with all rights, which receives what is published.
pub(super) struct Admin {
    stream: TcpStream,
    parser: Parser,
    /// The channels and the messages that were published.
    pub(super) published: Vec<(String, Vec<u8>)>,
}

/// The fault during one request.
#[derive(Clone, Debug)]
enum Fault {
    /// The user may not run this command.
    Command(String),
    /// The user may publish nowhere.
    Channels,
    Memory,
    /// This key holds a text.
    Kind(Vec<u8>),
}

impl Admin {
    pub(super) fn connect(address: &str) -> Self {
        let stream =
            TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        stream.set_nodelay(true).unwrap();
        let mut admin = Self { stream, parser: Parser::new(), published: Vec::new() };
        admin.command(&[b"HELLO", b"3"]);
        admin.stream.write_all(&Request::command(&[b"PSUBSCRIBE", b"lk:w:*"]).bytes).unwrap();
        admin
    }

    pub(super) fn command(&mut self, parts: &[&[u8]]) -> Value {
        self.stream.write_all(&Request::command(parts).bytes).unwrap();
        loop {
            match self.parser.parse_value(&mut self.stream).unwrap() {
                Value::Push { kind: PushKind::PMessage, data } => {
                    let [_, Value::BulkString(channel), Value::BulkString(payload)] = &data[..]
                    else {
                        panic!()
                    };
                    self.published
                        .push((String::from_utf8(channel.clone()).unwrap(), payload.clone()));
                }
                Value::Push { .. } => {}
                value => return value,
            }
        }
    }
}

impl Server {
    pub(super) fn ask_with_a_fault(&mut self, request: &Request) -> Value {
        let fault = self.any_fault();
        let (before, pushes) = (self.state(), self.pushes.len());
        self.begin(&fault);
        let answer = self.ask_once(request);
        self.end(&fault);
        match &answer {
            Value::ServerError(error) => {
                assert_eq!(self.state(), before, "{fault:?} left something behind: {error:?}");
                assert_eq!(self.pushes.len(), pushes, "{fault:?}, and somebody was told");
            }
            // The server refuses each of several renewals by itself.
            Value::Array(parts)
                if parts.iter().any(|part| matches!(part, Value::ServerError(_))) => {}
            _ => {
                self.passed += 1;
                self.loses_pushes |= !matches!(fault, Fault::Memory | Fault::Kind(_));
                return answer;
            }
        }
        self.refused += 1;
        self.ask_once(request)
    }

    fn any_fault(&mut self) -> Fault {
        let mut commands = commands();
        // The scripts of the check read the time from a list.
        commands.remove("time");
        let pick = |seed: &mut lockkeeper_core::kit::seeded::Seeded, of: usize| {
            usize::try_from(seed.below(of as u64)).unwrap()
        };
        match pick(&mut self.seed, 10) {
            0 => Fault::Memory,
            1 => Fault::Channels,
            2 | 3 => {
                let line = pick(&mut self.seed, self.lines.len());
                Fault::Kind(self.lines[line].all()[1 + pick(&mut self.seed, 3)].to_vec())
            }
            _ => {
                let nth = pick(&mut self.seed, commands.len());
                Fault::Command(commands.into_iter().nth(nth).unwrap())
            }
        }
    }

    fn begin(&mut self, fault: &Fault) {
        match fault {
            Fault::Command(command) => self.rights(&format!("-{command}")),
            Fault::Channels => self.rights("resetchannels"),
            Fault::Memory => self.memory(b"1"),
            Fault::Kind(key) => {
                self.admin.command(&[b"RENAME", key, &aside(key)]);
                self.admin.command(&[b"SET", key, b"a text"]);
            }
        }
    }

    fn end(&mut self, fault: &Fault) {
        match fault {
            Fault::Command(command) => self.rights(&format!("+{command}")),
            Fault::Channels => self.rights("allchannels"),
            Fault::Memory => self.memory(b"0"),
            Fault::Kind(key) => {
                let stays =
                    self.admin.command(&[b"GET", key]) == Value::BulkString(b"a text".to_vec());
                if stays {
                    self.admin.command(&[b"DEL", key]);
                    self.admin.command(&[b"RENAME", &aside(key), key]);
                }
                self.admin.command(&[b"DEL", &aside(key)]);
            }
        }
    }

    fn rights(&mut self, rule: &str) {
        let user = self.user.clone();
        assert_eq!(
            self.admin.command(&[b"ACL", b"SETUSER", user.as_bytes(), rule.as_bytes()]),
            Value::Okay
        );
    }

    fn memory(&mut self, most: &[u8]) {
        assert_eq!(self.admin.command(&[b"CONFIG", b"SET", b"maxmemory", most]), Value::Okay);
    }

    /// The data of a line, as far as it means anything: the side keys of a line that is not in use
    /// mean nothing.
    fn state(&mut self) -> Vec<Value> {
        let mut state = Vec::new();
        for keys in self.lines.clone() {
            let [line, queue, claims, gone] = keys.all();
            let header = self.admin.command(&[b"GET", line]);
            let is_shared = matches!(&header, Value::BulkString(header) if header.len() >= 100 && header[16] % 16 == 0);
            state.push(header);
            for key in [gone, queue].into_iter().take(if is_shared { 2 } else { 1 }) {
                state.push(self.admin.command(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]));
            }
            // Their order is the server's affair.
            if let Value::Map(mut claims) = self.admin.command(&[b"HGETALL", claims])
                && is_shared
            {
                claims.sort_by_key(|claim| format!("{claim:?}"));
                state.push(Value::Map(claims));
            }
        }
        state
    }
}

impl World {
    /// A client whose message was refused learns the same by a look.
    pub(super) async fn forgive(&mut self) {
        if !std::mem::take(&mut self.server.loses_pushes) {
            return;
        }
        for line in 0..self.names.len() {
            // The memory store grants at a look, so both stores look.
            self.server.ask_once(&layout::line(&self.names[line], None));
            let there = self.memory.line(&self.names[line]).await.unwrap();
            let holders: BTreeSet<_> =
                there.entries.iter().filter(|e| e.granted).map(|e| e.id.to_string()).collect();
            for tried in self
                .tried
                .iter_mut()
                .filter(|tried| holders.contains(&tried.claim.key.id.hash().to_string()))
            {
                tried.notified = true;
            }
        }
        self.watched.values_mut().for_each(|watched| watched.notified = true);
    }
}

/// The name of a key during a fault.
fn aside(key: &[u8]) -> Vec<u8> {
    [b"aside:", key].concat()
}
