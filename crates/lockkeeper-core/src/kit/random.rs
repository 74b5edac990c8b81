//! The one source of randomness. Ids authorise a release, so they come from the operating system.

use std::time::Duration;

/// 128 random bits.
///
/// If the operating system refuses random numbers (a kernel before its first entropy, a sandbox
/// without the call), there is no safe way to go on: with a guessed id, a stranger could release
/// the lock.
pub fn bits128() -> [u8; 16] {
    #[cfg(feature = "testing")]
    if let Some(bits) = sown::bits128() {
        return bits;
    }
    let mut bytes = [0; 16];
    loop {
        match getrandom::fill(&mut bytes) {
            Ok(()) => return bytes,
            // The call was interrupted, or is not ready yet: on Linux, only these two errors occur,
            // and both pass.
            Err(_) => std::thread::yield_now(),
        }
    }
}

#[cfg(feature = "testing")]
pub use sown::sow;

/// The numbers of one thread by a seed, for tests that have to be repeatable.
#[cfg(feature = "testing")]
mod sown {
    use std::cell::RefCell;

    use crate::seeded::Seeded;

    thread_local! {
        static SEED: RefCell<Option<Seeded>> = const { RefCell::new(None) };
    }

    /// The drop ends the sequence of the seed.
    #[derive(Debug)]
    pub struct Sown(());

    /// Takes this thread's numbers from this seed from now on.
    pub fn sow(seed: u64) -> Sown {
        SEED.with_borrow_mut(|sown| *sown = Some(Seeded::new(seed)));
        Sown(())
    }

    impl Drop for Sown {
        fn drop(&mut self) {
            SEED.with_borrow_mut(|sown| *sown = None);
        }
    }

    pub(super) fn bits128() -> Option<[u8; 16]> {
        SEED.with_borrow_mut(|sown| {
            let sown = sown.as_mut()?;
            let mut bits = [0; 16];
            bits[..8].copy_from_slice(&sown.number().to_le_bytes());
            bits[8..].copy_from_slice(&sown.number().to_le_bytes());
            Some(bits)
        })
    }
}

/// A number below `bound`, or 0 when `bound` is 0. Good for spreading load, not for drawing lots.
pub fn below(bound: u64) -> u64 {
    let bytes = bits128();
    let mut low = [0; 8];
    low.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(low).checked_rem(bound).unwrap_or(0)
}

/// `d`, shortened by a random part of up to a fifth, so many clients do not act in step.
pub fn jittered(d: Duration) -> Duration {
    let fifth = u64::try_from(d.as_nanos() / 5).unwrap_or(u64::MAX);
    d - Duration::from_nanos(below(fifth + 1).min(fifth))
}
