//! Text that is never printed.

use std::fmt;
use std::hint::black_box;

/// A password, a token or a private key: `Debug` and `Display` show `***`.
///
/// Dropping a secret overwrites its bytes, as far as safe code can promise that. It does not
/// overwrite copies from before `new`, or copies of the text that [`expose`](Self::expose) returns.
/// A secret has no comparison, hash or serialization, so no struct that derives them can bring it
/// into a log.
///
/// ```
/// use lockkeeper::Secret;
///
/// let password = Secret::new("correct horse");
/// assert_eq!(format!("{password} {password:?}"), "*** ***");
/// assert_eq!(password.expose(), "correct horse");
/// ```
#[derive(Clone, Default)]
pub struct Secret(String);

impl Secret {
    /// A secret with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.0).into_bytes();
        bytes.fill(0);
        // Keeps the compiler from removing the writes, whose results are never read.
        black_box(&bytes);
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_its_text_nor_its_length_is_shown() {
        for text in ["", "x", "a much longer secret"] {
            let secret = Secret::new(text);
            assert_eq!(
                format!("{secret}|{secret:?}|{:#?}|{secret:>9}", Some(&secret)),
                "***|***|Some(\n    ***,\n)|***"
            );
            assert_eq!((secret.expose(), secret.is_empty()), (text, text.is_empty()));
        }
    }
}
