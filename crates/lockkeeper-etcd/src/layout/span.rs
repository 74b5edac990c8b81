//! Keys and ranges of keys.

use bytes::Bytes;

use crate::wire::messages::RangeRequest;

/// A key, as one revision created it. The claims of a session use a key slot one after the other,
/// so a key alone does not name a claim; the key and its create revision do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Incarnation {
    pub(crate) key: Bytes,
    /// The revision that created the key; 0 if that is not known.
    pub(crate) created: i64,
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first key.
    pub(crate) from: Bytes,
    /// The end, which is not part of the range; empty for one key.
    pub(crate) to: Bytes,
}

impl Span {
    /// One key.
    pub(crate) fn one(key: &Bytes) -> Self {
        Self { from: key.clone(), to: Bytes::new() }
    }

    /// The whole line in which this key is.
    pub(crate) fn line_of(key: &Bytes) -> Self {
        let end = key.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let mut behind = key[..end].to_vec();
        if let Some(last) = behind.last_mut() {
            *last += 1;
        }
        Self { from: key.slice(..end), to: behind.into() }
    }

    /// The request that reads all keys of the range.
    pub(crate) fn all(self) -> RangeRequest {
        RangeRequest { key: self.from, range_end: self.to, ..RangeRequest::default() }
    }

    /// Every key that begins with this folder, which ends with a slash.
    pub(super) fn under(folder: String) -> Self {
        let mut end = folder.clone().into_bytes();
        if let Some(last) = end.last_mut() {
            // A slash is followed by a zero.
            *last += 1;
        }
        Self { from: folder.into(), to: end.into() }
    }
}
