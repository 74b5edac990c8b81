//! What a register has to do.

use std::fmt::{Debug, Display};
use std::sync::Arc;

use async_trait::async_trait;

use super::{Versioned, Write};
use crate::{Error, Result, name};

/// The longest value, in bytes: 512 KiB, so that it fits wherever registers are kept.
pub const MAX_VALUE: usize = 512 * 1024;

/// Values with versions, each under a key: what [`update`](super::update) needs of a store.
///
/// A key is what can be the name of a lock: 1 to 255 bytes of UTF-8 without control characters, compared byte by byte.
/// A value has at most [`MAX_VALUE`] bytes. `Display` names the register in messages, without secrets.
#[async_trait]
pub trait Register: Debug + Display + Send + Sync + 'static {
    /// What is there; `None` for a key that was never written. It is never older than what an earlier answer of this
    /// register has shown.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for what cannot be a key; `Unavailable` when the register did not answer.
    ///
    /// # Cancel safety
    /// It changes nothing, and may be dropped.
    async fn load(&self, key: &str) -> Result<Option<Versioned>>;

    /// Writes if the version is the expected one: compares, and sets value, version and writer, in one step.
    ///
    /// Implementations send it once: what was not answered must not be repeated where nobody knows of it.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for what cannot be a key or a value. An error without
    /// [effect](Error::effect) says that it was not done and never will be; one with `Effect::Unknown` that it may have
    /// been done, or may be done later.
    ///
    /// # Cancel safety
    /// Dropped after the first poll, its outcome is unknown.
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

/// What a register answers to a write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Swap {
    /// It was done, and is kept as long as the register keeps anything.
    Done,
    /// Another version is there, as shown, at the very moment of the comparison. This request did nothing; whether an
    /// earlier copy of it did, its writers tell ([`Fate::of`](super::Fate::of)).
    Conflict(Option<Versioned>),
}

/// Whether this can be a key.
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid) if it cannot.
pub fn check_key(key: &str) -> Result<()> {
    let Some(problem) = name::problem(key) else { return Ok(()) };
    let shown: String = key.chars().take(40).collect();
    Err(Error::invalid(format!("{shown:?} cannot be the key of a register: {problem}"))
        .with_remedy("a key of 1 to 255 bytes without control characters"))
}

/// Whether this can be written.
///
/// # Errors
/// [`Invalid`](crate::ErrorKind::Invalid) if it cannot.
pub fn check_write(key: &str, write: &Write) -> Result<()> {
    check_key(key)?;
    if write.value().len() <= MAX_VALUE {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a value of {} bytes for the key {key:?}: at most {MAX_VALUE} fit",
        write.value().len()
    ))
    .with_remedy("to keep the data elsewhere, and where it is in the register"))
}
