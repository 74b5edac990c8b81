//! The sequencer: a grant as one string, to send with a request.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, FencingToken, LockName, name};

/// How a lock is held. Exhaustive on purpose: a program must decide about every mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Alone: a mutex, a write lock, a leadership.
    Exclusive,
    /// Together with other readers.
    Shared,
    /// This many permits of a semaphore.
    Permits(u32),
}

impl Mode {
    /// The form in sequencers and handles.
    #[doc(hidden)]
    pub fn code(self) -> String {
        match self {
            Self::Exclusive => "x".to_owned(),
            Self::Shared => "s".to_owned(),
            Self::Permits(permits) => format!("p{permits}"),
        }
    }

    #[doc(hidden)]
    pub fn of_code(code: &str) -> Option<Self> {
        match code {
            "x" => Some(Self::Exclusive),
            "s" => Some(Self::Shared),
            permits => {
                permits.strip_prefix('p')?.parse().ok().filter(|&k| k > 0).map(Self::Permits)
            }
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Permits(_) => "permits",
        })
    }
}

/// The name, the mode and the fencing token of a held lock. The holder sends the sequencer to the
/// resource that the lock protects, as in Google's Chubby.
///
/// As text it is `lk1.MODE.TOKEN.NAME`. `lk1` is the version of the format. The mode is `x`
/// (exclusive), `s` (shared) or `p` and the number of permits (`p3`). The whole name is
/// percent-encoded, whatever its length. The text has only the characters `[A-Za-z0-9_.%-]`, so it
/// fits into an HTTP header, into a URL (where a server that decodes it must encode it again), and
/// into the name of a file, up to the length that the file system allows. A sequencer is no secret
/// and no proof: the resource compares the token (`lockkeeper::fence::FenceGate`), and
/// `Keeper::check_sequencer` asks the store.
///
/// ```
/// use lockkeeper::{Mode, Sequencer};
///
/// let sequencer: Sequencer = "lk1.x.1763705000000123.stock%2F42".parse()?;
/// assert_eq!(sequencer.name().as_str(), "stock/42");
/// assert_eq!(sequencer.mode(), Mode::Exclusive);
/// assert_eq!(sequencer.token().get(), 1_763_705_000_000_123);
/// # Ok::<(), lockkeeper::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Sequencer {
    mode: Mode,
    token: FencingToken,
    name: LockName,
}

impl Sequencer {
    /// The sequencer of a grant. A guard makes its own sequencer (`Guard::sequencer`). No
    /// grant has 0 permits, and `parse` refuses such a sequencer.
    pub fn new(name: LockName, mode: Mode, token: FencingToken) -> Self {
        Self { mode, token, name }
    }

    /// How the lock is held.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The number that the resource compares.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// The full name of the lock. The tokens of different locks cannot be compared.
    pub fn name(&self) -> &LockName {
        &self.name
    }
}

impl fmt::Display for Sequencer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lk1.{}.{}.{}", self.mode.code(), self.token, name::encode(self.name.as_str()))
    }
}

impl fmt::Debug for Sequencer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sequencer({self})")
    }
}

impl FromStr for Sequencer {
    type Err = Error;

    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) unless the text is exactly what `Display` writes:
    /// another spelling of the same grant (`%2f`, a leading zero) is refused too, so that equal
    /// texts and equal grants are the same.
    fn from_str(text: &str) -> Result<Self, Error> {
        read(text).filter(|sequencer| sequencer.to_string() == text).ok_or_else(|| {
            let shown: String = text.chars().take(60).collect();
            Error::invalid(format!("{shown:?} is not a sequencer")).with_remedy(
                "the text as the holder printed it, like lk1.x.1763705000000123.stock%2F42",
            )
        })
    }
}

fn read(text: &str) -> Option<Sequencer> {
    let mut parts = text.strip_prefix("lk1.")?.splitn(3, '.');
    let mode = Mode::of_code(parts.next()?)?;
    let token = parts.next()?.parse().ok()?;
    let name = percent_encoding::percent_decode_str(parts.next()?).decode_utf8().ok()?;
    Some(Sequencer { mode, token, name: LockName::new(&name).ok()? })
}

impl Serialize for Sequencer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sequencer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn modes() -> impl Strategy<Value = Mode> {
        prop_oneof![
            Just(Mode::Exclusive),
            Just(Mode::Shared),
            (1..=u32::MAX).prop_map(Mode::Permits)
        ]
    }

    #[test]
    fn the_text_is_the_one_that_is_documented() {
        for (mode, name, text) in [
            (Mode::Exclusive, "stock/42", "lk1.x.7.stock%2F42"),
            (Mode::Shared, "a.b.c", "lk1.s.7.a.b.c"),
            (Mode::Permits(3), "h.x", "lk1.p3.7.h%2Ex"),
        ] {
            let sequencer =
                Sequencer::new(LockName::new(name).unwrap(), mode, "7".parse().unwrap());
            assert_eq!(sequencer.to_string(), text);
            assert_eq!(text.parse::<Sequencer>().unwrap(), sequencer);
            let json = serde_json::to_string(&sequencer).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Sequencer>(&json).unwrap(), sequencer);
        }
    }

    #[test]
    fn what_does_not_round_trip_is_refused() {
        for text in [
            "",
            "lk1",
            "lk1.x.7",
            "lk1.x.7.",
            "lk2.x.7.a",
            "LK1.x.7.a",
            "lk1.X.7.a",
            "lk1.y.7.a",
            "lk1.p.7.a",
            "lk1.p0.7.a",
            "lk1.p03.7.a",
            "lk1.p+3.7.a",
            "lk1.p4294967296.7.a",
            "lk1.x.07.a",
            "lk1.x.0.a",
            "lk1.x.-7.a",
            "lk1.x.7.a/b",
            "lk1.x.7.a%2fb",
            "lk1.x.7.%61",
            "lk1.x.7.a%00",
            "lk1.x.7.%FF",
            "lk1.x.7.a%",
            "lk1.x.7.a.",
            "lk1.x.7..a",
            " lk1.x.7.a",
            "lk1.x.7.a\n",
        ] {
            let error = text.parse::<Sequencer>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Invalid, "{text:?}");
            assert!(!error.to_string().contains('\n'));
        }
    }

    proptest! {
        #[test]
        fn every_grant_round_trips(mode in modes(), epoch in 0..512_u16, raw in 1..1_u64 << 54, name in "\\PC{1,60}") {
            let Ok(name) = LockName::new(&name) else { return Ok(()) };
            let sequencer = Sequencer::new(name, mode, FencingToken::new(epoch, raw).unwrap());
            let text = sequencer.to_string();
            prop_assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.%-".contains(&b)), "{}", text);
            prop_assert_eq!(text.parse::<Sequencer>().unwrap(), sequencer);
        }

        #[test]
        fn what_is_accepted_is_what_it_prints(text in "\\PC*|lk1\\.[xsp][0-9]{0,2}\\.[0-9]{1,3}\\.[a-c.%0-9A-F]{1,9}") {
            if let Ok(sequencer) = text.parse::<Sequencer>() {
                prop_assert_eq!(sequencer.to_string(), text);
            }
        }
    }
}
