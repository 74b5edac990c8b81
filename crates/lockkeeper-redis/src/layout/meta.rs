//! The shown part of a claim: the end of its record.

use std::sync::Arc;

use super::bytes::{Reader, cut, len16};
use super::channel::{ClientId, broken};
use crate::store::{Broken, Meta};
use crate::{LockName, Result};

/// The flags; `lua/record.lua` has them all.
const REASON: u8 = 1;
const VALUE: u8 = 2;
const AMENDED: u8 = 4;
const BROKEN: u8 = 8;

/// Client, lock delay in ms, length of the name, epoch, flags, lengths of the texts; then name,
/// owner, reason, value.
pub(super) fn write(meta: &Meta, name: &LockName, client: &ClientId, delay: u32, to: &mut Vec<u8>) {
    let hashed = if name.encoded().starts_with("h.") { name.as_str() } else { "" };
    to.extend_from_slice(client.as_bytes());
    to.extend_from_slice(&delay.to_le_bytes());
    to.push(u8::try_from(hashed.len()).unwrap_or(u8::MAX));
    write_head(meta, to);
    to.extend_from_slice(hashed.as_bytes());
    write_texts(meta, to);
}

/// The same without client, delay and name, which no change replaces.
pub(super) fn write_shown(meta: &Meta, to: &mut Vec<u8>) {
    write_head(meta, to);
    write_texts(meta, to);
}

fn write_head(meta: &Meta, to: &mut Vec<u8>) {
    let reason = if meta.reason.is_some() { REASON } else { 0 };
    let value = if meta.value.is_some() { VALUE } else { 0 };
    to.extend_from_slice(&meta.epoch.to_le_bytes());
    to.push(reason | value);
    to.extend_from_slice(&len16(cut(&meta.owner)));
    to.extend_from_slice(&len16(cut(meta.reason.as_deref().unwrap_or(""))));
    let value = meta.value.as_deref().map_or(0, <[u8]>::len);
    to.extend_from_slice(&u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
}

fn write_texts(meta: &Meta, to: &mut Vec<u8>) {
    to.extend_from_slice(cut(&meta.owner).as_bytes());
    to.extend_from_slice(cut(meta.reason.as_deref().unwrap_or("")).as_bytes());
    to.extend_from_slice(meta.value.as_deref().unwrap_or_default());
}

/// The end of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) meta: Meta,
    pub(super) broken: Option<Broken>,
}

pub(super) fn read(read: &mut Reader<'_>) -> Result<Shown> {
    // Client and delay.
    read.take(12)?;
    let name = read.u8()?;
    let (epoch, flags) = (read.u16()?, read.u8()?);
    let (owner, reason, value) = (read.u16()?, read.u16()?, read.u32()?);
    read.take(name.into())?;
    let owner = read.text(owner)?.into();
    let reason = read.text(reason)?;
    let value = read.take(usize::try_from(value).map_err(|_| read.garbled())?)?;
    if flags & AMENDED != 0 {
        // The number of the last change.
        read.take(8)?;
    }
    let broken = if flags & BROKEN == 0 { None } else { Some(broken(read)?) };
    let meta = Meta {
        owner,
        reason: (flags & REASON != 0).then(|| reason.into()),
        value: (flags & VALUE != 0).then(|| Arc::from(value)),
        epoch,
    };
    Ok(Shown { meta, broken })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::scripts::number;
    use super::*;

    fn metas() -> impl Strategy<Value = Meta> {
        let value = prop::option::of(prop::collection::vec(any::<u8>(), 0..40));
        (".{0,20}", prop::option::of(".{0,20}"), value, any::<u16>()).prop_map(
            |(owner, reason, value, epoch)| Meta {
                owner: owner.into(),
                reason: reason.map(Into::into),
                value: value.map(Into::into),
                epoch,
            },
        )
    }

    #[test]
    fn the_scripts_know_the_flags() {
        let flags = [REASON, VALUE, AMENDED, BROKEN].map(u64::from);
        assert_eq!(flags, ["REASON", "VALUE", "AMENDED", "BROKEN"].map(number));
    }

    proptest! {
        #[test]
        fn what_a_claim_shows_comes_back(meta in metas(), long in any::<bool>()) {
            let name = LockName::new(&"/".repeat(if long { 100 } else { 1 })).unwrap();
            let mut written = Vec::new();
            write(&meta, &name, &ClientId::random(), 7, &mut written);
            prop_assert_eq!(written[12], if long { 100 } else { 0 });
            let mut reader = Reader::new(&written, "test");
            prop_assert_eq!(read(&mut reader).unwrap(), Shown { meta, broken: None });
            prop_assert!(reader.is_empty());
        }
    }
}
