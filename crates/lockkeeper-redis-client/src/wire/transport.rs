//! The transport of the handshake, before the driver has the connection.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::decoder::{Decoder, Incoming};
use crate::net::{Stream as Transport, said};

/// Writes `bytes` and reads so many replies. For the handshake only: this ignores pushes.
pub(super) async fn converse(
    transport: &mut Transport,
    decoder: &mut Decoder,
    bytes: &[u8],
    replies: usize,
) -> Result<Vec<redis::Value>, String> {
    match transport {
        Transport::Plain(socket) => socket.write_all(bytes).await,
        Transport::Tls(stream) => match stream.write_all(bytes).await {
            Ok(()) => stream.flush().await,
            failed => failed,
        },
    }
    .map_err(|e| said(&e))?;
    let mut found = Vec::with_capacity(replies);
    let mut chunk = vec![0; 4096];
    while found.len() < replies {
        match decoder.next()? {
            Some(Incoming::Reply(value)) => found.push(value),
            Some(Incoming::Push(..)) => {}
            None => {
                let read = match transport {
                    Transport::Plain(socket) => socket.read(&mut chunk).await,
                    Transport::Tls(stream) => stream.read(&mut chunk).await,
                };
                match read {
                    Ok(0) => return Err("it closed the connection".to_owned()),
                    Ok(count) => decoder.feed(&chunk[..count]),
                    // Only now the server says whether it accepts the certificate of the client.
                    Err(e) => return Err(said(&e)),
                }
            }
        }
    }
    Ok(found)
}
