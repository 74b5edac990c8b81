//! The channel on which a client receives messages about its claims, and these messages.

use std::borrow::Cow;

use data_encoding::HEXLOWER;

use super::bytes::{self, Reader};
use crate::Result;
use crate::random;
use crate::store::{Asked, Broken, ClaimId};

/// The id of an open store, which names the channel of its pushes. The id is no secret, and proves
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientId([u8; 8]);

impl ClientId {
    pub(crate) fn random() -> Self {
        Self(random::below(u64::MAX).to_le_bytes())
    }

    pub(super) fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }

    /// The client's own channel, for plain pushes and for the loss of a claim: `lk:w:<client>`.
    pub(crate) fn channel(&self) -> String {
        format!("lk:w:{}", HEXLOWER.encode(&self.0))
    }

    /// The client's channel in the slot of a name, where a cluster has sharded channels:
    /// `lk:w:{n}:<client>`. `n` is the encoded name.
    pub(crate) fn channel_of(&self, encoded: &[u8]) -> Vec<u8> {
        [b"lk:w:{", encoded, b"}:", HEXLOWER.encode(&self.0).as_bytes()].concat()
    }
}

/// The channel on which a claim or an observer gets its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Channel<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) sharded: bool,
}

/// The channel of the changes of a name: `lk:w:{n}`, one for all observers.
pub(crate) fn changes_channel(encoded: &[u8]) -> Vec<u8> {
    [b"lk:w:{", encoded, b"}"].concat()
}

/// The encoded name whose changes and grants come by this channel; `None` for the channel of a
/// client, which serves all names.
pub(crate) fn name_of_channel(channel: &[u8]) -> Option<&[u8]> {
    let rest = channel.strip_prefix(b"lk:w:{")?;
    rest.split(|byte| *byte == b'}').next()
}

impl Channel<'_> {
    /// A letter for the kind, then the channel.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        to.push(if self.sharded { b's' } else { b'p' });
        to.extend_from_slice(&self.bytes);
    }
}

/// A message that a script publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    /// A claim that waited holds the lock.
    Granted { id: ClaimId, token: u64 },
    /// The line of this name, as keys write it, has changed.
    Changed { name: Vec<u8> },
    /// The first waiter is to claim again: what it waits for ends sooner.
    Again { id: ClaimId },
    /// Another client has sent a claim that waits, and receives its messages from now on.
    Taken { id: ClaimId },
    /// A claim was broken, marked or removed.
    Lost { id: ClaimId, broken: Broken },
    /// The holder of a claim is asked to release the lock.
    Requested { id: ClaimId, asked: Asked },
}

/// Reads a message. Nothing for a message that no script sends.
pub(crate) fn pushed(payload: &[u8]) -> Option<Push> {
    let mut read = Reader::new(payload, "a push");
    match read.u8().ok()? {
        b'g' => {
            let id = ClaimId::from_bytes(read.array().ok()?);
            let token = bytes::token(read.f64().ok()?)?;
            read.is_empty().then_some(Push::Granted { id, token })
        }
        b'a' => {
            let id = ClaimId::from_bytes(read.array().ok()?);
            read.is_empty().then_some(Push::Again { id })
        }
        b't' => {
            let id = ClaimId::from_bytes(read.array().ok()?);
            read.is_empty().then_some(Push::Taken { id })
        }
        b'c' => Some(Push::Changed { name: read.rest().to_vec() }),
        b'l' => {
            let id = ClaimId::from_bytes(read.array().ok()?);
            let broken = broken(&mut read).ok()?;
            Some(Push::Lost { id, broken: Broken { removed: !read.is_empty(), ..broken } })
        }
        b'r' => {
            let id = ClaimId::from_bytes(read.array().ok()?);
            Some(Push::Requested { id, asked: asked(&mut read).ok()? })
        }
        _ => None,
    }
}

/// Stands behind who and why in the message about a claim that was removed at once.
pub(super) const REMOVED: u8 = b'n';

/// The words about a claim that was broken or is asked for, by whose order and why: two lengths,
/// two texts.
pub(super) fn write_words(by: &str, reason: &str) -> Vec<u8> {
    let (by, reason) = (bytes::cut(by), bytes::cut(reason));
    [&bytes::len16(by)[..], &bytes::len16(reason), by.as_bytes(), reason.as_bytes()].concat()
}

pub(super) fn broken(read: &mut Reader<'_>) -> Result<Broken> {
    let Asked { by, reason } = asked(read)?;
    Ok(Broken { by, reason, removed: false })
}

pub(super) fn asked(read: &mut Reader<'_>) -> Result<Asked> {
    let (by, reason) = (read.u16()?, read.u16()?);
    Ok(Asked { by: read.text(by)?.into(), reason: read.text(reason)?.into() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_client_has_a_channel_in_the_slot_of_each_name() {
        let client = ClientId([0, 1, 2, 3, 4, 5, 6, 0xff]);
        assert_eq!(client.channel(), "lk:w:00010203040506ff");
        assert_eq!(client.channel_of(b"a%2Fb"), b"lk:w:{a%2Fb}:00010203040506ff");
    }

    #[test]
    fn a_push_is_understood() {
        let id = ClaimId::from_bytes([7; 16]);
        let granted = [&b"g"[..], &[7; 16], &1.79e15_f64.to_le_bytes()].concat();
        assert_eq!(pushed(&granted), Some(Push::Granted { id, token: 1_790_000_000_000_000 }));
        assert_eq!(pushed(&[&b"a"[..], &[7; 16]].concat()), Some(Push::Again { id }));
        assert_eq!(pushed(&[&b"t"[..], &[7; 16]].concat()), Some(Push::Taken { id }));
        assert_eq!(pushed(b"ca%2Fb"), Some(Push::Changed { name: b"a%2Fb".to_vec() }));
        let lost = [&b"l"[..], &[7; 16], &write_words("op", "stuck")].concat();
        let broken = Broken { by: "op".into(), reason: "stuck".into(), removed: false };
        let removed = Broken { removed: true, ..broken.clone() };
        assert_eq!(pushed(&lost), Some(Push::Lost { id, broken }));
        assert_eq!(
            pushed(&[&lost[..], &[REMOVED]].concat()),
            Some(Push::Lost { id, broken: removed })
        );
        let asked = [&b"r"[..], &[7; 16], &write_words("op", "a deploy")].concat();
        let words = Asked { by: "op".into(), reason: "a deploy".into() };
        assert_eq!(pushed(&asked), Some(Push::Requested { id, asked: words }));
        assert_eq!(pushed(b"0"), None);
    }

    proptest! {
        #[test]
        fn any_message_can_be_received(payload in prop::collection::vec(any::<u8>(), 0..60)) {
            drop(pushed(&payload));
        }

        #[test]
        fn who_broke_a_claim_is_reported(by in ".{0,20}", reason in ".{0,20}") {
            let written = write_words(&by, &reason);
            let read = broken(&mut Reader::new(&written, "test")).unwrap();
            prop_assert_eq!(read, Broken { by: by.into(), reason: reason.into(), removed: false });
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_between_two_characters() {
        let long = "é".repeat(40_000);
        let written = write_words(&long, "x");
        let read = broken(&mut Reader::new(&written, "test")).unwrap();
        assert_eq!(read.by.len(), 65_534);
        assert_eq!(&*read.reason, "x");
    }
}
