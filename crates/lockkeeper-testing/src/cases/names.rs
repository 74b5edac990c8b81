//! Names: any text without control characters. Two different names are never the same lock.

use std::time::Duration;

use crate::{Case, Ttls};

/// Names that a careless layout takes for one another, or for a key of its own.
const NEAR: &[&str] = &[
    "a",
    "A",
    "a ",
    " a",
    "a.",
    ".a",
    "a/",
    "/a",
    "a//b",
    "a/b",
    "a%2Fb",
    "a%2fb",
    "a%252Fb",
    "a\\b",
    "a*",
    "a?",
    "a_b",
    "a%b",
    "a:b",
    "a:b:c",
    "{a}",
    "a{b}",
    "{}",
    "[a]",
    "'a'",
    "a'--",
    "\"a\"",
    "$a",
    "a$1",
    "#a",
    "a+b",
    "a b",
    "a&b",
    ".",
    "..",
    "...",
    "a/../b",
    "h.",
    "h.a",
    "0",
    "00",
    "-1",
    "1e3",
    "null",
    "é",
    "e\u{301}",
    "ß",
    "ss",
    "ſ",
    "İ",
    "i̇",
    "i",
    "I",
    "Ａ",
    "日本語",
    "🔒",
    "\u{200b}a",
    "\u{feff}a",
];

/// On a busy machine a claim on each name takes longer than the usual ttl.
const ALL_NAMES: Duration = Duration::from_secs(300);

/// Names that look alike are different locks: all of them can be held at once.
pub async fn near_collisions_are_different_locks(case: &Case) {
    let client = case.client(Ttls { ttl: ALL_NAMES, ..Ttls::long() }).await;
    let held: Vec<_> = NEAR.iter().map(|name| client.mutex(&case.name(name))).collect();
    for (name, holder) in NEAR.iter().zip(&held) {
        eprintln!("{name:?}");
        holder.clone().trying().granted().await;
    }
    for (name, holder) in NEAR.iter().zip(&held) {
        eprintln!("{name:?}");
        holder.with_new_id().trying().busy().await;
        holder.release().await;
        holder.with_new_id().trying().granted().await;
    }
}

/// A name may have all its 255 bytes, and its last byte counts.
pub async fn the_longest_names_work(case: &Case) {
    let room = case.harness().name_max() - case.name("x").as_str().len();
    let client = case.client(Ttls::long()).await;
    let long = |fill: &str, end: char| {
        let mut name = fill.repeat(room / fill.len());
        name.push(end);
        client.mutex(&case.name(&name))
    };
    for fill in ["x", "/", "%", "é"] {
        let (a, b) = (long(fill, 'a'), long(fill, 'b'));
        a.granted().await;
        b.granted().await;
        a.with_new_id().trying().busy().await;
        a.release().await;
        a.with_new_id().trying().granted().await;
    }
}

/// Every name comes back from the listing as it was given.
pub async fn they_are_listed_as_given(case: &Case) {
    let client = case.client(Ttls { ttl: ALL_NAMES, ..Ttls::long() }).await;
    let mut names: Vec<_> = NEAR.iter().map(|name| case.name(name)).collect();
    for name in &names {
        client.mutex(name).granted().await;
    }
    names.sort();
    let admin = client.store.admin().unwrap();
    let lines = admin.lines(case.prefix(), None, usize::MAX).await.unwrap();
    let mut listed: Vec<_> = lines.into_iter().map(|(name, _)| name).collect();
    listed.retain(|name| names.contains(name));
    assert_eq!(listed, names);
}
