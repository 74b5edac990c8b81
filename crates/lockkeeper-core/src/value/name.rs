//! The name of a lock, and its form in a store.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use data_encoding::BASE32_NOPAD;
use sha2::{Digest, Sha256};

use crate::Error;

/// How many characters of a text an error shows.
const SHOWN: usize = 40;

/// The name of a lock: 1 to 255 bytes of UTF-8 without control characters, compared byte by byte.
///
/// ```
/// use lockkeeper::LockName;
///
/// let name: LockName = "stock/42".parse()?;
/// assert_eq!(name.encoded(), "stock%2F42");
/// assert!("".parse::<LockName>().is_err());
/// # Ok::<(), lockkeeper::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(Arc<str>);

impl LockName {
    /// The longest name, in bytes.
    pub const MAX_LEN: usize = 255;

    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for an empty name, one of more than 255 bytes, or one
    /// with a control character.
    pub fn new(name: &str) -> Result<Self, Error> {
        let Some(problem) = problem(name) else { return Ok(Self(name.into())) };
        let shown = shown(name);
        Err(Error::invalid(format!("{shown} cannot be the name of a lock: {problem}"))
            .with_remedy("a name of 1 to 255 bytes without control characters"))
    }

    /// This name with a prefix before it.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) when both together are too long.
    #[doc(hidden)]
    pub fn under(&self, prefix: &str) -> Result<Self, Error> {
        if prefix.is_empty() {
            return Ok(self.clone());
        }
        let len = prefix.len() + self.0.len();
        if len > Self::MAX_LEN {
            let problem = format!(
                "with the prefix {prefix:?} it has {len} bytes; at most {} fit",
                Self::MAX_LEN
            );
            return Err(Error::invalid(problem)
                .with_remedy("a shorter name or prefix")
                .about(self.clone()));
        }
        Ok(Self(format!("{prefix}{}", self.0).into()))
    }

    /// The part of this name after a prefix: the reverse of [`under`](Self::under). `None` if there
    /// is none.
    #[doc(hidden)]
    pub fn within(&self, prefix: &str) -> Option<Self> {
        if prefix.is_empty() {
            return Some(self.clone());
        }
        self.0.strip_prefix(prefix).filter(|rest| !rest.is_empty()).map(|rest| Self(rest.into()))
    }

    /// The name as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as native layouts write it. All characters but `[A-Za-z0-9_-]` and inner dots are
    /// percent-encoded. If the result would be longer than 255 bytes, it is `h.` and the base32 of
    /// the SHA-256 of the name instead. Two names never share an encoding.
    pub fn encoded(&self) -> String {
        let encoded = encode(&self.0);
        if encoded.len() <= Self::MAX_LEN {
            return encoded;
        }
        format!("h.{}", BASE32_NOPAD.encode(&Sha256::digest(self.0.as_bytes())))
    }
}

/// The text in quotes, for an error: a text that is too long for a line ends with an ellipsis.
#[doc(hidden)]
pub fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}", format!("{}…", &text[..end])),
        None => format!("{text:?}"),
    }
}

/// Why this text cannot be a name, if that is so.
#[doc(hidden)]
pub fn problem(name: &str) -> Option<String> {
    if name.is_empty() {
        Some("it is empty".to_owned())
    } else if name.len() > LockName::MAX_LEN {
        Some(format!("it has {} bytes", name.len()))
    } else {
        let control = name.chars().find(|c| c.is_control());
        control.map(|c| format!("it contains the control character {c:?}"))
    }
}

/// Checks whether a prefix can come before a name.
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid) if the prefix leaves no room for a name, or has a control
/// character.
#[doc(hidden)]
pub fn check_prefix(prefix: &str) -> Result<(), Error> {
    let most = LockName::MAX_LEN - 1;
    let problem = if prefix.len() > most {
        format!("it has {} bytes, and leaves no room for a name", prefix.len())
    } else if let Some(c) = prefix.chars().find(|c| c.is_control()) {
        format!("it contains the control character {c:?}")
    } else {
        return Ok(());
    };
    let shown = shown(prefix);
    Err(Error::invalid(format!("{shown} cannot be the prefix of a name: {problem}"))
        .with_remedy(format!("a prefix of at most {most} bytes without control characters")))
}

