//! The outcome of a write, read from the content of a register.

use super::{Version, Versioned, Write};

/// The outcome of a write, as far as the register shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The write was done, once. Other writes may have replaced its value since.
    Done,
    /// Another write has made the version that this write would make. This write was not done, and
    /// never will be, even if a copy is still under way.
    Never,
    /// No write has made that version yet. A copy that is still under way may make it, until
    /// another write does.
    Open,
    /// Either the write was done and its value replaced since, or the write never will be done. Its
    /// version is older than the register remembers, so no copy that is under way can still do it.
    Forgotten,
}

impl Fate {
    /// Returns the outcome of `write`, where `current` was loaded after the write was sent.
    ///
    /// ```
    /// use lockkeeper::optimistic::{Fate, MemoryRegister, Register, Version, Write};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> lockkeeper::Result<()> {
    /// let register = MemoryRegister::new();
    /// let write = Write::new(Version::ABSENT, "7");
    /// assert_eq!(Fate::of(&write, register.load("stock").await?.as_ref()), Fate::Open);
    /// register.compare_and_swap("stock", &write).await?;
    /// assert_eq!(Fate::of(&write, register.load("stock").await?.as_ref()), Fate::Done);
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(write: &Write, current: Option<&Versioned>) -> Self {
        let Some(current) = current.filter(|current| Version::of(Some(current)) > write.expected())
        else {
            return Self::Open;
        };
        match current.writer_of(write.makes()) {
            Some(writer) if writer == write.writer() => Self::Done,
            Some(_) => Self::Never,
            None => Self::Forgotten,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::REMEMBERED;
    use super::*;

    /// The content after this number of writes by other clients.
    fn others(mut current: Option<Versioned>, writes: usize) -> Option<Versioned> {
        for _ in 0..writes {
            current = Some(Versioned::after(
                current.as_ref(),
                &Write::new(Version::of(current.as_ref()), ""),
            ));
        }
        current
    }

    #[test]
    fn it_is_reported_by_who_has_its_place() {
        for before in [0, 1, 5] {
            let start = others(None, before);
            let write = Write::new(Version::of(start.as_ref()), "mine");
            assert_eq!(Fate::of(&write, start.as_ref()), Fate::Open);

            let done = Some(Versioned::after(start.as_ref(), &write));
            for (later, fate) in [
                (0, Fate::Done),
                (1, Fate::Done),
                (REMEMBERED - 1, Fate::Done),
                (REMEMBERED, Fate::Forgotten),
            ] {
                assert_eq!(
                    Fate::of(&write, others(done.clone(), later).as_ref()),
                    fate,
                    "{later} later"
                );
            }
            for (later, fate) in
                [(1, Fate::Never), (REMEMBERED, Fate::Never), (REMEMBERED + 1, Fate::Forgotten)]
            {
                assert_eq!(
                    Fate::of(&write, others(start.clone(), later).as_ref()),
                    fate,
                    "{later} instead"
                );
            }
        }
    }
}
