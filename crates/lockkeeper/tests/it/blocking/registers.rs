//! Values that threads change without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use async_trait::async_trait;
use lockkeeper::blocking::Keeper;
use lockkeeper::blocking::optimistic::{Register, retry};
use lockkeeper::layer::Fault;
use lockkeeper::optimistic::{
    self, MemoryRegister, Outcome, Policy, Swap, Version, Versioned, Write,
};
use lockkeeper::{Effect, Error, ErrorKind, FileStore, Result};
use lockkeeper_testing::register::ChaosRegister;
use tempfile::TempDir;
use tokio::runtime::Builder;

use crate::engine::spy::{millis, secs};

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |text| std::str::from_utf8(text).unwrap().parse().unwrap())
}

fn one_more(old: Option<Vec<u8>>) -> Vec<u8> {
    (number(old.as_deref()) + 1).to_string().into_bytes()
}

fn counted(register: &Register) -> (u64, Version) {
    let now = register.load("n").unwrap().unwrap();
    (number(Some(&now.value)), now.version)
}

/// Uses the whole API of a register.
pub(super) fn tour(register: &Register) {
    let policy = Policy::default();
    assert_eq!(register.load("n").unwrap(), None);
    assert_eq!(register.update("n", one_more).unwrap().version, Version::new(1));
    let refused = register
        .try_update(&policy, "n", |_| Err::<_, Box<dyn std::error::Error>>("sold out".into()));
    assert_eq!(refused.unwrap_err().to_string(), "sold out");
    let write = Write::new(Version::new(1), "7");
    assert!(
        matches!(register.swap(&policy, "n", &write), Ok(Outcome::Done(version)) if version == Version::new(2))
    );
    assert!(
        matches!(register.settle(&policy, "n", &write), Ok(Outcome::Done(version)) if version == Version::new(2))
    );
    let late = Write::new(Version::new(1), "8");
    assert!(matches!(register.swap(&policy, "n", &late), Ok(Outcome::Conflict)));
    let mut attempts = 0;
    let third = retry(&policy, || {
        attempts += 1;
        register.swap(&policy, "n", &Write::new(Version::new(attempts), "9"))
    });
    assert_eq!((third.unwrap(), attempts), (Version::new(3), 2));
    assert_eq!(counted(register), (9, Version::new(3)));
    assert_eq!(register.load("").unwrap_err().kind(), ErrorKind::Invalid);
}

/// Half of the threads share one open register. Each other thread opens a register of its own.
fn count_with_many_threads(open: impl Fn() -> Register + Sync) {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 20;
    let shared = open();
    thread::scope(|threads| {
        for n in 0..THREADS {
            let (shared, open) = (shared.clone(), &open);
            threads.spawn(move || {
                let register = if n % 2 == 0 { shared } else { open() };
                (0..ROUNDS).for_each(|_| drop(register.update("n", one_more).unwrap()));
            });
        }
    });
    assert_eq!(counted(&shared), (THREADS * ROUNDS, Version::new(THREADS * ROUNDS)));
}

#[test]
fn no_update_of_many_threads_is_lost_in_memory() {
    let memory = MemoryRegister::new();
    count_with_many_threads(|| Register::open(memory.clone()).unwrap());
}

#[test]
fn no_update_of_many_threads_is_lost_in_a_file() {
    let folder = TempDir::new().unwrap();
    count_with_many_threads(|| {
        Register::open(FileStore::new(folder.path().join("locks.db"))).unwrap()
    });
}

