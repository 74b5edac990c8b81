//! A connection of a client, with its connection to the server.

use std::io;
use std::net::Shutdown;
use std::sync::Mutex;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::act::{TO_CLIENT, TO_SERVER};
use super::fates::Fates;
use super::pipe::Pipe;
use super::{Shared, lock};

/// The ways to end a connection early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    /// Both sides see a closed connection.
    #[default]
    Cut,
    /// Both sides see a reset.
    Reset,
}

/// Serves the connection until both sides have closed it, or the proxy ends it.
pub(super) async fn serve(
    client: TcpStream,
    number: u64,
    shared: &Shared,
    mut ends: watch::Receiver<(u64, End)>,
) {
    let target = *lock(&shared.target);
    let Ok(server) = TcpStream::connect(target).await else { return end(&client, End::Reset) };
    // The proxy works without this option too.
    let _ = client.set_nodelay(true).and(server.set_nodelay(true));
    let fates = Mutex::new(Fates::new(shared.resp));
    let pipe = |way, from, to| Pipe { way, from, to, number, shared, fates: &fates }.run();
    let how = tokio::select! {
        biased;
        ended = ends.changed() => ended.map_or(End::Cut, |()| ends.borrow().1),
        ended = async { tokio::try_join!(pipe(TO_SERVER, &client, &server), pipe(TO_CLIENT, &server, &client)) } => {
            ended.err().unwrap_or(End::Cut)
        }
    };
    end(&client, how);
    end(&server, how);
}

fn end(stream: &TcpStream, how: End) {
    let socket = SockRef::from(stream);
    // A side that has gone needs no reset.
    let _: io::Result<()> = match how {
        End::Cut => socket.shutdown(Shutdown::Both),
        End::Reset => socket.set_linger(Some(std::time::Duration::ZERO)),
    };
}
