//! The identity of a store.

use std::fmt;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::random;

/// The identity of a store's data: 128 random bits, shown as 32 hex digits. See
/// [`Store::id`](super::Store::id).
///
/// It is no secret, and it proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId([u8; 16]);

impl StoreId {
    /// A new one.
    pub fn random() -> Self {
        Self(random::bits128())
    }

    /// The id that a store kept.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bits, for the store to keep.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The id that was kept as this text.
    pub fn read(text: &[u8]) -> Option<Self> {
        // The decoder takes only what the encoder writes: small letters.
        HEXLOWER.decode(text).ok()?.try_into().ok().map(Self)
    }

    /// The id of something that a store keeps beside other things, or that shows a part of it. The
    /// same part of the same store has the same id.
    #[must_use]
    pub fn of_part(&self, part: impl AsRef<[u8]>) -> Self {
        let digest = Sha256::new().chain_update(self.0).chain_update(part).finalize();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        Self(id)
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written_and_nothing_else_is() {
        let id = StoreId::random();
        let text = id.to_string();
        assert_eq!(StoreId::read(text.as_bytes()), Some(id));
        for other in [
            "",
            "00",
            &text[1..],
            &text.to_uppercase().replace(char::is_numeric, "A"),
            &format!("{text}00"),
        ] {
            assert_eq!(StoreId::read(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn parts_of_a_store_have_ids_of_their_own() {
        let (one, two) = (StoreId::random(), StoreId::random());
        assert_eq!(one.of_part("a/"), one.of_part("a/"));
        let all = [
            one,
            two,
            one.of_part("a/"),
            one.of_part("b/"),
            two.of_part("a/"),
            one.of_part("a/").of_part("a/"),
        ];
        assert_eq!(std::collections::HashSet::from(all).len(), all.len());
    }
}
