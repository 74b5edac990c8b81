//! Pauses between attempts that fail.

use std::time::Duration;

use super::random::jittered;

/// Pauses that double from `first` to `last`. A random part shortens each pause, so many clients do
/// not act in step.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    last: Duration,
    next: Duration,
}

impl Backoff {
    /// The first pause is `first`, and no pause is longer than `last`.
    pub const fn new(first: Duration, last: Duration) -> Self {
        Self { first, last, next: first }
    }

    /// The length of the next pause.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.last);
        jittered(pause)
    }

    /// An attempt has succeeded: the next pause is the first one again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pause of `n` ms, jittered.
    fn is_about(pause: Duration, n: u64) -> bool {
        (Duration::from_millis(n) * 4 / 5..=Duration::from_millis(n)).contains(&pause)
    }

    #[test]
    fn pauses_double_up_to_the_last_one_and_begin_again_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(300));
        for expected in [50, 100, 200, 300, 300] {
            let pause = backoff.pause();
            assert!(is_about(pause, expected), "{pause:?} and not {expected} ms");
        }
        backoff.reset();
        assert!(is_about(backoff.pause(), 50));
    }
}
