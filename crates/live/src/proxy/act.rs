//! What is asked of a proxy, and what it tells.

use std::time::Duration;

use super::resp;

pub(super) const TO_SERVER: usize = 0;
pub(super) const TO_CLIENT: usize = 1;

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From clients to the server: requests.
    ToServer,
    /// From the server to clients: replies and pushed messages.
    ToClient,
    /// Both.
    Both,
}

impl Way {
    pub(super) fn each(self) -> &'static [usize] {
        match self {
            Self::ToServer => &[TO_SERVER],
            Self::ToClient => &[TO_CLIENT],
            Self::Both => &[TO_SERVER, TO_CLIENT],
        }
    }
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It goes its way.
    Pass,
    /// It goes so much later, and whatever comes after it on its connection too.
    Late(Duration),
    /// It waits for [`Proxy::release`](super::Proxy::release), and whatever comes after it on its connection too.
    Hold,
    /// It is lost. Fit for pushed messages: of a request or a reply that is missing the other side would take the next
    /// one for it.
    Drop,
    /// It comes twice. Of the two replies to a request the client gets the first.
    Twice,
    /// A request is done, and the connection ends instead of a reply. A reply is lost with the connection.
    LoseReply,
    /// A request is done, and its reply waits as for [`Hold`](Self::Hold).
    HoldReply,
    /// The connection is closed before it.
    Cut,
    /// The connection is closed after it.
    CutAfter,
    /// The connection is closed after so many bytes of it.
    CutWithin(usize),
    /// The connection is reset before it.
    Reset,
}

/// A message on its way.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The number of this connection; the first is 1.
    pub connection: u64,
    /// The number of this message on its connection in this direction; the first is 1.
    pub number: u64,
    /// All of it.
    pub bytes: &'a [u8],
}

impl Message<'_> {
    /// Its strings, at whatever depth: of a request the command and its arguments.
    pub fn words(&self) -> Vec<String> {
        resp::words(self.bytes)
    }

    /// Whether it is a request for this command.
    pub fn is(&self, command: &str) -> bool {
        self.words().first().is_some_and(|first| first.eq_ignore_ascii_case(command))
    }

    /// Whether the server sent it by itself.
    pub fn is_push(&self) -> bool {
        self.bytes.first() == Some(&b'>')
    }

    /// Whether this is in it.
    pub fn contains(&self, text: &str) -> bool {
        self.bytes.windows(text.len().max(1)).any(|window| window == text.as_bytes())
    }
}

/// What a proxy has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// Connections that came.
    pub connections: u64,
    /// Connections that there are.
    pub open: u64,
    /// Messages that came from clients.
    pub requests: u64,
    /// Messages that came from the server, pushed ones too.
    pub replies: u64,
    /// Bytes that were handed on to the server.
    pub bytes_to_server: u64,
    /// Bytes that were handed on to clients.
    pub bytes_to_client: u64,
    /// Messages that were held back, or still are.
    pub held: u64,
    /// Messages that went no further.
    pub lost: u64,
}
