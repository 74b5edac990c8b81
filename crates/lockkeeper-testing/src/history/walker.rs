//! One task that does random operations on a lock.

use std::sync::Arc;
use std::time::Duration;

use super::{Ask, Call, Contestant, Held, Kind, Outcome, Recorder};
use crate::Seeded;
use lockkeeper::store::MAX;
use lockkeeper::time::Clock;
use lockkeeper::{Effect, Error, ErrorKind};

/// The behaviour of the tasks of a history.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Whether the tasks only wait and release. Otherwise they also try, give up waiting, and
    /// convert the locks that they hold.
    pub plain: bool,
    /// Whether the tasks also drop guards, and drop attempts before they end.
    pub careless: bool,
    /// Whether no fault can happen to a request. Then every refusal must have a reason.
    pub sure: bool,
    /// The longest pause, while a task holds a lock and in between.
    pub pause: Duration,
}

/// A task that acquires a lock again and again.
#[derive(Clone)]
pub struct Walker {
    /// The client through which the task acquires the lock.
    pub contestant: Arc<dyn Contestant>,
    /// The recorder of the task's operations.
    pub recorder: Recorder,
    /// The clock on which the task sleeps.
    pub clock: Clock,
    /// The source of the task's random numbers.
    pub seed: Seeded,
    /// The name of the client, as a text for people.
    pub client: String,
    /// The number of the task's owner, if the kind of lock has owners.
    pub owner: u64,
    /// The name of the lock in the history.
    pub lock: String,
    /// The kind of the lock.
    pub kind: Kind,
    /// The behaviour of the task.
    pub habits: Habits,
}

