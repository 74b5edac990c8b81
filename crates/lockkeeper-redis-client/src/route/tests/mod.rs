//! The answers of servers about each other. The live tests try the routes with real servers.

mod redirects;

use redis::Value;

use super::Route;
use super::slots::{self, Range, Redirect};
use crate::wire::{Endpoint, Request, WireError};

impl Route {
    fn send(
        &self,
        slot: u16,
        request: Request,
    ) -> impl Future<Output = Result<Value, WireError>> + Send + use<> {
        let answer = self.send_by(slot, request);
        async move { Ok(answer.await?.0) }
    }
}

fn node() -> Endpoint {
    Endpoint { host: "asked".to_owned(), port: 7000 }
}

fn moved(message: &str) -> Option<Redirect> {
    let error = WireError::server("MOVED", message);
    Redirect::parse(&error, &node())
}

fn to(slot: u16, host: &str, port: u16) -> Option<Redirect> {
    Some(Redirect { slot, to: Endpoint { host: host.to_owned(), port } })
}

#[test]
fn a_redirection_without_a_host_keeps_the_host() {
    assert_eq!(moved("3999 127.0.0.1:6381"), to(3999, "127.0.0.1", 6381));
    assert_eq!(moved("3999 2001:db8::1:6381"), to(3999, "2001:db8::1", 6381));
    assert_eq!(moved("0 node-1.example:6381"), to(0, "node-1.example", 6381));
    assert_eq!(moved("3999 :6381"), to(3999, "asked", 6381));
    assert_eq!(moved("3999 ?:6381"), to(3999, "asked", 6381));
    for nonsense in
        ["", "3999", "3999 host", "16384 host:1", "x host:1", "3999 host:x", "3999 host:99999"]
    {
        assert_eq!(moved(nonsense), None, "{nonsense:?}");
    }
}

fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

#[test]
fn a_map_is_read_as_far_as_it_makes_sense() {
    let master = |host| Value::Array(vec![host, Value::Int(7001), bulk("id")]);
    let range =
        |first, last, master| Value::Array(vec![Value::Int(first), Value::Int(last), master]);
    let answer = Value::Array(vec![
        range(0, 5, master(bulk("10.0.0.1"))),
        range(6, 9, master(Value::Nil)),
        range(10, 16_384, master(bulk("beyond"))),
        range(-1, 4, master(bulk("before"))),
        Value::Array(vec![Value::Int(1)]),
        Value::Nil,
        range(
            10,
            16_383,
            Value::Array(vec![bulk("h"), Value::Int(7001), bulk("id"), Value::Array(vec![])]),
        ),
    ]);
    let at = |first, last, host: &str| Range {
        first,
        last,
        master: Endpoint { host: host.to_owned(), port: 7001 },
    };
    let expected = [at(0, 5, "10.0.0.1"), at(6, 9, "asked"), at(10, 16_383, "h")];
    assert_eq!(slots::parse(&answer, &node()), expected);
    assert_eq!(slots::parse(&Value::Okay, &node()), []);
}
