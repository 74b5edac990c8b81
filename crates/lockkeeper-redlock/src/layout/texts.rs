//! What a holder shows to people, as a node keeps it.

use std::sync::Arc;

use lockkeeper_core::LockName;
use lockkeeper_core::store::Meta;

/// The longest text: an owner or a reason.
const TEXT_MAX: usize = 1 << 16;

/// The texts of a holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts {
    /// The name, if the key has only its hash.
    pub(crate) name: Option<LockName>,
    pub(crate) meta: Meta,
}

impl Texts {
    pub(crate) fn of(name: &LockName, meta: &Meta) -> Self {
        let is_hashed = name.encoded().starts_with("h.");
        Self { name: is_hashed.then(|| name.clone()), meta: meta.clone() }
    }

    /// Each part with its length in front; a part that is missing has none.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut to = Vec::new();
        to.extend(self.meta.epoch.to_le_bytes());
        let name = self.name.as_ref().map(|name| name.as_str().as_bytes());
        let reason = self.meta.reason.as_deref().map(str::as_bytes);
        for part in [name, Some(self.meta.owner.as_bytes()), reason, self.meta.value.as_deref()] {
            match part {
                None => to.extend(u32::MAX.to_le_bytes()),
                Some(part) => {
                    to.extend(u32::try_from(part.len()).unwrap_or(0).to_le_bytes());
                    to.extend(part);
                }
            }
        }
        to
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (epoch, mut rest) = bytes.split_first_chunk::<2>()?;
        let name = part(&mut rest)?.and_then(text);
        let owner = part(&mut rest)?.and_then(text)?;
        let reason = part(&mut rest)?.and_then(text);
        let value = part(&mut rest)?;
        let meta = Meta {
            owner: owner.into(),
            reason: reason.map(Into::into),
            value: value.map(Arc::from),
            epoch: u16::from_le_bytes(*epoch),
        };
        Some(Self { name: name.and_then(|name| LockName::new(name).ok()), meta })
    }
}

/// The next part. The outer `None`: the bytes end too early.
#[allow(clippy::option_option, reason = "a missing part is not a broken record")]
fn part<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (len, behind) = rest.split_first_chunk::<4>()?;
    *rest = behind;
    let len = u32::from_le_bytes(*len);
    if len == u32::MAX {
        return Some(None);
    }
    let (part, behind) = behind.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = behind;
    Some(Some(part))
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| text.len() < TEXT_MAX)
}

/// The text of a break or of a request to release.
pub(crate) fn by_and_reason(by: &str, reason: &str) -> Vec<u8> {
    let mut to = u32::try_from(by.len()).unwrap_or(0).to_le_bytes().to_vec();
    to.extend(by.as_bytes());
    to.extend(reason.as_bytes());
    to
}

/// The administrator, and the reason.
pub(crate) fn read_by_and_reason(bytes: &[u8]) -> Option<(Arc<str>, Arc<str>)> {
    let mut rest = bytes;
    let by = part(&mut rest)?.and_then(text)?;
    Some((by.into(), text(rest)?.into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_a_claim_shows_comes_back(
            owner in ".{0,20}", reason in prop::option::of(".{0,20}"), epoch in any::<u16>(),
            value in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)), long in any::<bool>()
        ) {
            let name = LockName::new(&"/".repeat(if long { 100 } else { 1 })).unwrap();
            let meta = Meta {
                owner: owner.into(), reason: reason.map(Into::into), value: value.map(Into::into), epoch
            };
            let texts = Texts::of(&name, &meta);
            prop_assert_eq!(texts.name.is_some(), long);
            prop_assert_eq!(Texts::read(&texts.write()), Some(texts));
        }

        #[test]
        fn no_bytes_of_others_are_read_beyond_their_end(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            drop((Texts::read(&bytes), read_by_and_reason(&bytes)));
        }
    }

    #[test]
    fn who_breaks_a_lock_and_why_comes_back() {
        let (by, reason) = read_by_and_reason(&by_and_reason("op", "stuck")).unwrap();
        assert_eq!((&*by, &*reason), ("op", "stuck"));
    }
}
