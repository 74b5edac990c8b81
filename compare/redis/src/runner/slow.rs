//! A server whose answers come late.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::Result;

/// The address of a way to this server on which each answer takes so much longer. The requests do
/// not wait for each other.
pub(crate) fn slow(server: &str, late: Duration) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let server = server.to_owned();
    spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            // A connection that fails ends for its client too.
            let _ = pass(client, &server, late);
        }
    });
    Ok(address)
}

fn pass(mut client: TcpStream, server: &str, late: Duration) -> io::Result<()> {
    let mut server = TcpStream::connect(server)?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let (mut answers, mut to_client) = (server.try_clone()?, client.try_clone()?);
    let (sender, receiver) = channel();
    spawn(move || {
        let mut bytes = [0; 1 << 16];
        while let Ok(count @ 1..) = answers.read(&mut bytes) {
            if sender.send((Instant::now() + late, bytes[..count].to_vec())).is_err() {
                break;
            }
        }
    });
    spawn(move || {
        for (at, bytes) in receiver {
            sleep(at.saturating_duration_since(Instant::now()));
            if to_client.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(std::net::Shutdown::Both);
    });
    spawn(move || {
        let _ = io::copy(&mut client, &mut server);
        let _ = server.shutdown(std::net::Shutdown::Both);
    });
    Ok(())
}
