//! The cases. The name of each case is a sentence. Each case gets an empty register.
#![allow(missing_docs, reason = "the name of a case says what it shows")]

mod basics;
mod doubt;
mod together;

use std::sync::Arc;

pub use basics::*;
pub use doubt::*;
pub use together::*;

use super::RegisterHarness;
use lockkeeper::{Error, Result};
use lockkeeper_core::registers::{Policy, Register, Swap, Version, Versioned, Write, try_update};

const KEY: &str = "stock/42";

/// The value of a key that exists.
async fn present(register: &dyn Register) -> Versioned {
    register.load(KEY).await.expect("the register answers").expect("the key is there")
}

async fn version(register: &dyn Register) -> Version {
    Version::of(register.load(KEY).await.expect("the register answers").as_ref())
}

async fn answer(register: &dyn Register, write: &Write) -> Swap {
    register.compare_and_swap(KEY, write).await.expect("the register answers")
}

/// One more write by another client, on the present version.
async fn another_writes(register: &dyn Register, value: &str) -> Write {
    let write = Write::new(version(register).await, value);
    assert_eq!(answer(register, &write).await, Swap::Done);
    write
}

/// A number as text; 0 for a key that was never written.
fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |text| std::str::from_utf8(text).expect("text").parse().expect("a number"))
}

async fn increment(policy: &Policy, register: &dyn Register) -> Result<Versioned> {
    let plus_one = async |old: Option<Vec<u8>>| {
        Ok::<_, Error>((number(old.as_deref()) + 1).to_string().into_bytes())
    };
    try_update(policy, register, KEY, plus_one).await
}

async fn counted(harness: &impl RegisterHarness) -> u64 {
    number(Some(&present(&*harness.client().await).await.value))
}

async fn two_clients(harness: &impl RegisterHarness) -> [Arc<dyn Register>; 2] {
    [harness.client().await, harness.client().await]
}
