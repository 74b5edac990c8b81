//! The rule of the fence, as values that stores and `lockkeeper::fence` share.

mod reason;
pub mod redis;

use serde::{Deserialize, Serialize};

pub use self::reason::StaleReason;
use crate::{FencingToken, Mode};

/// The marks of a resource for one lock: the highest token of all holders that it has seen, and the
/// highest token of the exclusive holders.
///
/// An exclusive token passes if no newer token has passed. A shared token passes if no newer *and
/// exclusive* token has passed. With a single mark, the resource would refuse a reader as soon as a
/// newer reader came first.
///
/// `Marks` is a plain value, to store with the data (serialized, or as two columns).
///
/// ```
/// use lockkeeper::fence::Marks;
/// use lockkeeper::{FencingToken, Mode};
///
/// let token = |n: &str| n.parse::<FencingToken>();
/// let mut marks = Marks::default();
/// marks.admit(Mode::Shared, token("8")?)?;
/// marks.admit(Mode::Shared, token("7")?)?; // readers do not shut each other out,
/// assert!(marks.admit(Mode::Exclusive, token("7")?).is_err()); // but they do shut out an older writer
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Marks {
    /// The highest token that has passed; `None` before the first.
    pub any: Option<FencingToken>,
    /// The highest exclusive token that has passed; `None` before the first. Never higher than
    /// `any`.
    pub exclusive: Option<FencingToken>,
}

impl Marks {
    /// Marks from their stored values, for example from two columns of the protected row.
    pub fn new(any: Option<FencingToken>, exclusive: Option<FencingToken>) -> Self {
        Self { any: any.max(exclusive), exclusive }
    }

