//! The thinnest connection to Redis: a blocking socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, bail};

pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
    line: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Integer(i64),
    Text(Vec<u8>),
    Array(Vec<Self>),
}

impl Connection {
    /// Connects to `redis://HOST:PORT`.
    pub(crate) fn open(url: &str) -> Result<Self> {
        let address = address(url)?;
        let socket =
            TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        socket.set_nodelay(true)?;
        Ok(Self { reader: BufReader::new(socket), line: Vec::new() })
    }

    pub(crate) fn send(&self, request: &[u8]) -> Result<()> {
        Ok(self.reader.get_ref().write_all(request)?)
    }

    pub(crate) fn reply(&mut self) -> Result<Reply> {
        self.line.clear();
        self.reader.read_until(b'\n', &mut self.line)?;
        let line = self.line.trim_ascii_end();
        let (&kind, rest) = line.split_first().context("the server closed the connection")?;
        match kind {
            b'+' => Ok(Reply::Text(rest.to_vec())),
            b':' => Ok(Reply::Integer(number(rest)?)),
            b'$' | b'*' if rest == b"-1" => Ok(Reply::Nil),
            b'$' => {
                let mut text = vec![0; usize::try_from(number(rest)?)? + 2];
                self.reader.read_exact(&mut text)?;
                text.truncate(text.len() - 2);
                Ok(Reply::Text(text))
            }
            b'*' => {
                (0..number(rest)?).map(|_| self.reply()).collect::<Result<_>>().map(Reply::Array)
            }
            _ => bail!("the server said {}", String::from_utf8_lossy(line)),
        }
    }

    /// Loads the script, and returns its SHA-1.
    pub(crate) fn load(&mut self, script: &str) -> Result<Vec<u8>> {
        self.send(&pack(&[b"SCRIPT", b"LOAD", script.as_bytes()]))?;
        match self.reply()? {
            Reply::Text(sha) => Ok(sha),
            other => bail!("SCRIPT LOAD answered {other:?}"),
        }
    }
}

/// The address in `redis://HOST:PORT`.
pub(crate) fn address(url: &str) -> Result<&str> {
    url.strip_prefix("redis://").context("the URL has to begin with redis://")
}

fn number(digits: &[u8]) -> Result<i64> {
    std::str::from_utf8(digits)?.parse().context("the server sent no number")
}

/// A command in the form of the protocol.
pub(crate) fn pack(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