impl std::fmt::Debug for Walker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walker")
            .field("client", &self.client)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl Walker {
    /// Pauses, acquires the lock, holds it for a while and releases it. Each failure is recorded.
    pub async fn round(&mut self) {
        self.pause().await;
        let ask = self.draw();
        let (waits, sure) = (ask.wait != Some(Duration::ZERO), self.habits.sure);
        let op = self.acquires(ask, waits, sure);
        let limit = self.draws(100, self.habits.careless).then(|| self.length());
        let asking = self.contestant.acquire(ask);
        let answer = match limit {
            Some(limit) => self.clock.timeout(limit, asking).await,
            None => Some(asking.await),
        };
        let outcome = match &answer {
            Some(Ok(Some(held))) => Outcome::Granted { token: held.token() },
            Some(Ok(None)) => Outcome::Refused,
            Some(Err(error)) => self.failed(error),
            None => Outcome::Unknown,
        };
        self.recorder.ret(op, outcome);
        if let Some(Ok(Some(held))) = answer {
            self.hold(op, held, ask.weight).await;
        }
    }

    /// Tries once to acquire the whole lock, and returns whether this succeeded. After a success no
    /// other claim is left.
    ///
    /// # Panics
    /// When the store cannot be used.
    pub async fn ask_for_all(&mut self) -> bool {
        let (weight, of) = (self.kind.capacity(), self.kind.capacity());
        let ask = Ask { weight, of, wait: Some(Duration::ZERO) };
        let op = self.acquires(ask, false, true);
        match self.contestant.acquire(ask).await {
            Ok(Some(held)) => {
                self.recorder.ret(op, Outcome::Granted { token: held.token() });
                self.release(op, held).await;
                true
            }
            Ok(None) => {
                self.recorder.ret(op, Outcome::Refused);
                false
            }
            Err(error) => {
                panic!("{} asks for all of a lock that nobody wants: {error}", self.client)
            }
        }
    }

    fn acquires(&self, Ask { weight, of, .. }: Ask, waits: bool, sure: bool) -> u64 {
        let of = matches!(self.kind, Kind::Resized(_)).then_some(of);
        self.call(Call::Acquire { weight, of, waits, sure, owner: self.owner() })
    }

    fn owner(&self) -> Option<u64> {
        (self.kind == Kind::ReentrantMutex).then_some(self.owner)
    }

    fn draw(&mut self) -> Ask {
        let of = match self.kind {
            Kind::Resized(sizes) => {
                let drawn = usize::try_from(self.seed.below(sizes.len() as u64)).unwrap_or(0);
                sizes.get(drawn).copied().unwrap_or(1)
            }
            kind => kind.capacity(),
        };
        let weight = match self.kind {
            Kind::Mutex | Kind::ReentrantMutex => MAX,
            Kind::RwLock => {
                if self.seed.happens(400) {
                    MAX
                } else {
                    1
                }
            }
            Kind::Semaphore(_) | Kind::Resized(_) => {
                1 + u32::try_from(self.seed.below(u64::from(of))).unwrap_or(0)
            }
        };
        let wait = match self.seed.below(4) {
            _ if self.habits.plain => None,
            0 => Some(Duration::ZERO),
            1 if self.habits.careless => Some(self.length()),
            _ => None,
        };
        Ask { weight, of, wait }
    }

    async fn hold(&mut self, op: u64, held: Box<dyn Held>, weight: u32) {
        let (mut op, mut held, mut alone) = (op, held, weight == MAX);
        for _ in 0..self.seed.below(4) {
            if !self.recorder.look(op, || held.believed()) {
                break;
            }
            self.pause().await;
            if !self.recorder.look(op, || held.believed()) {
                break;
            }
            if self.kind == Kind::ReentrantMutex && self.seed.happens(500) {
                // The same owner acquires the lock once more while it holds it.
                Box::pin(self.round()).await;
            }
            let converts = self.kind == Kind::RwLock && self.draws(400, !self.habits.plain);
            if converts && alone {
                held = self.share(op, held).await;
                alone = false;
            } else if converts {
                let Some((new_op, new, is_alone)) = self.upgrade(op, held).await else { return };
                (op, held, alone) = (new_op, new, is_alone);
            }
        }
        if self.recorder.look(op, || held.believed()) && self.draws(150, self.habits.careless) {
            self.call(Call::Drop { of: op });
            drop(held);
        } else {
            self.release(op, held).await;
        }
    }

    async fn share(&self, of: u64, held: Box<dyn Held>) -> Box<dyn Held> {
        let op = self.call(Call::Downgrade { of });
        let (held, shared) = held.downgrade().await;
        self.recorder.ret(op, if shared.is_ok() { Outcome::Done } else { Outcome::Unknown });
        held
    }

    /// Returns `None` if an error ended the hold.
    async fn upgrade(&self, of: u64, held: Box<dyn Held>) -> Option<(u64, Box<dyn Held>, bool)> {
        let op = self.call(Call::Upgrade { of, sure: self.habits.sure });
        let answer = held.upgrade().await;
        match answer {
            Ok((held, true)) => {
                self.recorder.ret(op, Outcome::Granted { token: held.token() });
                Some((op, held, true))
            }
            Ok((held, false)) => {
                self.recorder.ret(op, Outcome::Refused);
                Some((of, held, false))
            }
            Err(_) => {
                self.recorder.ret(op, Outcome::Unknown);
                None
            }
        }
    }

    async fn release(&self, of: u64, held: Box<dyn Held>) {
        let op = self.call(Call::Release { of });
        let outcome = match held.release().await {
            Ok(()) => Outcome::Done,
            Err(error) if error.kind() == ErrorKind::Lost => Outcome::Lost,
            Err(_) => Outcome::Unknown,
        };
        self.recorder.ret(op, outcome);
    }

    fn call(&self, call: Call) -> u64 {
        self.recorder.call(&self.client, &self.lock, call)
    }

    /// Asserts that the error is retryable or has an unknown effect. Then the operation may have
    /// taken effect.
    fn failed(&self, error: &Error) -> Outcome {
        assert!(
            error.is_retryable() || error.effect() == Effect::Unknown,
            "{}: {error:?}",
            self.client
        );
        Outcome::Unknown
    }

    fn draws(&mut self, per_mille: u16, may: bool) -> bool {
        // The number is drawn in any case, so that habits do not shift the later numbers.
        self.seed.happens(per_mille) && may
    }

    fn length(&mut self) -> Duration {
        Duration::from_micros(
            self.seed.below(u64::try_from(self.habits.pause.as_micros()).unwrap_or(u64::MAX)),
        )
    }

    async fn pause(&mut self) {
        let length = self.length();
        self.clock.sleep(length).await;
    }
}
