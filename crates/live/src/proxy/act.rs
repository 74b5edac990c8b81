//! The orders to a proxy, and the messages that it has seen.

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

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The message passes.
    Pass,
    /// The message passes later by this time, and so do all later messages of its connection.
    Late(Duration),
    /// The message waits for [`Proxy::release`](super::Proxy::release), and so do all later
    /// messages of its connection.
    Hold,
    /// The message is lost. Only for pushed messages: after a lost request or reply, the other side
    /// would take the next message for it.
    Drop,
    /// The message comes twice. The client gets the first of the two replies to a request.
    Twice,
    /// A request is done, and the connection ends instead of a reply. A reply is lost with the
    /// connection.
    LoseReply,
    /// The server handles the request, and the reply waits as for [`Hold`](Self::Hold).
    HoldReply,
    /// The connection is closed before the message.
    Cut,
    /// The connection is closed after the message.
    CutAfter,
    /// The connection is closed after this many bytes of the message.
    CutWithin(usize),
    /// The connection is reset before the message.
    Reset,
}

/// A message between client and server.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The number of this connection; the first is 1.
    pub connection: u64,
    /// The number of this message on its connection in this direction; the first is 1.
    pub number: u64,
    /// The whole message.
    pub bytes: &'a [u8],
}

impl Message<'_> {
    /// The strings of the message, at any depth: for a request the command and its arguments.
    pub fn words(&self) -> Vec<String> {
        resp::words(self.bytes)
    }

    /// Returns whether the message is a request for this command.
    pub fn is(&self, command: &str) -> bool {
        self.words().first().is_some_and(|first| first.eq_ignore_ascii_case(command))
    }

    /// Returns whether the server pushed the message.
    pub fn is_push(&self) -> bool {
        self.bytes.first() == Some(&b'>')
    }

    /// Returns whether the message contains this text.
    pub fn contains(&self, text: &str) -> bool {
        self.bytes.windows(text.len().max(1)).any(|window| window == text.as_bytes())
    }
}

/// The numbers of a proxy so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// The connections so far.
    pub connections: u64,
    /// The open connections.
    pub open: u64,
    /// The messages from clients.
    pub requests: u64,
    /// The messages from the server, pushed messages included.
    pub replies: u64,
    /// The bytes that the proxy has sent to the server.
    pub bytes_to_server: u64,
    /// The bytes that the proxy has sent to clients.
    pub bytes_to_client: u64,
    /// The messages that the proxy has held back, or still holds back.
    pub held: u64,
    /// The messages that the proxy has not passed on.
    pub lost: u64,
}
