//! Answers stay in step with requests, whatever comes unasked in between.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use proptest::prelude::*;
use redis::Value;

use super::super::answer::Answer;
use super::super::decoder::{Decoder, Incoming};
use super::super::handshake::{Purpose, Role, Server};
use super::super::state::Shared;
use super::super::{Endpoint, Request, Script, WireError};
use crate::peer::{Peer, Sound, echo, listener, patient, text, tolerant, within};
use crate::time::Clock;

/// The message of a node that has just given a slot away, unasked.
const ENDED: &str = ">3\r\n$12\r\nsunsubscribe\r\n$5\r\nshard\r\n:0\r\n";
const MOVED: &str = "-MOVED 7 127.0.0.1:1\r\n";

#[tokio::test]
async fn an_unsubscribe_that_crosses_the_servers_takes_no_answer() {
    let peer = Peer::new().await;
    let (link, mut remote, mut received) = peer.link(patient()).await;
    link.subscribe(b"shard".to_vec(), true);
    assert_eq!(remote.request().await, ["SSUBSCRIBE", "shard"]);
    remote.say(">3\r\n$10\r\nssubscribe\r\n$5\r\nshard\r\n:1\r\n").await;
    received.next().await;
    link.unsubscribe(b"shard", true);
    let (x, y) = (link.send(echo("x")), link.send(echo("y")));
    assert_eq!(remote.request().await, ["SUNSUBSCRIBE", "shard"]);
    remote.say(&format!("{ENDED}{MOVED}")).await;
    assert_eq!(remote.request().await, ["ECHO", "x"]);
    assert_eq!(remote.request().await, ["ECHO", "y"]);
    remote.say(":1\r\n:2\r\n").await;
    assert_eq!(within(x).await, Ok(Value::Int(1)));
    assert_eq!(within(y).await, Ok(Value::Int(2)));
}

/// An answer that is not the word of the question belongs to another request.
#[tokio::test]
async fn a_wrong_answer_to_the_links_own_question_ends_the_connection() {
    for answer in [":1\r\n", MOVED] {
        let peer = Peer::new().await;
        let (_link, mut remote, _received) = peer.link(tolerant()).await;
        assert_eq!(remote.request().await[0], "PING");
        remote.say(answer).await;
        assert_eq!(remote.next().await, [""; 0], "{answer}");
        peer.connection().await;
    }
}

#[tokio::test]
async fn a_wrong_digest_of_a_loaded_script_ends_the_connection() {
    static ONE: Script = Script::new("return 1");
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(patient()).await;
    let asked = link.send(Request::eval(&ONE, &[], &[]));
    assert_eq!(remote.request().await[0], "EVALSHA");
    remote.say("-NOSCRIPT No matching script.\r\n").await;
    assert_eq!(remote.request().await, ["SCRIPT", "LOAD", "return 1"]);
    assert_eq!(remote.request().await[0], "EVALSHA");
    remote.say(":1\r\n").await;
    assert_eq!(remote.next().await, [""; 0]);
    assert!(matches!(within(asked).await, Err(WireError::Broken(_))));
    peer.connection().await;
}

/// Another client has removed all scripts from the server.
#[tokio::test]
async fn a_script_that_the_server_has_lost_again_is_loaded_again() {
    static TWO: Script = Script::new("return 2");
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(patient()).await;
    for _ in 0..2 {
        let asked = link.send(Request::eval(&TWO, &[], &[]));
        assert_eq!(remote.request().await[0], "EVALSHA");
        remote.say("-NOSCRIPT No matching script.\r\n").await;
        assert_eq!(remote.request().await, ["SCRIPT", "LOAD", "return 2"]);
        assert_eq!(remote.request().await[0], "EVALSHA");
        remote.repeat(TWO.digest()).await;
        remote.say(":2\r\n").await;
        assert_eq!(within(asked).await, Ok(Value::Int(2)));
    }
}

/// A server that is busy, or does not let this user ask, has answered all the same.
#[tokio::test]
async fn an_error_to_the_links_own_question_is_its_answer() {
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(tolerant()).await;
    assert_eq!(remote.request().await[0], "PING");
    let x = link.send(echo("x"));
    remote.say("-BUSY Redis is busy running a script.\r\n").await;
    assert_eq!(remote.request().await, ["ECHO", "x"]);
    remote.say(":1\r\n").await;
    assert_eq!(within(x).await, Ok(Value::Int(1)));
}

/// The server confirms or refuses the subscription and is in trouble behind it, so that it refuses
/// the question.
#[tokio::test]
async fn a_question_that_is_refused_moves_no_answer() {
    for (said, sound) in [
        (">3\r\n$9\r\nsubscribe\r\n$4\r\nmine\r\n:1\r\n", Sound::Subscribed("mine".to_owned())),
        ("-BUSY a script\r\n", Sound::Refused("mine".to_owned())),
    ] {
        let peer = Peer::new().await;
        let (link, mut remote, mut received) = peer.link(patient()).await;
        link.subscribe(b"mine".to_vec(), false);
        let (x, y) = (link.send(echo("x")), link.send(echo("y")));
        assert_eq!(remote.request().await, ["SUBSCRIBE", "mine"]);
        remote.say(&format!("{said}-MISCONF the disk is full\r\n:1\r\n:2\r\n")).await;
        assert_eq!(
            (within(x).await, within(y).await),
            (Ok(Value::Int(1)), Ok(Value::Int(2))),
            "{said:?}"
        );
        assert_eq!(received.next().await, sound);
    }
}