/// The updates block the threads of the runtime. The register's own thread times the pauses.
#[test]
fn no_update_of_the_tasks_of_a_runtime_is_lost() {
    let register = Register::open(MemoryRegister::new()).unwrap();
    Builder::new_multi_thread().worker_threads(4).build().unwrap().block_on(async {
        let count = |register: Register| {
            tokio::spawn(async move {
                (0..50).for_each(|_| drop(register.update("n", one_more).unwrap()));
            })
        };
        let tasks: Vec<_> = (0..4).map(|_| count(register.clone())).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(counted(&register), (200, Version::new(200)));
}

fn under_faults() -> (Arc<ChaosRegister>, Register) {
    let chaos = Arc::new(ChaosRegister::new(Arc::new(MemoryRegister::new())));
    let register = Register::open(Arc::clone(&chaos)).unwrap();
    (chaos, register)
}

#[test]
fn a_lost_answer_is_read_back() {
    let (chaos, register) = under_faults();
    for fault in
        [Fault::LostReply, Fault::LostRequest, Fault::Refused, Fault::Twice, Fault::Overdue]
    {
        chaos.plan(fault);
        register.update("n", one_more).unwrap();
    }
    assert_eq!((counted(&register), chaos.faults()), ((5, Version::new(5)), 5));
}

#[test]
fn what_stays_unknown_is_settled_later() {
    let (chaos, register) = under_faults();
    let once = Policy::default().attempts(1);
    for (version, fault) in (0..).zip([Fault::LostReply, Fault::LostRequest]) {
        let write = Write::new(Version::new(version), "ours");
        chaos.plan(fault);
        let unknown = register.swap(&once, "n", &write).unwrap();
        assert!(matches!(unknown, Outcome::Unknown(error) if error.effect() == Effect::Unknown));
        let settled = register.settle(&Policy::default(), "n", &write).unwrap();
        assert!(
            matches!(settled, Outcome::Done(done) if done == Version::new(version + 1)),
            "{settled:?}"
        );
    }
    chaos.plan(Fault::LostReply);
    let error =
        register.try_update(&once, "n", |_| Ok::<_, Error>(b"theirs".to_vec())).unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
    assert!(error.to_string().contains("Try: call settle() later"), "{error}");
    assert_eq!(register.load("n").unwrap().unwrap().version, Version::new(3));
}

#[test]
fn nothing_is_done_twice_in_a_storm() {
    let memory: Arc<dyn optimistic::Register> = Arc::new(MemoryRegister::new());
    let (done, unknown) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|threads| {
        for seed in 0..4 {
            let (memory, done, unknown) = (Arc::clone(&memory), &done, &unknown);
            threads.spawn(move || {
                let rates = [
                    Fault::LostReply,
                    Fault::LostRequest,
                    Fault::Twice,
                    Fault::LateCopy,
                    Fault::Overdue,
                ];
                let chaos = rates
                    .into_iter()
                    .fold(ChaosRegister::new(memory).seed(seed), |c, fault| c.with(fault, 80));
                let (chaos, attempts) = (Arc::new(chaos), Policy::default().attempts(4));
                let register = Register::open(Arc::clone(&chaos)).unwrap();
                for _ in 0..40 {
                    match register.try_update(&attempts, "n", |old| Ok::<_, Error>(one_more(old))) {
                        Ok(_) => done.fetch_add(1, Ordering::Relaxed),
                        Err(error) if error.effect() == Effect::Unknown => {
                            unknown.fetch_add(1, Ordering::Relaxed)
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                            0
                        }
                    };
                }
                assert!(chaos.faults() > 0);
            });
        }
    });
    let (value, version) = counted(&Register::open(memory).unwrap());
    let (done, unknown) = (done.into_inner(), unknown.into_inner());
    assert_eq!(version, Version::new(value));
    assert!(
        (done..=done + unknown).contains(&value),
        "{done} done, {unknown} unknown, {value} counted"
    );
}

/// A register that never answers a write.
#[derive(Debug)]
struct Silent;

impl std::fmt::Display for Silent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("silent")
    }
}

#[async_trait]
impl optimistic::Register for Silent {
    async fn load(&self, _: &str) -> Result<Option<Versioned>> {
        Ok(None)
    }

    async fn compare_and_swap(&self, _: &str, _: &Write) -> Result<Swap> {
        std::future::pending().await
    }
}

/// The time of this runtime stands still, since no task drives it.
#[tokio::test(start_paused = true)]
async fn a_register_that_does_not_answer_is_not_waited_for_for_ever() {
    let register = Register::open(Silent).unwrap();
    let policy = Policy::default().within(millis(100));
    let start = std::time::Instant::now();
    let error = register.try_update(&policy, "n", |old| Ok::<_, Error>(one_more(old))).unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
    assert!(error.to_string().contains("silent: no answer came within 100ms"), "{error}");
    let conflict =
        retry(&policy.first(millis(20)), || Ok::<_, Error>(Outcome::<()>::Conflict)).unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::Conflict);
    assert!(start.elapsed() >= millis(90) && start.elapsed() < secs(60));
}

#[test]
fn an_attempt_of_unknown_outcome_is_not_repeated() {
    let mut attempts = 0;
    let unknown = retry(&Policy::default(), || {
        attempts += 1;
        Ok::<_, Error>(Outcome::<()>::Unknown(Error::new(ErrorKind::Unavailable, "gone")))
    });
    assert_eq!((unknown.unwrap_err().effect(), attempts), (Effect::Unknown, 1));
}

/// An engine that waited for a register could not renew its locks meanwhile.
#[test]
fn a_callback_on_an_engines_thread_is_refused() {
    let register = Register::open(MemoryRegister::new()).unwrap();
    let refusals = Arc::new(Mutex::new(Vec::new()));
    let (asked, message) = (register.clone(), Arc::clone(&refusals));
    let on_event = move |_: &lockkeeper::Event<'_>| {
        if thread::current().name() != Some("lockkeeper") {
            return;
        }
        let refused = [
            asked.load("n").map(drop),
            asked.update("n", one_more).map(drop),
            Register::open(MemoryRegister::new()).map(drop),
            retry(&Policy::default(), || Ok(Outcome::Done(()))),
        ];
        message
            .lock()
            .unwrap()
            .extend(refused.map(|refused| refused.map_err(|error| error.kind())));
    };
    let keeper =
        Keeper::builder(lockkeeper::MemoryStore::new()).on_event(on_event).connect().unwrap();
    let guard = keeper.mutex("n").unwrap().ttl(millis(300)).lock().unwrap();
    super::until(|| !refusals.lock().unwrap().is_empty());
    drop(guard);
    assert!(
        refusals.lock().unwrap().iter().all(|refused| *refused == Err(ErrorKind::WouldDeadlock)),
        "{refusals:?}"
    );
    assert_eq!(register.load("n").unwrap(), None);
}
