//! Any optimistic attempt, with its repetitions.

use super::Policy;
use crate::{Error, Result};

/// The outcome of an optimistic attempt. Exhaustive on purpose: a program must decide about each
/// case.
#[derive(Clone, Debug)]
pub enum Outcome<T> {
    /// The change was made, once.
    Done(T),
    /// The change was not made, and never will be: another client was faster.
    Conflict,
    /// The change may have been made, or may be made later. The error says what happened, and has
    /// [`Effect::Unknown`](crate::Effect::Unknown).
    Unknown(Error),
}

/// Repeats an optimistic attempt of any kind until it is done. Only a
/// [`Conflict`](Outcome::Conflict) is repeated. Each attempt has to read again what it is based on.
///
/// ```
/// use lockkeeper::optimistic::{Outcome, Policy, retry};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> lockkeeper::Result<()> {
/// # let rows = std::sync::Mutex::new([0, 0, 1].into_iter());
/// # let execute = async |_: &str| Ok::<_, lockkeeper::Error>(rows.lock().unwrap().next().unwrap());
/// let sold = retry(&Policy::default(), async || {
///     // … SELECT count, version, and with them:
///     let rows = execute("UPDATE stock SET count = ?, version = version + 1 WHERE id = ? AND version = ?").await?;
///     Ok::<_, lockkeeper::Error>(if rows == 1 { Outcome::Done("sold") } else { Outcome::Conflict })
/// })
/// .await?;
/// assert_eq!(sold, "sold");
/// # Ok(())
/// # }
/// ```
///
/// Runs in a tokio runtime with timers enabled.
///
/// # Errors
/// - the error that the attempt returns;
/// - the error of [`Unknown`](Outcome::Unknown), after which the caller must not repeat the change
///   blindly;
/// - [`Conflict`](crate::ErrorKind::Conflict) when the policy allows no further try. The last try
///   is not cut short.
///
/// # Cancel safety
/// That of the attempt.
// Not `AsyncFnMut`: the compiler cannot show then that a call in a spawned task is `Send`.
pub async fn retry<T, E, F, Attempt>(policy: &Policy, mut attempt: F) -> Result<T, E>
where
    E: From<Error>,
    F: FnMut() -> Attempt,
    Attempt: Future<Output = Result<Outcome<T>, E>>,
{
    let mut tries = policy.start()?;
    loop {
        match attempt().await? {
            Outcome::Done(done) => return Ok(done),
            Outcome::Unknown(error) => return Err(error.with_unknown_effect().into()),
            Outcome::Conflict if tries.again().await => {}
            Outcome::Conflict => return Err(tries.conflict().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Effect, ErrorKind};

    /// The number of tries with these outcomes, and the result.
    async fn tried(policy: Policy, outcomes: Vec<Result<Outcome<u8>>>) -> (usize, Result<u8>) {
        let (all, mut outcomes) = (outcomes.len(), outcomes.into_iter());
        let result =
            retry(&policy, || std::future::ready(outcomes.next().expect("no more tries"))).await;
        (all - outcomes.len(), result)
    }

    fn unavailable() -> Error {
        Error::new(ErrorKind::Unavailable, "gone")
    }

    #[tokio::test(start_paused = true)]
    async fn a_conflict_is_tried_again_and_nothing_else() {
        let policy = Policy::default;
        let (tries, done) = tried(
            policy(),
            vec![Ok(Outcome::Conflict), Ok(Outcome::Done(7)), Ok(Outcome::Done(8))],
        )
        .await;
        assert_eq!((tries, done.unwrap()), (2, 7));

        let (tries, unknown) =
            tried(policy(), vec![Ok(Outcome::Unknown(unavailable())), Ok(Outcome::Done(7))]).await;
        assert_eq!((tries, unknown.unwrap_err().effect()), (1, Effect::Unknown));

        let (tries, failed) = tried(policy(), vec![Err(unavailable()), Ok(Outcome::Done(7))]).await;
        assert_eq!((tries, failed.unwrap_err().effect()), (1, Effect::None));
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_tries_are_used_up_it_is_a_conflict() {
        let conflicts = vec![Ok(Outcome::Conflict), Ok(Outcome::Conflict), Ok(Outcome::Done(7))];
        let (tries, result) = tried(Policy::default().attempts(2), conflicts).await;
        let error = result.unwrap_err();
        assert_eq!((tries, error.kind(), error.effect()), (2, ErrorKind::Conflict, Effect::None));
        assert!(error.to_string().contains("(2 tries). Try: "), "{error}");
    }
}
