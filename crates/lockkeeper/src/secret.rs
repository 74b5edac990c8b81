//! Text that is never printed.

use std::fmt;
use std::hint::black_box;

/// A password, a token or a private key: `Debug` and `Display` show `***`.
///
/// When it is dropped its bytes are overwritten, as far as safe code can promise that: copies that were made before
/// it got here, or from what [`expose`](Self::expose) returns, are out of its reach. It is not compared, hashed or
/// serialised, so that it does not get into a log by way of a struct that derives those.
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
    /// Takes the text over.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that sends it.
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
        // Keeps the compiler from leaving the writes out because nobody reads them.
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
