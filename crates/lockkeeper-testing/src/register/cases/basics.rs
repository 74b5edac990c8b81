//! The effects of one write.

use super::{KEY, another_writes, answer, present, two_clients, version};
use crate::register::RegisterHarness;
use lockkeeper::ErrorKind;
use lockkeeper_core::registers::{Fate, MAX_VALUE, REMEMBERED, Swap, Version, Write};

pub async fn a_key_that_was_never_written_is_absent(harness: &impl RegisterHarness) {
    let register = harness.client().await;
    assert_eq!(register.load(KEY).await.unwrap(), None);
    // A refused write does not create the key.
    let refused = answer(&*register, &Write::new(Version::new(1), "7")).await;
    assert_eq!(refused, Swap::Conflict(None));
    assert_eq!(register.load(KEY).await.unwrap(), None);
}

pub async fn versions_count_the_writes(harness: &impl RegisterHarness) {
    let [ours, theirs] = two_clients(harness).await;
    for count in 1..=5 {
        let write = another_writes(&*ours, &format!("value {count}")).await;
        assert_eq!(write.makes(), Version::new(count));
        let found = present(&*theirs).await;
        assert_eq!(found.version, write.makes());
        assert_eq!(found.value, write.value());
        assert_eq!(found.writer_of(found.version), Some(write.writer()));
    }
}

pub async fn a_write_on_another_version_changes_nothing(harness: &impl RegisterHarness) {
    let [ours, theirs] = two_clients(harness).await;
    another_writes(&*theirs, "first").await;
    another_writes(&*theirs, "second").await;
    let before = present(&*ours).await;
    for expected in [0, 1, 3, u64::from(u32::MAX)] {
        let refused = answer(&*ours, &Write::new(Version::new(expected), "ours")).await;
        assert_eq!(refused, Swap::Conflict(Some(before.clone())), "it shows what is there");
        assert_eq!(present(&*theirs).await, before);
    }
}

pub async fn a_key_is_made_once(harness: &impl RegisterHarness) {
    let [ours, theirs] = two_clients(harness).await;
    let [first, second] = ["first", "second"].map(|value| Write::new(Version::ABSENT, value));
    assert_eq!(answer(&*ours, &first).await, Swap::Done);
    assert!(
        matches!(answer(&*theirs, &second).await, Swap::Conflict(Some(found)) if found.value == b"first")
    );
}

pub async fn keys_are_distinguished(harness: &impl RegisterHarness) {
    let register = harness.client().await;
    let longest = "ä".repeat(127);
    let keys = [
        "a", "A", "a ", " a", "a/", "a/b", "a%2Fb", "a*", "ä", "a\u{308}", "1", "01", "1.0", "'",
        &longest,
    ];
    for key in keys {
        let write = Write::new(Version::ABSENT, key);
        assert_eq!(
            register.compare_and_swap(key, &write).await.unwrap(),
            Swap::Done,
            "{key:?} is another key"
        );
    }
    for key in keys {
        assert_eq!(register.load(key).await.unwrap().unwrap().value, key.as_bytes());
    }
}

pub async fn every_value_comes_back(harness: &impl RegisterHarness) {
    let [ours, theirs] = two_clients(harness).await;
    let all_bytes: Vec<u8> = (0..=255).collect();
    for value in [Vec::new(), b"7".to_vec(), all_bytes, vec![0xff; MAX_VALUE], b"\0".to_vec()] {
        let write = Write::new(version(&*ours).await, value.clone());
        assert_eq!(answer(&*ours, &write).await, Swap::Done);
        assert!(present(&*theirs).await.value == value, "{} bytes", value.len());
    }
}

pub async fn what_does_not_fit_is_refused(harness: &impl RegisterHarness) {
    let register = harness.client().await;
    let small = Write::new(Version::ABSENT, "7");
    let large = Write::new(Version::ABSENT, vec![0; MAX_VALUE + 1]);
    let long = "a".repeat(256);
    let mut errors = vec![register.compare_and_swap(KEY, &large).await.unwrap_err()];
    for key in ["", "a\0b", "a\nb", &*long] {
        errors.push(register.load(key).await.unwrap_err());
        errors.push(register.compare_and_swap(key, &small).await.unwrap_err());
    }
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.remedy().is_some(), "{error}");
    }
    assert_eq!(register.load(KEY).await.unwrap(), None);
}

pub async fn the_last_writers_are_remembered(harness: &impl RegisterHarness) {
    let [ours, theirs] = two_clients(harness).await;
    let mut writes = Vec::new();
    for _ in 0..REMEMBERED + 3 {
        writes.push(another_writes(&*ours, "7").await);
    }
    let now = present(&*theirs).await;
    for write in &writes[3..] {
        assert_eq!(now.writer_of(write.makes()), Some(write.writer()));
    }
}

pub async fn a_copy_of_a_write_does_nothing(harness: &impl RegisterHarness) {
    let [ours, theirs] = two_clients(harness).await;
    let write = another_writes(&*ours, "7").await;
    let done = present(&*ours).await;
    for client in [&ours, &theirs] {
        let Swap::Conflict(found) = answer(&**client, &write).await else {
            panic!("it was done twice")
        };
        assert_eq!(Fate::of(&write, found.as_ref()), Fate::Done);
        assert_eq!(present(&**client).await, done);
    }
}

pub async fn a_late_copy_does_nothing_to_what_others_wrote(harness: &impl RegisterHarness) {
    let [ours, theirs] = two_clients(harness).await;
    let late = Write::new(Version::ABSENT, "ours");
    let write = another_writes(&*theirs, "theirs").await;
    let Swap::Conflict(found) = answer(&*ours, &late).await else {
        panic!("what others wrote was overwritten")
    };
    assert_eq!(Fate::of(&late, found.as_ref()), Fate::Never);
    // The same is true when the register has the same value again.
    another_writes(&*theirs, "").await;
    assert_eq!(Fate::of(&write, Some(&present(&*ours).await)), Fate::Done);
    assert!(matches!(answer(&*ours, &late).await, Swap::Conflict(_)));
    assert_eq!(present(&*theirs).await.value, b"");
}
