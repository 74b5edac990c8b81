//! The requests of lockkeeper, from a client that blocks. It records the requests while lockkeeper
//! takes and releases the lock once, and repeats these two requests byte by byte.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::blocking::Requests;
use crate::resp::{Connection, Reply, address};

pub(crate) struct Scripts {
    url: String,
    /// The layout of another library.
    layout: Option<String>,
}

impl Scripts {
    pub(crate) fn new(url: &str, layout: Option<&str>) -> Self {
        Self { url: url.to_owned(), layout: layout.map(str::to_owned) }
    }
}

impl Requests for Scripts {
    fn of(&mut self, _: &mut Connection, name: &str) -> Result<[Vec<u8>; 2]> {
        let tap = Tap::open(address(&self.url)?)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let layout = self.layout.as_ref();
            let layout = layout.map_or(String::new(), |layout| format!("?layout={layout}"));
            let keeper = lockkeeper::connect(&format!("{}{layout}", tap.url)).await?;
            // The server gets the scripts with the first lock.
            keeper.mutex(format!("{name}-first"))?.lock().await?.release().await?;
            keeper.mutex(name)?.lock().await?.release().await?;
            anyhow::Ok(())
        })?;
        let received = tap.received.lock().unwrap_or_else(PoisonError::into_inner);
        let about = |request: &&[u8]| {
            contains(request, b"\r\nEVALSHA\r\n")
                && contains(request, format!("{{{name}}}\r\n").as_bytes())
        };
        let requests: Vec<&[u8]> = requests(&received).into_iter().filter(about).collect();
        match requests[..] {
            [claim, release] => Ok([claim.to_vec(), release.to_vec()]),
            _ => bail!(
                "lockkeeper sent {} requests to take and release a lock, not 2",
                requests.len()
            ),
        }
    }

    /// The token, or an answer that has it. On the layouts of other libraries the owner of the
    /// claim comes first.
    fn is_granted(&self, reply: &Reply) -> bool {
        match reply {
            Reply::Integer(token) => *token > 0,
            Reply::Text(text) => text.starts_with(b"g"),
            Reply::Array(parts) => parts.get(1) == Some(&Reply::Text(b"h".to_vec())),
            Reply::Nil => false,
        }
    }

    fn is_released(&self, reply: &Reply) -> bool {
        match reply {
            Reply::Array(parts) => parts.get(1) == Some(&Reply::Integer(1)),
            reply => *reply == Reply::Integer(1),
        }
    }
}

/// Forwards all bytes, and records the bytes of the client.
struct Tap {
    url: String,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Tap {
    fn open(server: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("redis://{}", listener.local_addr()?);
        let received = Arc::new(Mutex::new(Vec::new()));
        let (server, log) = (server.to_owned(), received.clone());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let _ = pass(&client?, &server, &log);
            }
            std::io::Result::Ok(())
        });
        Ok(Self { url, received })
    }
}

fn pass(client: &TcpStream, server: &str, log: &Arc<Mutex<Vec<u8>>>) -> Result<()> {
    let server = TcpStream::connect(server).context("the server has gone")?;
    let (mut client, mut from_server, mut to_client) =
        (client.try_clone()?, server.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || std::io::copy(&mut from_server, &mut to_client));
    let log = log.clone();
    std::thread::spawn(move || {
        let mut server = server;
        let mut bytes = [0; 8192];
        loop {
            let count = client.read(&mut bytes)?;
            if count == 0 {
                return server.shutdown(std::net::Shutdown::Both);
            }
            // The bytes are recorded before the answer.
            log.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&bytes[..count]);
            server.write_all(&bytes[..count])?;
        }
    });
    Ok(())
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The requests in the recorded bytes: arrays of strings.
fn requests(mut received: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some(length) = request(received) {
        let (request, rest) = received.split_at(length);
        found.push(request);
        received = rest;
    }
    found
}

/// The length of the first request.
fn request(bytes: &[u8]) -> Option<usize> {
    let (words, mut at) = head(bytes, 0, b'*')?;
    for _ in 0..words {
        let (length, start) = head(bytes, at, b'$')?;
        at = start + length + 2;
    }
    (at <= bytes.len()).then_some(at)
}

/// The number of a line that begins with `kind`, and the begin of the next line.
fn head(bytes: &[u8], at: usize, kind: u8) -> Option<(usize, usize)> {
    let line = bytes.get(at..)?.strip_prefix(&[kind])?;
    let end = line.iter().position(|byte| *byte == b'\r')?;
    let number = std::str::from_utf8(&line[..end]).ok()?.parse().ok()?;
    Some((number, at + 1 + end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::pack;

    #[test]
    fn requests_are_distinguished() {
        let [first, second] = [pack(&[b"PING"]), pack(&[b"SET", b"a\r\n*1", b""])];
        let received = [&first[..], &second, b"*2\r\n$4\r\nECHO\r\n$1"].concat();
        assert_eq!(requests(&received), [&first[..], &second]);
    }
}
