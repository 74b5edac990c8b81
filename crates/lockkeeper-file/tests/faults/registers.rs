//! Registers in files: the contract of a register, a shut gate, and a deleted file.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::optimistic::{Outcome, Policy, Register, Version, Write, settle, swap, update};
use lockkeeper::{Effect, ErrorKind};
use lockkeeper_live::LiveStore as _;
use lockkeeper_testing::register::RegisterHarness;

use crate::store::InAFile;

lockkeeper_testing::register_suite! {
    mod file_register;
    harness = OwnFile;
}

struct OwnFile(InAFile);

impl RegisterHarness for OwnFile {
    async fn start() -> Self {
        Self(InAFile::start().unwrap())
    }

    async fn client(&self) -> Arc<dyn Register> {
        Arc::new(self.0.registers().await)
    }
}

/// Adds one to a number.
async fn plus_one(old: Option<Vec<u8>>) -> Vec<u8> {
    let old: u64 = String::from_utf8(old.unwrap()).unwrap().parse().unwrap();
    (old + 1).to_string().into_bytes()
}

/// The gate is shut, as by a process that is stopped inside. So the write is neither done nor lost.
#[tokio::test]
async fn an_unanswered_write_is_unknown_and_settled_later() {
    let file = InAFile::start().unwrap();
    let register = file.registers().await;
    update(&register, "n", async |_| b"1".to_vec()).await.unwrap();
    let gate = File::open(file.gate()).unwrap();
    gate.lock().unwrap();
    let write = Write::new(Version::new(1), "2");
    let policy = Policy::default().within(Duration::from_millis(200));
    let Ok(Outcome::Unknown(error)) = swap(&policy, &register, "n", &write).await else {
        panic!("it was answered")
    };
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
    let text = error.to_string();
    assert!(
        text.starts_with("key \"n\": file:/")
            && text.contains("whether version 2 was written is not known"),
        "{text}"
    );
    // Reads work all the time.
    assert_eq!(register.load("n").await.unwrap().unwrap().version, Version::new(1));
    gate.unlock().unwrap();
    let settled = settle(&Policy::default(), &register, "n", &write).await.unwrap();
    assert!(matches!(settled, Outcome::Done(version) if version == Version::new(2)), "{settled:?}");
    // The first copy of the write arrives late, and has no further effect.
    let next = update(&register, "n", plus_one).await.unwrap();
    assert_eq!((next.value, next.version), (b"3".to_vec(), Version::new(3)));
}

#[tokio::test]
async fn a_register_whose_file_was_deleted_is_closed() {
    let file = InAFile::start().unwrap();
    let register = file.registers().await;
    update(&register, "n", async |_| b"7".to_vec()).await.unwrap();
    std::fs::remove_file(file.path()).unwrap();
    let error = register.load("n").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    let error = update(&register, "n", async |_| b"8".to_vec()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Closed, Effect::None), "{error}");
    let answer = register.compare_and_swap("n", &Write::new(Version::new(1), "8")).await;
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Closed);
}