    /// Lets an access with this token pass, and shuts out older accesses that conflict with it. A
    /// token that has passed passes again, until a newer access that conflicts has passed.
    ///
    /// # Errors
    /// [`StaleReason::Older`] if a newer access that conflicts has passed; [`StaleReason::NoGate`]
    /// for permits. The marks do not change then.
    pub fn admit(&mut self, mode: Mode, token: FencingToken) -> Result<(), StaleReason> {
        let newest = match mode {
            // Marks from another store may contradict each other; an exclusive token also counts as
            // one of any.
            Mode::Exclusive => self.any.max(self.exclusive),
            Mode::Shared => self.exclusive,
            Mode::Permits(_) => return Err(StaleReason::NoGate),
        };
        if let Some(seen) = newest.filter(|seen| *seen > token) {
            return Err(StaleReason::Older { seen });
        }
        self.any = self.any.max(Some(token));
        if mode == Mode::Exclusive {
            self.exclusive = Some(token);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::admit::{Demand, admitted};

    fn token(n: u64) -> FencingToken {
        FencingToken::new(0, n).unwrap()
    }

    fn conflict(a: Mode, b: Mode) -> bool {
        a == Mode::Exclusive || b == Mode::Exclusive
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Join(Mode),
        Leave(usize),
        Downgrade(usize),
        Upgrade,
        /// A live holder sends a request that arrives at once.
        Access(usize),
        /// A holder sends a request. The request is under way.
        Send(usize),
        /// One of the requests under way arrives, perhaps not for the first time.
        Arrive(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => prop_oneof![Just(Mode::Exclusive), Just(Mode::Shared)].prop_map(Step::Join),
            2 => any::<usize>().prop_map(Step::Leave),
            1 => any::<usize>().prop_map(Step::Downgrade),
            1 => Just(Step::Upgrade),
            4 => any::<usize>().prop_map(Step::Access),
            2 => any::<usize>().prop_map(Step::Send),
            3 => any::<usize>().prop_map(Step::Arrive),
        ];
        prop::collection::vec(step, 0..60)
    }

    /// The line of readers and writers, the requests under way, and the accesses that have passed
    /// the gate.
    #[derive(Default)]
    struct World {
        marks: Marks,
        line: Vec<(Mode, FencingToken)>,
        last: u64,
        on_their_way: Vec<(Mode, FencingToken)>,
        passed: Vec<(Mode, FencingToken)>,
    }

    impl World {
        fn holders(&self) -> usize {
            admitted(self.line.iter().map(|(mode, _)| Demand {
                weight: if *mode == Mode::Exclusive { u32::MAX } else { 1 },
                capacity: u32::MAX,
                granted: false,
            }))
        }

        fn next_token(&mut self) -> FencingToken {
            self.last += 1;
            token(self.last)
        }

        fn holder(&self, pick: usize) -> Option<(Mode, FencingToken)> {
            pick.checked_rem(self.holders()).map(|i| self.line[i])
        }

        fn access(&mut self, mode: Mode, token: FencingToken) -> bool {
            let passes = self.marks.admit(mode, token).is_ok();
            if passes {
                let newer = self.passed.iter().find(|(m, t)| *t > token && conflict(*m, mode));
                assert_eq!(newer, None, "{mode} {token} passed after it");
                self.passed.push((mode, token));
            }
            passes
        }

        fn step(&mut self, step: Step) {
            match step {
                Step::Join(mode) => {
                    let token = self.next_token();
                    self.line.push((mode, token));
                }
                Step::Leave(pick) if !self.line.is_empty() => {
                    self.line.remove(pick % self.line.len());
                }
                Step::Downgrade(pick) => {
                    if let Some(i) = pick.checked_rem(self.holders()) {
                        self.line[i].0 = Mode::Shared;
                    }
                }
                // Only a claim alone in its line may be upgraded, and gets a new token.
                Step::Upgrade if self.line.len() == 1 => {
                    self.line[0] = (Mode::Exclusive, self.next_token())
                }
                Step::Access(pick) => {
                    if let Some((mode, token)) = self.holder(pick) {
                        assert!(
                            self.access(mode, token),
                            "the live holder {mode} {token} is refused"
                        );
                    }
                }
                Step::Send(pick) => self.on_their_way.extend(self.holder(pick)),
                Step::Arrive(pick) if !self.on_their_way.is_empty() => {
                    let (mode, token) = self.on_their_way[pick % self.on_their_way.len()];
                    self.access(mode, token);
                }
                Step::Leave(_) | Step::Upgrade | Step::Arrive(_) => {}
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn a_live_holder_passes_and_an_older_conflicting_one_never_after_a_newer(steps in steps()) {
            let mut world = World::default();
            for step in steps {
                world.step(step);
            }
        }
    }

    #[test]
    fn one_mark_for_all_would_refuse_a_live_reader() {
        let mut marks = Marks::default();
        for reader in [2, 1, 2] {
            marks.admit(Mode::Shared, token(reader)).unwrap();
        }
        assert_eq!(marks, Marks::new(Some(token(2)), None));
    }

    #[test]
    fn the_same_exclusive_token_passes_again_and_a_refusal_changes_nothing() {
        let mut marks = Marks::default();
        marks.admit(Mode::Exclusive, token(5)).unwrap();
        marks.admit(Mode::Exclusive, token(5)).unwrap();
        let before = marks;
        for mode in [Mode::Exclusive, Mode::Shared] {
            assert_eq!(marks.admit(mode, token(4)), Err(StaleReason::Older { seen: token(5) }));
        }
        assert_eq!(marks.admit(Mode::Permits(1), token(6)), Err(StaleReason::NoGate));
        assert_eq!(marks, before);
    }

    #[test]
    fn an_older_writer_is_refused_by_marks_that_contradict_themselves() {
        let read: Marks = serde_json::from_str(r#"{"any":"3","exclusive":"9"}"#).unwrap();
        let assigned = Marks { any: None, exclusive: Some(token(9)) };
        for mut marks in [read, assigned] {
            assert_eq!(
                marks.admit(Mode::Exclusive, token(4)),
                Err(StaleReason::Older { seen: token(9) })
            );
            marks.admit(Mode::Exclusive, token(9)).unwrap();
        }
    }

    #[test]
    fn marks_survive_being_kept_elsewhere() {
        let marks = Marks::new(None, Some(token(5)));
        assert_eq!(marks.any, Some(token(5)));
        let json = serde_json::to_string(&marks).unwrap();
        assert_eq!(json, r#"{"any":"5","exclusive":"5"}"#);
        assert_eq!(serde_json::from_str::<Marks>(&json).unwrap(), marks);
    }
}
