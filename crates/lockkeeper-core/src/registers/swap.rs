//! One write, up to its end: the client sends it, and reads the register again if no answer came.

use super::policy::Tries;
use super::{Fate, Outcome, Policy, Register, Swap, Version, Write};
use crate::{Effect, Error, ErrorKind, Result};

/// Does a write, and returns its outcome. If no answer comes, `swap` reads the register again, and
/// sends the same write again as long as no other write has made its version. So the write is done
/// at most once.
///
/// The function is for a write on a version that a client has seen, for instance in an `If-Match`
/// of a request:
///
/// ```
/// use lockkeeper::optimistic::{MemoryRegister, Outcome, Policy, Version, Write, swap};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> lockkeeper::Result<()> {
/// let register = MemoryRegister::new();
/// let policy = Policy::default();
/// let first = swap(&policy, &register, "page/home", &Write::new(Version::ABSENT, "hello")).await?;
/// assert!(matches!(first, Outcome::Done(version) if version == Version::new(1)));
/// // Two people edit version 1.
/// let ours = swap(&policy, &register, "page/home", &Write::new(Version::new(1), "hello, you")).await?;
/// let theirs = swap(&policy, &register, "page/home", &Write::new(Version::new(1), "good day")).await?;
/// assert!(matches!((ours, theirs), (Outcome::Done(_), Outcome::Conflict)));
/// # Ok(())
/// # }
/// ```
///
/// Make a new [`Write`] for each call. [`settle`] goes on with a write that is
/// [`Unknown`](Outcome::Unknown). Runs in a tokio runtime with timers enabled.
///
/// # Errors
/// The errors of [`Register::compare_and_swap`] without effect: the write was not done, and never
/// will be.
///
/// # Cancel safety
/// If the future is dropped, the write may have been done, or may be done later; at most once.
pub async fn swap<R>(
    policy: &Policy,
    register: &R,
    key: &str,
    write: &Write,
) -> Result<Outcome<Version>>
where
    R: Register + ?Sized,
{
    place(register, key, write, &mut policy.start()?).await
}

/// Goes on with a write whose outcome was [`Unknown`](Outcome::Unknown): reads the register first,
/// and sends the write again only if no other write has made its version. For a write that is no
/// longer wanted, [load](Register::load) the value and look at its [`Fate`] instead.
///
/// Runs in a tokio runtime with timers enabled.
///
/// # Errors
/// Only [`Invalid`](ErrorKind::Invalid), for a write that cannot have been sent. An unknown outcome
/// stays [`Unknown`](Outcome::Unknown) until the register answers.
///
/// # Cancel safety
/// As [`swap`].
pub async fn settle<R>(
    policy: &Policy,
    register: &R,
    key: &str,
    write: &Write,
) -> Result<Outcome<Version>>
where
    R: Register + ?Sized,
{
    super::check_write(key, write)?;
    let before =
        Error::new(ErrorKind::Unavailable, "its outcome was not known").with_unknown_effect();
    let writing = Writing { register, key, write };
    Ok(writing.settle(before, &mut policy.start()?).await)
}

/// [`swap`] as a part of a longer operation.
pub(super) async fn place<R>(
    register: &R,
    key: &str,
    write: &Write,
    tries: &mut Tries,
) -> Result<Outcome<Version>>
where
    R: Register + ?Sized,
{
    let writing = Writing { register, key, write };
    loop {
        match writing.send(tries).await {
            Ok(Swap::Done) => return Ok(Outcome::Done(write.makes())),
            // Only this one request can have done the write: the network made a copy.
            Ok(Swap::Conflict(current)) if Fate::of(write, current.as_ref()) == Fate::Done => {
                return Ok(Outcome::Done(write.makes()));
            }
            Ok(Swap::Conflict(_)) => return Ok(Outcome::Conflict),
            Err(error) if error.effect() == Effect::Unknown => {
                return Ok(writing.settle(error, tries).await);
            }
            // No copy is under way, so the write can be sent again.
            Err(error) if error.is_retryable() && tries.again().await => {}
            Err(error) => return Err(about(key, error)),
        }
    }
}

/// An error that names its key.
pub(super) fn about(key: &str, error: Error) -> Error {
    error.at(&format!("key {key:?}"))
}

/// A write under way.
struct Writing<'a, R: ?Sized> {
    register: &'a R,
    key: &'a str,
    write: &'a Write,
}

impl<R: Register + ?Sized> Writing<'_, R> {
    async fn send(&self, tries: &Tries) -> Result<Swap> {
        tries.answer(self.register.compare_and_swap(self.key, self.write)).await
    }

    /// Finds out the outcome of the write: reads the register, and sends the write again while its
    /// place is free. From here on, errors leave the outcome in doubt. Only an answer that shows
    /// the writer of the place ends the doubt.
    async fn settle(&self, mut doubt: Error, tries: &mut Tries) -> Outcome<Version> {
        while tries.again().await {
            let fate = match self.look(tries).await {
                Ok(Fate::Open) => self.send_again(tries).await,
                looked => looked,
            };
            match fate {
                Ok(Fate::Done) => return Outcome::Done(self.write.makes()),
                Ok(Fate::Never) => return Outcome::Conflict,
                Ok(Fate::Forgotten) => return Outcome::Unknown(self.forgotten()),
                Ok(Fate::Open) => {}
                Err(error) if error.is_retryable() => doubt = error,
                Err(error) => return Outcome::Unknown(self.open(&error)),
            }
        }
        Outcome::Unknown(self.open(&doubt))
    }

    async fn look(&self, tries: &Tries) -> Result<Fate> {
        let current = tries.answer(self.register.load(self.key)).await?;
        Ok(Fate::of(self.write, current.as_ref()))
    }

    /// Sends the write again with the same writer and the same version: at most one of its copies
    /// is done.
    async fn send_again(&self, tries: &Tries) -> Result<Fate> {
        Ok(match self.send(tries).await? {
            Swap::Done => Fate::Done,
            Swap::Conflict(current) => Fate::of(self.write, current.as_ref()),
        })
    }

    fn open(&self, why: &Error) -> Error {
        let problem = format!(
            "{}: {}; whether version {} was written is not known; until another client writes, it may still be written",
            self.register,
            why.message(),
            self.write.makes(),
        );
        let error = Error::new(why.kind(), problem)
            .with_remedy("call settle() later, or check the writers of the value");
        about(self.key, error.with_unknown_effect())
    }

    fn forgotten(&self) -> Error {
        let problem = format!(
            "{}: the answer to the write of version {} was lost, and the register has forgotten which write made that \
             version; the write was done then, or never will be",
            self.register,
            self.write.makes(),
        );
        let error = Error::new(ErrorKind::Conflict, problem)
            .with_remedy("check whether the value has the change");
        about(self.key, error.with_unknown_effect())
    }
}