/// A link's shared part without a driver, and a server that obeys the protocol and nothing else.
struct Dialogue {
    shared: Shared,
    /// The bytes that were written and the server has not read.
    requests: Decoder,
    /// The bytes that the server sent and the client has not read.
    said: BytesMut,
    answers: Decoder,
    /// The subscriptions of the connection.
    here: BTreeSet<String>,
    /// The slot of the sharded channel is at this node.
    is_ours: bool,
    /// The server refused the end of a sharded subscription, or the question behind it, and the
    /// client cannot know which.
    is_unclear: bool,
    asked: Vec<(u64, Answer)>,
    next: u64,
}

/// Something that happens on one side or the other.
#[derive(Clone, Debug)]
enum Step {
    Ask { fails: bool },
    Listen { sharded: bool },
    Leave { sharded: bool },
    Write,
    Serve,
    Refuse,
    Move,
    Publish,
    Read(usize),
    Cut,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => any::<bool>().prop_map(|fails| Step::Ask { fails }),
        2 => any::<bool>().prop_map(|sharded| Step::Listen { sharded }),
        2 => any::<bool>().prop_map(|sharded| Step::Leave { sharded }),
        4 => Just(Step::Write),
        8 => Just(Step::Serve),
        2 => Just(Step::Refuse),
        2 => Just(Step::Move),
        1 => Just(Step::Publish),
        6 => (1_usize..200).prop_map(Step::Read),
        1 => Just(Step::Cut),
    ];
    prop::collection::vec(step, 1..120)
}

impl Dialogue {
    fn new() -> Self {
        let endpoint = Endpoint { host: "h".to_owned(), port: 1 };
        let shared = Shared::new(endpoint, Arc::new(patient()), listener().0, Purpose::Requests);
        let mut dialogue = Self {
            shared,
            requests: Decoder::new(false),
            said: BytesMut::new(),
            answers: Decoder::new(false),
            here: BTreeSet::new(),
            is_ours: true,
            is_unclear: false,
            asked: Vec::new(),
            next: 0,
        };
        dialogue.connect();
        dialogue
    }

    fn connect(&mut self) {
        (self.requests, self.answers) = (Decoder::new(false), Decoder::new(false));
        self.said.clear();
        self.here.clear();
        let server = Server {
            role: Role::Master,
            is_sentinel: false,
            run_id: None,
            history: None,
            forgets: None,
            resp3: true,
        };
        self.shared.up(server, None);
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Ask { fails } => {
                self.next += 1;
                let word = format!("{}{}", if *fails { "fail" } else { "good" }, self.next);
                let [answer] = self.shared.send([echo(&word)]);
                self.asked.push((self.next, answer));
            }
            Step::Listen { sharded } => self.shared.subscribe(channel(*sharded).into(), *sharded),
            Step::Leave { sharded } => {
                self.shared.unsubscribe(channel(*sharded).as_bytes(), *sharded)
            }
            Step::Write => {
                let mut state = self.shared.lock();
                let bytes = state.queue.gather(Clock::boot().now()).to_vec();
                state.queue.wrote(bytes.len());
                self.requests.feed(&bytes);
            }
            Step::Serve => self.serve(false),
            Step::Refuse => self.serve(true),
            Step::Move => self.shift(),
            Step::Publish => {
                self.said.extend_from_slice(b">3\r\n$7\r\nmessage\r\n$4\r\nmine\r\n$1\r\nx\r\n")
            }
            Step::Read(count) => {
                let part = self.said.split_to((*count).min(self.said.len()));
                self.answers.feed(&part);
                let said = std::iter::from_fn(|| self.answers.next().unwrap()).collect();
                if let Err(problem) = self.shared.receive(said) {
                    assert!(self.is_unclear, "{problem}, and the server obeys the protocol");
                    self.step(&Step::Cut);
                }
            }
            Step::Cut => {
                self.shared.lost("cut");
                self.connect();
            }
        }
    }

    /// The slot goes away, and its listeners get a message; or it comes back.
    fn shift(&mut self) {
        self.is_ours = !self.is_ours;
        if !self.is_ours && self.here.remove("shard") {
            self.push("sunsubscribe", "shard");
        }
    }

    fn push(&mut self, kind: &str, channel: &str) {
        let push =
            format!(">3\r\n${}\r\n{kind}\r\n${}\r\n{channel}\r\n:0\r\n", kind.len(), channel.len());
        self.said.extend_from_slice(push.as_bytes());
    }

    /// Does the next request, or refuses it.
    fn serve(&mut self, refuses: bool) {
        let Some(Incoming::Reply(Value::Array(parts))) = self.requests.next().unwrap() else {
            return;
        };
        let words: Vec<_> = parts.iter().map(text).collect();
        let [command, word] = words.as_slice() else { panic!("{words:?}") };
        let bulk = format!("${}\r\n{word}\r\n", word.len());
        match (command.as_str(), word.as_str()) {
            ("SSUBSCRIBE" | "SUNSUBSCRIBE", _) if !self.is_ours => {
                self.said.extend_from_slice(MOVED.as_bytes())
            }
            ("ECHO", word) if refuses => {
                self.said.extend_from_slice(format!("-BUSY {word}\r\n").as_bytes())
            }
            _ if refuses => {
                self.is_unclear |= matches!(command.as_str(), "PING" | "SUNSUBSCRIBE");
                self.said.extend_from_slice(b"-BUSY not now\r\n");
            }
            ("SSUBSCRIBE" | "SUBSCRIBE", channel) => {
                self.here.insert(channel.to_owned());
                self.push(&command.to_lowercase(), channel);
            }
            ("SUNSUBSCRIBE" | "UNSUBSCRIBE", channel) => {
                self.here.remove(channel);
                self.push(&command.to_lowercase(), channel);
            }
            ("ECHO", word) if word.starts_with("fail") => {
                self.said.extend_from_slice(format!("-MOVED {word} h:1\r\n").as_bytes());
            }
            _ => self.said.extend_from_slice(bulk.as_bytes()),
        }
    }

    /// Everything is written, served, and read; again on the next connection where the last answers
    /// end this one.
    fn finish(&mut self) {
        for _ in 0..2 {
            loop {
                self.step(&Step::Write);
                let before = self.said.len();
                self.step(&Step::Serve);
                if self.said.len() == before {
                    break;
                }
            }
            self.step(&Step::Read(usize::MAX));
        }
    }
}