/// Percent-encodes all but `[A-Za-z0-9_-]` and dots that are neither first nor last; `h.` at the
/// start is encoded too, since it marks a hash.
#[doc(hidden)]
pub fn encode(name: &str) -> String {
    let last = name.len().saturating_sub(1);
    let hash_like = name.starts_with("h.");
    let mut encoded = String::with_capacity(name.len());
    for (i, byte) in name.bytes().enumerate() {
        let inner_dot = byte == b'.' && i != 0 && i != last && !(hash_like && i == 1);
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || inner_dot {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push(char::from(b"0123456789ABCDEF"[usize::from(byte >> 4)]));
            encoded.push(char::from(b"0123456789ABCDEF"[usize::from(byte & 15)]));
        }
    }
    encoded
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl FromStr for LockName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::new(name)
    }
}

impl TryFrom<&str> for LockName {
    type Error = Error;

    fn try_from(name: &str) -> Result<Self, Error> {
        Self::new(name)
    }
}

impl TryFrom<String> for LockName {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        Self::new(&name)
    }
}

impl TryFrom<&String> for LockName {
    type Error = Error;

    fn try_from(name: &String) -> Result<Self, Error> {
        Self::new(name)
    }
}

impl TryFrom<&Self> for LockName {
    type Error = Error;

    fn try_from(name: &Self) -> Result<Self, Error> {
        Ok(name.clone())
    }
}

impl AsRef<str> for LockName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for LockName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bad_names_are_refused() {
        for bad in ["", "a\0b", "a\nb", "\u{7f}", "\u{85}", &"x".repeat(256)] {
            assert_eq!(
                LockName::new(bad).unwrap_err().kind(),
                crate::ErrorKind::Invalid,
                "{bad:?}"
            );
        }
        assert!(LockName::new(&"x".repeat(255)).is_ok());
    }

    #[test]
    fn a_text_that_is_cut_ends_with_an_ellipsis() {
        assert_eq!(shown(&"é".repeat(40)), format!("{:?}", "é".repeat(40)));
        assert_eq!(shown(&"é".repeat(41)), format!("\"{}…\"", "é".repeat(40)));
        for error in [
            LockName::new(&"x".repeat(300)).unwrap_err(),
            check_prefix(&"x".repeat(300)).unwrap_err(),
        ] {
            assert!(
                error.message().starts_with(&format!("\"{}…\" cannot be the ", "x".repeat(40))),
                "{error}"
            );
        }
    }

    #[test]
    fn encodings_are_those_that_are_documented() {
        for (name, encoded) in [
            ("a.b-c_D9", "a.b-c_D9"),
            (".", "%2E"),
            ("..", "%2E%2E"),
            (".a.", "%2Ea%2E"),
            ("h.a", "h%2Ea"),
            ("h.", "h%2E"),
            ("a{b}*", "a%7Bb%7D%2A"),
            ("é", "%C3%A9"),
            ("100%", "100%25"),
        ] {
            assert_eq!(LockName::new(name).unwrap().encoded(), encoded);
        }
        assert!(LockName::new(&"/".repeat(86)).unwrap().encoded().starts_with("h."));
    }

    proptest! {
        #[test]
        fn encoding_is_injective_and_safe(a in "\\PC{1,90}", b in "\\PC{1,90}") {
            let (Ok(a), Ok(b)) = (LockName::new(&a), LockName::new(&b)) else { return Ok(()); };
            prop_assert_eq!(a == b, a.encoded() == b.encoded());
            let encoded = a.encoded();
            prop_assert!(encoded.len() <= 255 && encoded != "." && encoded != "..");
            prop_assert!(encoded.bytes().all(|c| c.is_ascii_alphanumeric() || b"_-.%".contains(&c)));
            if !encoded.starts_with("h.") {
                let back = percent_encoding::percent_decode_str(&encoded).decode_utf8().unwrap();
                prop_assert_eq!(back, a.as_str());
            }
        }
    }
}
