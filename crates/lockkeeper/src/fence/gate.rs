//! The gates: the rule behind a mutex, for one lock and for many.

use std::collections::HashMap;
use std::sync::Mutex;

use lockkeeper_core::sync::lock;

use super::{Marks, Stale, StaleReason};
use crate::{LockName, Sequencer};

/// The check of one resource, which one lock protects.
///
/// Call [`admit`](Self::admit) at the start of every access, and finish the access before a newer
/// one can pass. A call before the resource's own mutex is locked is too early: a newer access can
/// pass between the call and the mutex.
#[derive(Debug)]
pub struct FenceGate {
    name: LockName,
    marks: Mutex<Marks>,
}

impl FenceGate {
    /// A new gate without marks, for the resource that this lock protects.
    pub fn new(name: LockName) -> Self {
        Self::with_marks(name, Marks::default())
    }

    /// A gate that continues from stored marks.
    pub fn with_marks(name: LockName, marks: Marks) -> Self {
        Self { name, marks: Mutex::new(marks) }
    }

    /// The lock that protects the resource.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Lets an access pass, and shuts out older accesses that conflict with it.
    ///
    /// # Errors
    /// [`Stale`] when a newer access that conflicts has passed, when the sequencer belongs to
    /// another lock, or when it is for permits. The access must not happen then.
    pub fn admit(&self, sequencer: &Sequencer) -> Result<(), Stale> {
        of_lock(&self.name, sequencer)?;
        let verdict = lock(&self.marks).admit(sequencer.mode(), sequencer.token());
        verdict.map_err(|reason| Stale::new(sequencer.clone(), reason))
    }

    /// The marks of the gate, to store with the data.
    pub fn marks(&self) -> Marks {
        *lock(&self.marks)
    }
}

/// The check of many resources. The lock of its own name protects each of them.
///
/// The gate keeps some bytes for every name that it has seen. It forgets no name by itself, since
/// this would let an old holder in.
///
/// ```
/// use lockkeeper::Sequencer;
/// use lockkeeper::fence::KeyedFenceGate;
///
/// let gate = KeyedFenceGate::new();
/// gate.admit(&"lk1.x.9.stock%2F1".parse::<Sequencer>()?)?;
/// gate.admit(&"lk1.x.3.stock%2F2".parse::<Sequencer>()?)?; // another lock, another count
/// assert!(gate.admit(&"lk1.x.8.stock%2F1".parse::<Sequencer>()?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct KeyedFenceGate {
    marks: Mutex<HashMap<LockName, Marks>>,
}

impl KeyedFenceGate {
    /// A new gate without marks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets an access to the resource of this lock pass, and shuts out older accesses that conflict
    /// with it.
    ///
    /// # Errors
    /// [`Stale`] when a newer access that conflicts has passed, when the sequencer belongs to
    /// another lock, or when it is for permits. The access must not happen then.
    pub fn admit_for(&self, lock: &LockName, sequencer: &Sequencer) -> Result<(), Stale> {
        of_lock(lock, sequencer)?;
        self.admit(sequencer)
    }

    /// Like [`admit_for`](Self::admit_for), for requests in which only the sequencer names the
    /// resource. If the request names the resource too, use [`admit_for`](Self::admit_for), which
    /// compares: otherwise the holder of any lock could name any resource.
    ///
    /// # Errors
    /// [`Stale`] when a newer access that conflicts has passed, or when the sequencer is for
    /// permits. The access must not happen then.
    pub fn admit(&self, sequencer: &Sequencer) -> Result<(), Stale> {
        let mut all = lock(&self.marks);
        let mut marks = all.get(sequencer.name()).copied().unwrap_or_default();
        marks
            .admit(sequencer.mode(), sequencer.token())
            .map_err(|reason| Stale::new(sequencer.clone(), reason))?;
        all.insert(sequencer.name().clone(), marks);
        Ok(())
    }

    /// The marks of one lock.
    pub fn marks(&self, name: &LockName) -> Marks {
        lock(&self.marks).get(name).copied().unwrap_or_default()
    }

    /// Deletes the marks of a lock whose resource is gone for good.
    pub fn forget(&self, name: &LockName) {
        lock(&self.marks).remove(name);
    }
}

