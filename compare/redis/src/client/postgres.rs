//! Advisory locks of PostgreSQL, as an example of a server that queues. A blocking socket and
//! prepared statements.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, bail, ensure};

use crate::blocking::Pair;

pub(crate) struct Postgres {
    reader: BufReader<TcpStream>,
    lock: Vec<u8>,
    unlock: Vec<u8>,
}

impl Postgres {
    /// Connects to `postgres://USER@HOST:PORT`, a server without a password.
    pub(crate) fn connect(url: &str) -> Result<Self> {
        let (user, address) = url
            .strip_prefix("postgres://")
            .and_then(|rest| rest.split_once('@'))
            .context("the URL has to be postgres://USER@HOST:PORT")?;
        let socket =
            TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        socket.set_nodelay(true)?;
        let mut client =
            Self { reader: BufReader::new(socket), lock: Vec::new(), unlock: Vec::new() };
        let version = 196_608_u32.to_be_bytes();
        let words = format!("user\0{user}\0database\0postgres\0\0");
        client.send(&framed(None, &[&version[..], words.as_bytes()].concat()))?;
        client.settled()?;
        for (name, function) in [("l", "pg_advisory_lock"), ("u", "pg_advisory_unlock")] {
            let parse =
                framed(Some(b'P'), format!("{name}\0SELECT {function}($1::int8)\0\0\0").as_bytes());
            client.send(&[parse, framed(Some(b'S'), b"")].concat())?;
            client.settled()?;
        }
        Ok(client)
    }

    fn send(&self, bytes: &[u8]) -> Result<()> {
        Ok(self.reader.get_ref().write_all(bytes)?)
    }

    /// Reads until the server is ready for the next request.
    fn settled(&mut self) -> Result<()> {
        loop {
            let mut head = [0; 5];
            self.reader.read_exact(&mut head)?;
            let [kind, length @ ..] = head;
            let mut body = vec![0; (u32::from_be_bytes(length) as usize).saturating_sub(4)];
            self.reader.read_exact(&mut body)?;
            match kind {
                b'Z' => return Ok(()),
                b'E' => {
                    bail!("the server said {}", String::from_utf8_lossy(&body).replace('\0', " "))
                }
                b'R' => ensure!(body == [0; 4], "the server asks for a password"),
                _ => {}
            }
        }
    }
}

/// A message with its length; the first message of a connection has no kind.
fn framed(kind: Option<u8>, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX).to_be_bytes();
    kind.into_iter().chain(length).chain(body.iter().copied()).collect()
}

/// Bind, Execute, Sync.
fn call(statement: &str, key: i64) -> Vec<u8> {
    let key = key.to_be_bytes();
    // No portal's name; one format (binary); one value of eight bytes; answers as text.
    let bind = [&[0], statement.as_bytes(), &[0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 8], &key[..], &[0, 0]]
        .concat();
    [framed(Some(b'B'), &bind), framed(Some(b'E'), &[0; 5]), framed(Some(b'S'), b"")].concat()
}

impl Pair for Postgres {
    fn name(&mut self, name: &str) -> Result<()> {
        let key = name
            .bytes()
            .fold(0_i64, |key, byte| key.wrapping_mul(31).wrapping_add(i64::from(byte)));
        self.lock = call("l", key);
        self.unlock = call("u", key);
        Ok(())
    }

    fn lock(&mut self) -> Result<()> {
        self.send(&self.lock)?;
        self.settled()
    }

    fn release(&mut self, awaited: bool) -> Result<()> {
        ensure!(awaited, "this client awaits its releases");
        self.send(&self.unlock)?;
        self.settled()
    }

    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
}
