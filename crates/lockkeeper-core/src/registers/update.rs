//! Reads, computes and writes a value, and begins again if another client was faster.

use super::policy::Tries;
use super::swap::{about, place};
use super::{Outcome, Policy, Register, Version, Versioned, Write};
use crate::{Error, Result};

/// Changes a value: loads it, computes the new value from it, and writes that if no other client
/// was faster. Otherwise it begins again after a random pause, for up to 30 s
/// ([`Policy::default`]). Returns the new value with its version.
///
/// `compute` is an `async |old| …`. It gets the old value, or `None` for a key that was never
/// written. It may run several times, so it must not have side effects. The [module](super) has an
/// example. Runs in a tokio runtime with timers enabled.
///
/// # Errors
/// The errors of [`try_update`].
///
/// # Cancel safety
/// That of [`try_update`].
// Not `AsyncFnMut`: the compiler cannot show then that a call in a spawned task is `Send`.
pub async fn update<R, F, Computing>(register: &R, key: &str, mut compute: F) -> Result<Versioned>
where
    R: Register + ?Sized,
    F: FnMut(Option<Vec<u8>>) -> Computing,
    Computing: Future<Output = Vec<u8>>,
{
    let infallible = |old| {
        let computing = compute(old);
        async move { Ok(computing.await) }
    };
    try_update(&Policy::default(), register, key, infallible).await
}

/// The same as [`update`] with another policy, for a computation that may fail. If it fails,
/// nothing is written.
///
/// ```
/// use lockkeeper::optimistic::{MemoryRegister, Policy, try_update};
///
/// #[derive(Debug)]
/// enum SellError {
///     SoldOut,
///     Register(lockkeeper::Error),
/// }
///
/// impl From<lockkeeper::Error> for SellError {
///     fn from(error: lockkeeper::Error) -> Self {
///         Self::Register(error)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let register = MemoryRegister::new();
/// let sold = try_update(&Policy::default().attempts(3), &register, "stock/42", async |old: Option<Vec<u8>>| {
///     match old.as_deref() {
///         None | Some([0, ..] | []) => Err(SellError::SoldOut),
///         Some([count, ..]) => Ok(vec![count - 1]),
///     }
/// })
/// .await;
/// assert!(matches!(sold, Err(SellError::SoldOut)));
/// # }
/// ```
///
/// # Errors
/// The error that the computation returns, and these of the register:
/// - [`Conflict`](crate::ErrorKind::Conflict) without effect: another client was faster each time;
/// - any kind with [`Effect::Unknown`](crate::Effect::Unknown): no answer came, and the change may
///   have been made, or may be made later. It was not made twice, and the caller must not repeat it
///   blindly;
/// - any other: nothing was changed.
///
/// # Cancel safety
/// If the future is dropped, the change may have been made, or may be made later; at most once.
pub async fn try_update<R, E, F, Computing>(
    policy: &Policy,
    register: &R,
    key: &str,
    mut compute: F,
) -> Result<Versioned, E>
where
    R: Register + ?Sized,
    E: From<Error>,
    F: FnMut(Option<Vec<u8>>) -> Computing,
    Computing: Future<Output = Result<Vec<u8>, E>>,
{
    let mut tries = policy.start()?;
    loop {
        let current = load(register, key, &mut tries).await?;
        let expected = Version::of(current.as_ref());
        let value = compute(current.map(|current| current.value)).await?;
        let write = Write::new(expected, value);
        match place(register, key, &write, &mut tries).await? {
            Outcome::Done(_) => return Ok(write.into_versioned()),
            Outcome::Unknown(error) => return Err(error.into()),
            Outcome::Conflict if tries.again().await => {}
            Outcome::Conflict => {
                return Err(about(key, tries.conflict().at(&register.to_string())).into());
            }
        }
    }
}

async fn load<R: Register + ?Sized>(
    register: &R,
    key: &str,
    tries: &mut Tries,
) -> Result<Option<Versioned>> {
    loop {
        match tries.answer(register.load(key)).await {
            Err(error) if error.is_retryable() && tries.again().await => {}
            // A look changes nothing, with or without an answer.
            loaded => return loaded.map_err(|error| about(key, error.without_effect())),
        }
    }
}
