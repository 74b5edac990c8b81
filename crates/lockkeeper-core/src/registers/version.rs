//! The content of a register, and the writes to it.

use std::fmt;

use data_encoding::HEXLOWER;

use crate::random;

/// The number of writers of a key that a register of this crate remembers: the writer of the value,
/// and earlier ones.
pub const REMEMBERED: usize = 16;

/// How often a key was written: 0 for a key that is not there, 1 after the first write, and so on
/// without a gap. A key is never removed, so no number comes twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// The version of a key that is not there.
    pub const ABSENT: Self = Self(0);

    /// The version with this number, for instance from an `ETag`.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The version of a loaded value.
    pub fn of(current: Option<&Versioned>) -> Self {
        current.map_or(Self::ABSENT, |current| current.version)
    }

    /// The version that the next write makes.
    #[must_use]
    pub fn next(self) -> Self {
        // There is no time for this many writes.
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of the write that made a version: 128 random bits. The id does not
/// identify the client, and proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriterId([u8; 16]);

impl WriterId {
    /// A new id.
    pub fn random() -> Self {
        Self(random::bits128())
    }

    /// An id that a register kept.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bits, for a register to keep.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriterId({self})")
    }
}

/// A value, its version, and the ids of the writes that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Versioned {
    /// The version of the value.
    pub version: Version,
    /// The value.
    pub value: Vec<u8>,
    /// The writer of this version and those before it, newest first, as far back as the register
    /// remembers.
    pub writers: Vec<WriterId>,
}

impl Versioned {
    /// A value as a register keeps it. `writers` begins with the writer of this version.
    pub fn new(version: Version, value: Vec<u8>, writers: Vec<WriterId>) -> Self {
        Self { version, value, writers }
    }

    /// The content of the register after this write, where `current` was there before.
    pub fn after(current: Option<&Self>, write: &Write) -> Self {
        let earlier = current.into_iter().flat_map(|current| current.writers.iter().copied());
        let writers = std::iter::once(write.writer).chain(earlier).take(REMEMBERED).collect();
        Self::new(Version::of(current).next(), write.value.clone(), writers)
    }

    /// The writer of this version. `None` for a version that does not exist yet, or that the
    /// register has forgotten.
    pub fn writer_of(&self, version: Version) -> Option<WriterId> {
        let back = self.version.0.checked_sub(version.0)?;
        self.writers.get(usize::try_from(back).ok()?).copied()
    }
}

/// A write that is done only if the register still has a certain version. It is done at most once,
/// however often it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    expected: Version,
    value: Vec<u8>,
    writer: WriterId,
}

impl Write {
    /// A write that replaces the version `expected`, or creates the key if that is
    /// [`Version::ABSENT`]. It gets a new id.
    pub fn new(expected: Version, value: impl Into<Vec<u8>>) -> Self {
        Self { expected, value: value.into(), writer: WriterId::random() }
    }

    /// The version that the write replaces.
    pub fn expected(&self) -> Version {
        self.expected
    }

    /// The version that the write makes.
    pub fn makes(&self) -> Version {
        self.expected.next()
    }

    /// The new value.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// The id of the write.
    pub fn writer(&self) -> WriterId {
        self.writer
    }

    /// The content of the register after the write.
    pub(super) fn into_versioned(self) -> Versioned {
        Versioned::new(self.makes(), self.value, vec![self.writer])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_writers_are_found_by_their_versions() {
        let mut current = None;
        let mut writers = Vec::new();
        for _ in 0..REMEMBERED + 2 {
            let write = Write::new(Version::of(current.as_ref()), "");
            writers.push(write.writer());
            current = Some(Versioned::after(current.as_ref(), &write));
        }
        let current = current.unwrap();
        assert_eq!(current.writers.len(), REMEMBERED);
        for (i, writer) in writers.iter().enumerate() {
            let found = current.writer_of(Version(i as u64 + 1));
            assert_eq!(found, (i >= 2).then_some(*writer), "version {}", i + 1);
        }
        assert_eq!(current.writer_of(current.version.next()), None);
        assert_eq!(current.writer_of(Version::ABSENT), None);
    }
}
