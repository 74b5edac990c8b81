//! The keys of a name, and their slot in a cluster.

use std::str;

use data_encoding::BASE32_NOPAD;

use super::bytes;
use crate::{LockName, Result};

/// `lk:{n}` and its side keys: `:q` has the waiters by token, `:w` the claims, and `:g` the
/// withdrawn ids. All are in one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    all: Vec<u8>,
    len: usize,
}

/// How the key of a line begins; the name in its form for stores follows, and a brace.
const OPEN: &[u8] = b"lk:{";

impl Keys {
    pub(crate) fn of(name: &LockName) -> Self {
        Self::of_encoded(name.encoded().as_bytes())
    }

    fn of_encoded(name: &[u8]) -> Self {
        let len = OPEN.len() + name.len() + 1;
        let mut all = Vec::with_capacity(4 * len + 6);
        for side in [&b""[..], b":q", b":w", b":g"] {
            for part in [OPEN, name, b"}", side] {
                all.extend_from_slice(part);
            }
        }
        Self { all, len }
    }

    /// The keys of the line whose main key this is, for the keys that `SCAN` finds. Other programs
    /// may have keys that look alike. No lock is ever looked for there: these keys have no name, or
    /// a name in another form.
    pub(crate) fn scanned(key: &[u8]) -> Option<Self> {
        let encoded = key.strip_prefix(OPEN)?.strip_suffix(b"}")?;
        let is_form_of = |name: &LockName| name.encoded().as_bytes() == encoded;
        let is_line = is_hash(encoded) || decoded(encoded).as_ref().is_some_and(is_form_of);
        is_line.then(|| Self::of_encoded(encoded))
    }

    /// In the order in which every script declares them.
    pub(crate) fn all(&self) -> [&[u8]; 4] {
        let (main, rest) = self.all.split_at(self.len);
        let (q, rest) = rest.split_at(self.len + 2);
        let (w, g) = rest.split_at(self.len + 2);
        [main, q, w, g]
    }

    /// The name as keys and pushes write it.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.all[OPEN.len()..self.len - 1]
    }

    /// The key of the line, as messages show it.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(self.all()[0]).into_owned()
    }

    /// A key of the same slot, which `WAIT` needs: see `replicas.rs`.
    pub(crate) fn mark(&self) -> Vec<u8> {
        [self.all()[0], b":r"].concat()
    }

    /// The name, unless the key holds only its hash.
    pub(crate) fn name(&self) -> Result<Option<LockName>> {
        if is_hash(self.encoded()) {
            return Ok(None);
        }
        decoded(self.encoded()).map(Some).ok_or_else(|| bytes::garbled("SCAN"))
    }

    /// The slot of the keys in a cluster: CRC16 of the text in the braces.
    pub(crate) fn slot(&self) -> u16 {
        slot(self.encoded())
    }
}

/// Whether this stands for a name that is too long for a key.
fn is_hash(encoded: &[u8]) -> bool {
    encoded
        .strip_prefix(b"h.")
        .is_some_and(|hash| BASE32_NOPAD.decode(hash).is_ok_and(|hash| hash.len() == 32))
}

fn decoded(encoded: &[u8]) -> Option<LockName> {
    let name: Vec<u8> = percent_encoding::percent_decode(encoded).collect();
    LockName::new(str::from_utf8(&name).ok()?).ok()
}

/// The slot of a hash tag.
pub(crate) fn slot(tag: &[u8]) -> u16 {
    let crc =
        tag.iter().fold(0_u16, |crc, byte| (crc << 8) ^ CRC[usize::from((crc >> 8) as u8 ^ byte)]);
    crc % 16384
}

/// CRC16 as XMODEM has it: polynomial 0x1021.
const CRC: [u16; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_keys_of_a_name_share_a_hash_tag() {
        let keys = Keys::of(&"stock/42".parse().unwrap());
        let all = keys.all().map(|key| str::from_utf8(key).unwrap().to_owned());
        assert_eq!(
            all,
            ["lk:{stock%2F42}", "lk:{stock%2F42}:q", "lk:{stock%2F42}:w", "lk:{stock%2F42}:g"]
        );
        assert_eq!(keys.encoded(), b"stock%2F42");
    }

    /// The figures of the cluster's specification, and of `CLUSTER KEYSLOT`.
    #[test]
    fn slots_are_those_of_the_server() {
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"bar"), 5061);
    }

    #[test]
    fn side_keys_and_foreign_ones_are_no_lines() {
        for key in ["lk:{}", "lk:{a}:q", "lk:a", "lk:{a b}", "lk:{a}}", "lk:{a{}", "xlk:{a}", ""] {
            assert_eq!(Keys::scanned(key.as_bytes()), None, "{key}");
        }
    }

    #[test]
    fn a_key_without_a_name_or_in_another_form_is_no_line() {
        for key in [
            "lk:{a%ff}",
            "lk:{a%}",
            "lk:{a%00}",
            "lk:{a%7a}",
            "lk:{a.}",
            "lk:{a%2f}",
            "lk:{h.a}",
            "lk:{h.AAAA}",
        ] {
            assert_eq!(Keys::scanned(key.as_bytes()), None, "{key}");
        }
    }

    proptest! {
        #[test]
        fn a_scanned_key_contains_its_name(name in "\\PC{1,60}") {
            let Ok(name) = LockName::new(&name) else { return Ok(()) };
            let keys = Keys::of(&name);
            let scanned = Keys::scanned(keys.all()[0]).unwrap();
            prop_assert_eq!(&scanned, &keys);
            let hashed = name.encoded().starts_with("h.");
            prop_assert_eq!(scanned.name().unwrap(), (!hashed).then_some(name));
        }

        #[test]
        fn any_key_can_be_scanned(key in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(keys) = Keys::scanned(&key) {
                drop(keys.name());
            }
        }
    }
}
