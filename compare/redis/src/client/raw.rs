//! The ceiling: `SET NX PX` and a script that compares and deletes.

use anyhow::Result;

use crate::blocking::Requests;
use crate::resp::{Connection, Reply, pack};

const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

pub(crate) struct Raw;

impl Requests for Raw {
    fn of(&mut self, connection: &mut Connection, name: &str) -> Result<[Vec<u8>; 2]> {
        let sha = connection.load(RELEASE)?;
        // The value is as long as the identity of rslock.
        let (key, value) = (name.as_bytes(), format!("{:020}", std::process::id()).into_bytes());
        let claim = pack(&[b"SET", key, &value, b"NX", b"PX", b"30000"]);
        Ok([claim, pack(&[b"EVALSHA", &sha, b"1", key, &value])])
    }

    fn is_granted(&self, reply: &Reply) -> bool {
        *reply == Reply::Text(b"OK".to_vec())
    }
}
