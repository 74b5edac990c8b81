//! The fencing token: the number that distinguishes an old holder from a new one.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The number of a token's bits that belong to the store; the epoch has the bits above.
const STORE_BITS: u32 = 54;
const STORE_MAX: u64 = (1 << STORE_BITS) - 1;

/// A number that rises with every grant of one lock, across releases, expired leases, restarts and
/// clean-ups of the store.
///
/// Send the token with every access to what the lock protects, reads included, and let the resource
/// refuse lower tokens (`lockkeeper::fence::FenceGate` is that check). Only this check stops a
/// request that a paused holder has already sent. The text form and the serialized form are a
/// decimal string, since JSON numbers are exact only up to 2^53.
///
/// The token is `epoch · 2^54 + number of the store`; the operator raises the epoch
/// (`KeeperBuilder::epoch`) after a restore or a move to another store.
///
/// ```
/// use lockkeeper::FencingToken;
///
/// let token: FencingToken = "1763705000000123".parse()?;
/// assert_eq!(token.to_string(), "1763705000000123");
/// assert!(token < "1763705000000124".parse()?);
/// # Ok::<(), lockkeeper::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(NonZeroU64);

impl FencingToken {
    /// The highest epoch that fits.
    pub const MAX_EPOCH: u16 = 511;

    /// The token for a store's raw number in 1..2^54, or `None` when the number or the epoch is out
    /// of range.
    pub fn new(epoch: u16, raw: u64) -> Option<Self> {
        if epoch > Self::MAX_EPOCH || raw > STORE_MAX || raw == 0 {
            return None;
        }
        NonZeroU64::new((u64::from(epoch) << STORE_BITS) | raw).map(Self)
    }

    /// The whole number, for an unsigned column or a binary protocol.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// The number for a signed SQL column. The number always fits: tokens are below 2^63.
    pub fn as_i64(self) -> i64 {
        self.0.get().cast_signed()
    }

    /// The epoch that the operator has set.
    pub fn epoch(self) -> u16 {
        // At most nine bits are left after the shift.
        (self.0.get() >> STORE_BITS) as u16
    }

    /// The store's own number, without the epoch.
    pub fn raw(self) -> u64 {
        self.0.get() & STORE_MAX
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FencingToken({self})")
    }
}

impl FromStr for FencingToken {
    type Err = crate::Error;

    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) unless the text is a decimal number in 1..2^63 whose
    /// store part is not 0.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || {
            crate::Error::invalid(format!(
                "{text:?} is not a fencing token. A token is a decimal number from 1 to 2^63 - 1"
            ))
        };
        if !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(invalid());
        }
        let number: u64 = text.parse().map_err(|_| invalid())?;
        let epoch = u16::try_from(number >> STORE_BITS).map_err(|_| invalid())?;
        Self::new(epoch, number & STORE_MAX).ok_or_else(invalid)
    }
}

impl Serialize for FencingToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FencingToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_outranks_every_number_of_the_store() {
        let old = FencingToken::new(0, STORE_MAX).unwrap();
        let new = FencingToken::new(1, 1).unwrap();
        assert!(new > old);
        assert_eq!((new.epoch(), new.raw()), (1, 1));
        assert_eq!(FencingToken::new(511, STORE_MAX).unwrap().as_i64(), i64::MAX);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for (epoch, raw) in [(0, 0), (0, STORE_MAX + 1), (512, 1)] {
            assert_eq!(FencingToken::new(epoch, raw), None);
        }
        for text in ["", "0", "-1", "+1", "1.0", " 1", "9223372036854775808", "18014398509481984"] {
            assert!(text.parse::<FencingToken>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn json_carries_a_string() {
        let token = FencingToken::new(3, 9_007_199_254_740_993).unwrap();
        let json = serde_json::to_string(&token).unwrap();
        assert_eq!(json, format!("\"{token}\""));
        assert_eq!(serde_json::from_str::<FencingToken>(&json).unwrap(), token);
    }
}
