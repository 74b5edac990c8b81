//! The search for an order: the algorithm of Wing and Gong, with Lowe's memory of failed states.

use std::collections::HashSet;

use super::{Effect, Lock, Step};

/// The search gives up after this number of states.
const STATES_MAX: usize = 2_000_000;

/// Whether the steps fit an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is an order.
    Yes,
    /// There is no order.
    No,
    /// The search took too long.
    Undecided,
}

/// Decides whether these steps fit one order, each between its beginning and its end, that a lock
/// of this capacity allows. A step without an end may be left out.
///
/// # How it searches
/// The search is depth first, and begins with the steps that have to end first. The search
/// remembers each set of steps that led nowhere, since the set determines the state of the lock.
/// Three rules keep the search narrow, and leave nothing out:
/// - grants come in the order of their tokens;
/// - a refusal that is possible is taken at once, since it changes nothing;
/// - a step without an end is taken only if another step is stuck without it, now or with its token
///   later.
pub fn linearize(capacity: u32, steps: &[Step]) -> Answer {
    Search::new(steps).run(Lock::new(capacity))
}

struct Search {
    /// In the order in which they began.
    steps: Vec<Step>,
    /// The steps that have to happen: in the order in which they began, in the order in which they
    /// ended, and the grants among them in the order of their tokens.
    musts: Vec<usize>,
    ends: Vec<usize>,
    grants: Vec<usize>,
    /// The steps that may be left out.
    options: Vec<usize>,
    refuses: bool,
    taken: Taken,
    in_vain: HashSet<Vec<u64>>,
}

/// A state of the search, and its next steps.
struct Frame {
    lock: Lock,
    by: Option<usize>,
    choices: Vec<usize>,
    /// How many steps at the front of `musts`, of `ends` and of `grants` are taken. Taken steps may
    /// follow behind them.
    passed: [usize; 3],
}

impl Search {
    fn new(steps: &[Step]) -> Self {
        let mut steps = steps.to_vec();
        steps.sort_by_key(|step| (step.began, step.ended));
        let (musts, options): (Vec<usize>, Vec<usize>) =
            (0..steps.len()).partition(|&step| steps[step].ended.is_some());
        let mut ends = musts.clone();
        ends.sort_by_key(|&step| steps[step].ended);
        let mut grants: Vec<usize> =
            musts.iter().copied().filter(|&s| steps[s].effect.token().is_some()).collect();
        grants.sort_by_key(|&step| steps[step].effect.token());
        let refuses = steps.iter().any(|step| step.effect.is_refusal());
        let taken = Taken(vec![0; steps.len().div_ceil(64)]);
        Self { steps, musts, ends, grants, options, refuses, taken, in_vain: HashSet::new() }
    }

    fn run(mut self, lock: Lock) -> Answer {
        let mut states = 0_usize;
        let mut path = vec![self.frame(lock, None, [0; 3])];
        while let Some(frame) = path.last_mut() {
            if frame.passed[1] == self.ends.len() {
                return Answer::Yes;
            }
            let Some(next) = frame.choices.pop() else {
                let by = frame.by;
                path.pop();
                self.in_vain.insert(self.taken.key());
                by.into_iter().for_each(|by| self.taken.put_back(by));
                continue;
            };
            let Some(lock) = frame.lock.after(&self.steps[next].effect) else { continue };
            let passed = frame.passed;
            self.taken.take(next);
            if !self.in_vain.is_empty() && self.in_vain.contains(&self.taken.key()) {
                self.taken.put_back(next);
                continue;
            }
            states += 1;
            if states > STATES_MAX {
                return Answer::Undecided;
            }
            path.push(self.frame(lock, Some(next), passed));
        }
        Answer::No
    }

    fn frame(&self, lock: Lock, by: Option<usize>, mut passed: [usize; 3]) -> Frame {
        for (list, passed) in [&self.musts, &self.ends, &self.grants].into_iter().zip(&mut passed) {
            *passed += list[*passed..].iter().take_while(|&&step| self.taken.has(step)).count();
        }
        let mut choices = self.choices(&lock, passed);
        // The search pops the last choice first.
        choices.reverse();
        Frame { lock, by, choices, passed }
    }

    fn choices(&self, lock: &Lock, passed: [usize; 3]) -> Vec<usize> {
        let Some(first_end) = self.ends.get(passed[1]).map(|&step| self.steps[step].ended) else {
            return Vec::new();
        };
        let within = |&step: &usize| Some(self.steps[step].began) <= first_end;
        let next_grant = self.grants.get(passed[2]).copied();
        let can = |step: usize| {
            let effect = &self.steps[step].effect;
            let in_turn = effect.token().is_none()
                || self.steps[step].ended.is_none()
                || next_grant == Some(step);
            in_turn && lock.after(effect).is_some()
        };
        let near = self.musts[passed[0]..]
            .iter()
            .copied()
            .take_while(within)
            .filter(|&step| !self.taken.has(step));
        let (mut now, stuck): (Vec<usize>, Vec<usize>) = near.partition(|&step| can(step));
        let harmless = |&&step: &&usize| {
            let effect = &self.steps[step].effect;
            effect.is_refusal() || (effect.gives_way() && !self.refuses)
        };
        if let Some(&step) = now.iter().find(harmless) {
            return vec![step];
        }
        now.sort_by_key(|&step| self.steps[step].ended);
        let options = self.options.iter().copied().take_while(within);
        let helps = self.helpful(&now, &stuck);
        let options: Vec<usize> =
            options.filter(|&step| !self.taken.has(step) && helps(step) && can(step)).collect();
        now.extend(options);
        now
    }

    /// Which optional steps are worth a try. An optional step that gives way helps a step that is
    /// stuck. An optional grant helps a stuck step that is no grant, since that step needs a
    /// holder. An optional grant also has to come before a grant with a higher token.
    fn helpful<'a>(&'a self, now: &[usize], stuck: &[usize]) -> impl Fn(usize) -> bool + use<'a> {
        let effect = |&step: &usize| &self.steps[step].effect;
        let others_stuck =
            stuck.iter().map(effect).any(|effect| !matches!(effect, Effect::Grant { .. }));
        let next_token = now.iter().map(effect).filter_map(Effect::token).next();
        let any_stuck = !stuck.is_empty();
        move |step| match self.steps[step].effect {
            Effect::Grant { token, .. } | Effect::Swap { token, .. } => {
                others_stuck || next_token.is_some_and(|next| token < next)
            }
            _ => any_stuck,
        }
    }
}

/// A set of steps.
struct Taken(Vec<u64>);

impl Taken {
    fn has(&self, step: usize) -> bool {
        self.0[step / 64] >> (step % 64) & 1 == 1
    }

    fn take(&mut self, step: usize) {
        self.0[step / 64] |= 1 << (step % 64);
    }

    fn put_back(&mut self, step: usize) {
        self.0[step / 64] &= !(1 << (step % 64));
    }

    /// The set as a key: without the full words at the front, which it counts, and without the
    /// empty words at the end.
    fn key(&self) -> Vec<u64> {
        let full = self.0.iter().take_while(|&&word| word == u64::MAX).count();
        let end =
            self.0.iter().rposition(|&word| word != 0).map_or(full, |last| last + 1).max(full);
        std::iter::once(full as u64).chain(self.0[full..end].iter().copied()).collect()
    }
}
