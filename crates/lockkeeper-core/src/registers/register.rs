//! The contract of a register.

use std::fmt::{Debug, Display};
use std::sync::Arc;

use async_trait::async_trait;

use super::{Versioned, Write};
use crate::{Error, Result, name};

/// The largest value, in bytes: 512 KiB, so that it fits on every store that has registers.
pub const MAX_VALUE: usize = 512 * 1024;

/// Values with versions, each under a key: the part of a store that [`update`](super::update)
/// needs.
///
/// The rules for keys are those for names of locks: 1 to 255 bytes of UTF-8 without control
/// characters, compared byte by byte. A value has at most [`MAX_VALUE`] bytes. `Display` names the
/// register in messages, without secrets.
#[async_trait]
pub trait Register: Debug + Display + Send + Sync + 'static {
    /// Loads the value of a key; `None` for a key that was never written. The value is never older
    /// than one that an earlier answer of this register has shown.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a text that cannot be a key; `Unavailable` when
    /// the register did not answer.
    ///
    /// # Cancel safety
    /// The call changes nothing, and the future may be dropped.
    async fn load(&self, key: &str) -> Result<Option<Versioned>>;

    /// Writes if the version is the expected one: compares, and sets value, version and writer, in
    /// one step.
    ///
    /// An implementation sends the write once. It must not repeat a write without an answer, since
    /// its caller would not know.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for an impossible key or value. An error without
    /// [effect](Error::effect) means that the write was not done and never will be. An error with
    /// `Effect::Unknown` means that the write may have been done, or may be done later.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the outcome of the write is unknown.
    async fn compare_and_swap(&self, key: &str, write: &Write) -> Result<Swap>;
}

/// A shared register is a register.
#[async_trait]
impl<R: Register + ?Sized> Register for Arc<R> {
    async fn load(&self, key: &str) -> Result<Option<Versioned>> {
        (**self).load(key).await
    }

    async fn compare_and_swap(&self, key: &str, write: &Write) -> Result<Swap> {
        (**self).compare_and_swap(key, write).await
    }
}

/// The answer of a register to a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The write was done. It is kept as long as the register keeps its data.
    Done,
    /// The register had this other version at the moment of the comparison. This request did
    /// nothing. The writers of that version show whether an earlier copy of the request was done
    /// ([`Fate::of`](super::Fate::of)).
    Conflict(Option<Versioned>),
}

/// Checks whether this text can be a key.
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid) if the text cannot be a key.
pub fn check_key(key: &str) -> Result<()> {
    let Some(problem) = name::problem(key) else { return Ok(()) };
    let shown = name::shown(key);
    Err(Error::invalid(format!("{shown} cannot be the key of a register: {problem}"))
        .with_remedy("a key of 1 to 255 bytes without control characters"))
}

/// Checks whether this write can be done under this key.
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid) if the register cannot store the write.
pub fn check_write(key: &str, write: &Write) -> Result<()> {
    check_key(key)?;
    if write.value().len() <= MAX_VALUE {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a value of {} bytes for the key {key:?}: at most {MAX_VALUE} fit",
        write.value().len()
    ))
    .with_remedy("keep the data elsewhere, and only its place in the register"))
}
