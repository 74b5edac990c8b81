//! When a command runs again: after which ends, and after which pause.

use std::time::Duration;

use clap::ValueEnum;

use crate::exit::Exit;

/// The first pause is between this and half as much again; each is twice as long as the one before.
const FIRST: Duration = Duration::from_secs(1);
/// No pause is longer than this and half as much again: 30 s.
const LONGEST: Duration = Duration::from_secs(20);
/// A command that has lasted for this long was good: whatever ended it, the pauses start again from
/// the shortest.
const GOOD: Duration = Duration::from_secs(60);

/// After which ends of the command the leadership is campaigned for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Restart {
    /// When the command has failed, or the leadership was lost; the exit codes 0 and 64 (a wrong
    /// command line) end `elect`
    OnFailure,
    /// However the command ended
    Always,
    /// Never: as `run`
    Never,
}

impl Restart {
    /// Whether this end is one to go on after.
    pub(crate) fn follows(self, exit: Exit) -> bool {
        match self {
            // A command line that is wrong stays wrong. It may also be that of a lockkeeper that
            // waits for the lock of this leader.
            Self::OnFailure => ![Exit::Ok, Exit::Usage].map(Exit::code).contains(&exit.code()),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// How long to pause before each new try.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { next: FIRST }
    }

    /// The pause after a command that has lasted for this long. `random` is any number: candidates
    /// that failed together do not come back together.
    pub(crate) fn pause(&mut self, lasted: Duration, random: u64) -> Duration {
        let base = if lasted >= GOOD { FIRST } else { self.next };
        self.next = (base * 2).min(LONGEST);
        let half = u64::try_from(base.as_millis() / 2).unwrap_or(u64::MAX);
        base + Duration::from_millis(random % (half + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_failure_or_loss_leads_to_another_campaign_and_success_or_wrong_usage_ends() {
        let failures = [Exit::Child(1), Exit::Signal(9), Exit::Lost, Exit::Unavailable];
        for exit in failures {
            assert!(Restart::OnFailure.follows(exit) && Restart::Always.follows(exit), "{exit:?}");
        }
        for exit in [Exit::Child(0), Exit::Child(64)] {
            assert!(!Restart::OnFailure.follows(exit) && Restart::Always.follows(exit), "{exit:?}");
        }
        for exit in failures.into_iter().chain([Exit::Child(0), Exit::Child(64)]) {
            assert!(!Restart::Never.follows(exit), "{exit:?}");
        }
    }

    #[test]
    fn pauses_double_from_one_second_and_never_pass_thirty() {
        let pauses = |random| {
            let mut backoff = Backoff::new();
            [(); 7].map(|()| backoff.pause(S, random))
        };
        assert_eq!(pauses(0), [S, 2 * S, 4 * S, 8 * S, 16 * S, 20 * S, 20 * S]);
        for random in [1, 499, 500, 501, 7919, 10_000, u64::MAX] {
            for (pause, least) in pauses(random).into_iter().zip(pauses(0)) {
                assert!(pause >= least && pause <= least * 3 / 2 && pause <= 30 * S, "{pause:?}");
            }
        }
        assert_eq!(Backoff::new().pause(S, 500), S * 3 / 2);
    }

    #[test]
    fn a_command_that_lasted_resets_the_pauses() {
        let mut backoff = Backoff::new();
        for _ in 0..5 {
            backoff.pause(59 * S, 0);
        }
        assert_eq!(backoff.pause(59 * S, 0), 20 * S);
        assert_eq!(backoff.pause(60 * S, 0), S);
        assert_eq!(backoff.pause(Duration::ZERO, 0), 2 * S);
    }
}