/// The caller of one request has found an answer that cannot be its own, and the next answer has
/// arrived before the link has dropped the connection.
#[test]
fn a_distrusted_connection_gives_no_answer_any_more() {
    let mut dialogue = Dialogue::new();
    for step in [Step::Ask { fails: false }, Step::Write, Step::Serve] {
        dialogue.step(&step);
    }
    dialogue.shared.reset(None, "it gave an answer that is not one of the request");
    dialogue.is_unclear = true;
    dialogue.step(&Step::Read(usize::MAX));
    let (_, answer) = dialogue.asked.remove(0);
    let answer = pin!(answer).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(answer, Poll::Ready(Err(WireError::Broken(_)))), "{answer:?}");
}

fn channel(sharded: bool) -> &'static str {
    if sharded { "shard" } else { "mine" }
}

/// Whether it is the answer to the request of this number, or none.
fn is_right(number: u64, answer: &Result<Value, WireError>) -> bool {
    match answer {
        Ok(Value::BulkString(said)) => *said == format!("good{number}").into_bytes(),
        Err(WireError::Server { code, message, .. }) if code == "BUSY" => {
            ["good", "fail"].iter().any(|word| *message == format!("{word}{number}"))
        }
        Err(WireError::Server { code, message, .. }) => {
            code == "MOVED" && *message == format!("fail{number} h:1")
        }
        Err(WireError::Broken(_)) => true,
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// In any order of requests, subscriptions, refusals, unasked ends, moves, and cuts of the
    /// bytes and of the connection.
    #[test]
    fn every_answer_belongs_to_its_request_or_its_outcome_is_unknown(steps in steps()) {
        let mut dialogue = Dialogue::new();
        for step in &steps {
            dialogue.step(step);
        }
        dialogue.finish();
        for (number, answer) in std::mem::take(&mut dialogue.asked) {
            let mut cx = Context::from_waker(Waker::noop());
            let Poll::Ready(answer) = pin!(answer).poll(&mut cx) else { panic!("{number} has no answer") };
            prop_assert!(is_right(number, &answer), "{number}: {answer:?} after {steps:?}");
        }
        prop_assert!(dialogue.shared.lock().queue.is_empty());
    }
}

/// A server that does not obey the protocol, or a proxy that takes an answer out or puts one in.
#[tokio::test]
async fn a_surplus_or_missing_answer_is_found_at_the_links_next_question() {
    for said in ["$1\r\nx\r\n", "+OK\r\n", "_\r\n", ":1\r\n", "-ERR a\r\n-ERR b\r\n"] {
        let peer = Peer::new().await;
        let (link, mut remote, _received) = peer.link(patient()).await;
        link.subscribe(b"mine".to_vec(), false);
        let answer = link.send(echo("x"));
        assert_eq!(remote.request().await, ["SUBSCRIBE", "mine"]);
        remote.say(said).await;
        assert!(matches!(within(answer).await, Err(WireError::Broken(_))), "{said:?}");
    }
}