fn of_lock(expected: &LockName, sequencer: &Sequencer) -> Result<(), Stale> {
    if sequencer.name() == expected {
        return Ok(());
    }
    Err(Stale::new(sequencer.clone(), StaleReason::OtherLock { expected: expected.clone() }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{FencingToken, Mode};

    /// Few names and tokens, so the sequencers of a run conflict.
    fn sequencers() -> impl Strategy<Value = Vec<Sequencer>> {
        let mode = prop_oneof![
            4 => Just(Mode::Exclusive),
            4 => Just(Mode::Shared),
            1 => (1..4_u32).prop_map(Mode::Permits),
        ];
        let sequencer = ("[abc]", mode, 0..3_u16, 1..6_u64).prop_map(|(name, mode, epoch, raw)| {
            Sequencer::new(name.parse().unwrap(), mode, FencingToken::new(epoch, raw).unwrap())
        });
        prop::collection::vec(sequencer, 0..40)
    }

    /// The rule in its simplest form, with all accesses remembered: an access shuts out older
    /// accesses to the same lock, except a reader beside a reader.
    fn passes(passed: &[&Sequencer], s: &Sequencer) -> bool {
        let shut_out = |p: &&Sequencer| {
            p.name() == s.name()
                && p.token() > s.token()
                && [p.mode(), s.mode()].contains(&Mode::Exclusive)
        };
        !matches!(s.mode(), Mode::Permits(_)) && !passed.iter().any(shut_out)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn two_marks_decide_as_if_all_accesses_were_remembered(all in sequencers()) {
            let keyed = KeyedFenceGate::new();
            let one = FenceGate::new("a".parse().unwrap());
            let mut passed: Vec<&Sequencer> = Vec::new();
            for s in &all {
                let expected = passes(&passed, s);
                prop_assert_eq!(keyed.admit_for(s.name(), s).is_ok(), expected, "{} after {:?}", s, passed);
                prop_assert_eq!(one.admit(s).is_ok(), expected && s.name() == one.name(), "{} after {:?}", s, passed);
                if expected {
                    passed.push(s);
                }
            }
            prop_assert_eq!(one.marks(), keyed.marks(one.name()));
        }
    }

    #[test]
    fn accesses_at_the_same_time_never_lower_what_was_seen() {
        let gate = KeyedFenceGate::new();
        let next = std::sync::atomic::AtomicU64::new(1);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let raw = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let s = sequencer(&format!("lk1.x.{raw}.a"));
                        let passed = gate.admit(&s).is_ok();
                        let seen = gate.marks(s.name()).exclusive.unwrap();
                        assert!(seen >= s.token() && (passed || seen > s.token()), "{s}: {seen}");
                    }
                });
            }
        });
        assert_eq!(gate.marks(&"a".parse().unwrap()).exclusive.unwrap().get(), 2000);
    }

    fn sequencer(text: &str) -> Sequencer {
        text.parse().unwrap()
    }

    #[test]
    fn a_paused_holder_is_refused_and_learns_why() {
        let gate = FenceGate::new("stock/42".parse().unwrap());
        let (a, b) = (sequencer("lk1.x.33.stock%2F42"), sequencer("lk1.x.34.stock%2F42"));
        for holder in [&a, &b, &b] {
            gate.admit(holder).unwrap();
        }
        let stale = gate.admit(&a).unwrap_err();
        assert_eq!(stale.reason(), &StaleReason::Older { seen: b.token() });
        assert_eq!(
            stale.to_string(),
            "lk1.x.33.stock%2F42 is stale: the resource has seen token 34. \
             Try: stop working on what the lock protects, and acquire it again"
        );
    }

    #[test]
    fn a_token_of_another_lock_neither_passes_nor_counts() {
        let gate = FenceGate::new("a".parse().unwrap());
        let stale = gate.admit(&sequencer("lk1.x.99.b")).unwrap_err();
        assert!(stale.to_string().starts_with(
            "lk1.x.99.b belongs to another lock: this resource is protected by \"a\""
        ));
        assert_eq!(gate.marks(), Marks::default());
    }

    #[test]
    fn permits_have_no_gate() {
        let text = KeyedFenceGate::new().admit(&sequencer("lk1.p1.5.a")).unwrap_err().to_string();
        assert!(text.starts_with("lk1.p1.5.a cannot be checked by a gate: permits"), "{text}");
    }

    #[test]
    fn a_gate_goes_on_from_what_was_kept() {
        let gate = FenceGate::new("a".parse().unwrap());
        gate.admit(&sequencer("lk1.s.7.a")).unwrap();
        let restarted = FenceGate::with_marks("a".parse().unwrap(), gate.marks());
        assert!(restarted.admit(&sequencer("lk1.x.6.a")).is_err());
    }

    #[test]
    fn locks_are_distinguished_and_can_be_forgotten() {
        let gate = KeyedFenceGate::new();
        gate.admit(&sequencer("lk1.x.9.a")).unwrap();
        gate.admit(&sequencer("lk1.x.3.b")).unwrap();
        assert!(gate.admit(&sequencer("lk1.x.8.a")).is_err());
        let stale = gate.admit_for(&"b".parse().unwrap(), &sequencer("lk1.x.99.a")).unwrap_err();
        assert_eq!(stale.reason(), &StaleReason::OtherLock { expected: "b".parse().unwrap() });
        assert_eq!(gate.marks(&"a".parse().unwrap()).any.unwrap().get(), 9);
        gate.forget(&"a".parse().unwrap());
        assert_eq!(gate.marks(&"a".parse().unwrap()), Marks::default());
        assert!(gate.marks(&"b".parse().unwrap()).any.is_some());
    }
}
