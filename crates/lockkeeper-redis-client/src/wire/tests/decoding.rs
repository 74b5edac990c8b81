//! Bytes that a server may send, and bytes that no server sends.

use proptest::prelude::*;
use redis::{PushKind, Value};

use super::super::WireError;
use super::super::decoder::{Decoder, Incoming};

fn decode(pieces: &[&[u8]]) -> Result<Vec<Incoming>, String> {
    let mut decoder = Decoder::new(false);
    let mut found = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        while let Some(incoming) = decoder.next()? {
            found.push(incoming);
        }
    }
    Ok(found)
}

const TALK: &[u8] = b"+OK\r\n:-12\r\n$-1\r\n_\r\n$4\r\na\r\nb\r\n*2\r\n*0\r\n*1\r\n,1.5\r\n%1\r\n+k\r\n#t\r\n\
    >3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\n\xff\0\r\n-MOVED 3999 127.0.0.1:6381\r\n!9\r\nERR a\r\nb!\r\n~1\r\n(12\r\n\
    |1\r\n+ttl\r\n:1\r\n+after\r\n=7\r\ntxt:abc\r\n";

#[test]
fn wherever_a_conversation_is_cut_it_says_the_same() {
    let whole = decode(&[TALK]).unwrap();
    assert_eq!(whole.len(), 13);
    assert!(
        matches!(&whole[7], Incoming::Push(PushKind::Message, data) if data[1] == Value::BulkString(vec![0xff, 0]))
    );
    assert_eq!(whole[11], Incoming::Reply(Value::SimpleString("after".to_owned())));
    for cut in 0..TALK.len() {
        let (first, second) = TALK.split_at(cut);
        assert_eq!(decode(&[first, second]).as_ref(), Ok(&whole), "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = TALK.chunks(1).collect();
    assert_eq!(decode(&bytes), Ok(whole));
}

#[test]
fn a_reply_without_an_end_is_an_error() {
    for head in ["*100000000\r\n", "$4000000000\r\n"] {
        let mut decoder = Decoder::new(false);
        decoder.limit = 10_000;
        decoder.feed(head.as_bytes());
        let mut fed = 0;
        while decoder.next() == Ok(None) {
            decoder.feed(b":1234567\r\n");
            fed += 10;
            assert!(fed <= 10_000, "it takes everything");
        }
    }
}

#[test]
fn many_small_replies_are_not_one_large_one() {
    let mut decoder = Decoder::new(false);
    decoder.limit = 10_000;
    for _ in 0..10 {
        decoder.feed(&b":1234567\r\n".repeat(5000));
        while decoder.next().unwrap().is_some() {}
    }
}

#[test]
fn lengths_that_cannot_be_are_errors_or_endless_but_no_panic() {
    for bytes in [
        "*9223372036854775807\r\n:1\r\n",
        "%9223372036854775807\r\n",
        "%-1\r\n:1\r\n",
        "|-1\r\n",
        "!-5\r\n",
        "=-1\r\nx",
        "~99999999999\r\n",
        ">-3\r\n",
        "$99999999999999999999\r\n",
        "*1\r\n*1\r\n*x\r\n",
        ">1\r\n:1\r\n",
    ] {
        // Any answer comes without a panic, and without taking all memory.
        drop(decode(&[bytes.as_bytes()]));
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        pieces in prop::collection::vec(prop_oneof![
            "[-+:$*%~>|=!#,_(][0-9-]{0,5}(\r\n)?[a-z]{0,4}(\r\n)?".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..20),
        ], 0..12)
    ) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        // The decoder gives an error, or the values until then.
        drop(decode(&pieces));
    }
}

#[test]
fn a_commands_error_inside_a_script_is_reported_unchanged() {
    let sayings = [
        // Redis 7 and Valkey.
        (
            "-READONLY You can't write. script: 0a, on @user_script:1.",
            "READONLY",
            "You can't write. script: 0a, on @user_script:1.",
        ),
        // Redis 6.2.
        (
            "-ERR Error running script (call to f_0a): @user_script:1: -READONLY You can't write. ",
            "READONLY",
            "You can't write.",
        ),
        (
            "-ERR Error running script (call to f_0a): @user_script:1: @user_script: 1: -MOVED 12 h:1",
            "MOVED",
            "12 h:1",
        ),
        ("-ERR Error running script (call to f_0a): @user_script:1: -BUSY", "BUSY", ""),
        // The error of a wrong script names no command.
        (
            "-ERR Error running script (call to f_0a): @user_script:1: attempt to index a nil value",
            "ERR",
            "Error running script (call to f_0a): @user_script:1: attempt to index a nil value",
        ),
        ("-ERR no such thing: -MOVED", "ERR", "no such thing: -MOVED"),
    ];
    for (saying, code, message) in sayings {
        let said = decode(&[saying.as_bytes(), b"\r\n"]).unwrap().remove(0);
        let Incoming::Reply(Value::ServerError(error)) = said else { panic!("{said:?}") };
        let expected = WireError::server(code, message);
        assert_eq!(WireError::from(error), expected);
    }
}
