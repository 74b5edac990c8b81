//! Where keys are, and that they are nowhere else.

use bytes::Bytes;
use proptest::prelude::*;

use super::{Layout, Lines};
use crate::LockName;
use crate::store::{ClaimId, ClaimKey, SessionId};

fn key(name: &str) -> ClaimKey {
    ClaimKey {
        name: name.parse().unwrap(),
        session: SessionId::new("6c0ffee"),
        id: ClaimId::from_bytes([0xab; 16]),
    }
}

#[test]
fn a_claim_is_where_the_layout_has_it() {
    let id = "ab".repeat(16);
    for (layout, prefix, line) in [
        (Layout::Native, None, "/lockkeeper/.lock/stock%2F42"),
        (Layout::Native, Some("/shop/"), "/shop/.lock/stock%2F42"),
        (Layout::Concurrency, None, "stock/42"),
        (Layout::Concurrency, Some("/locks"), "/locks/stock/42"),
    ] {
        let (lines, key) = (Lines::new(layout, prefix), key("stock/42"));
        let at = format!("{line}/{:x}-{id}", lines.lease_of(&key.session));
        let found = lines.claim(&key);
        assert_eq!(found, at.as_bytes());
        assert!(lines.is_claim(&found) && lines.is_claim(&lines.slot(&key, 0)));
        assert_eq!(lines.slot(&key, 7), at.replace(&id, "7").as_bytes());
        let line = lines.of(&key.name);
        assert!(line.from <= found && found < line.to && lines.contends(&line, &found));
        let named = if layout == Layout::Native { "stock%2F42" } else { "stock/42" };
        assert_eq!(lines.name_in(&found), Some(named));
    }
}

#[test]
fn a_name_that_begins_like_another_is_another_line() {
    let lines = Lines::new(Layout::Concurrency, None);
    let line = lines.of(&"stock".parse().unwrap());
    assert!(!lines.contends(&line, &lines.claim(&key("stock/42"))));
    assert!(lines.contends(&line, b"stock/694d8"));
    assert!(!lines.contends(&line, b"stocks/694d8"));
    assert!(!lines.is_claim(b"stock/694d8"));
}

#[test]
fn the_stores_own_keys_are_in_no_line_where_names_are_paths() {
    let (shop, stock) = (
        Lines::new(Layout::Concurrency, Some("/shop")),
        Lines::new(Layout::Native, Some("/shop/stock")),
    );
    let line = shop.of(&"stock".parse().unwrap());
    assert!(!shop.contends(&line, &stock.marker()) && shop.contends(&line, b"/shop/stock/694d8"));
}

#[test]
fn what_is_our_own_is_in_nobodys_line() {
    let lines = Lines::new(Layout::Native, None);
    for own in [lines.gone(key("a").id), lines.notice("c"), lines.register("a/b")] {
        assert_eq!(lines.name_in(&own), None, "{own:?}");
    }
}

#[test]
fn a_path_or_a_name_with_a_part_of_ours_is_refused() {
    for prefix in ["/shop/.lock", "/.gone/x", ".register", "/a/.notify/", "/x/.layout/y"] {
        for layout in [Layout::Native, Layout::Concurrency] {
            assert!(Lines::new(layout, Some(prefix)).check().is_err(), "{prefix}");
        }
    }
    for prefix in ["/shop/.locks", "/.hidden", "/a//b", "shop"] {
        assert!(Lines::new(Layout::Native, Some(prefix)).check().is_ok(), "{prefix}");
    }
    let name: LockName = "/lockkeeper/.lock/eu".parse().unwrap();
    assert!(Lines::new(Layout::Native, None).check_name(&name).is_ok());
    assert!(Lines::new(Layout::Concurrency, None).check_name(&name).is_err());
}

#[test]
fn what_older_versions_kept_and_what_is_no_claim_is_known() {
    let lines = Lines::new(Layout::Native, Some("/shop"));
    for (key, is_old) in [
        ("/shop/stock/6c0ffee-0", true),
        ("/shop/stock%2F42/6c0ffee-abab", true),
        ("/shop/eu/stock/6c0ffee-0", false),
        ("/shop/stock/qty", false),
        ("/shop/.lock/6c0ffee-0", false),
        ("/shopping/stock/6c0ffee-0", false),
    ] {
        assert_eq!(lines.is_old_claim(key.as_bytes()), is_old, "{key}");
    }
    for (key, lease, is_stray) in [
        ("/shop/.lock/stock/6c0ffee-0", 7, false),
        ("/shop/.lock/stock/6c0ffee-0", 0, true),
        ("/shop/.lock/stock/qty", 7, true),
        ("/shop/.lock/stock/6c0ffee-0/qty", 7, true),
        ("/shop/.lock/stock", 7, true),
        ("/shop/stock/qty", 0, false),
    ] {
        assert_eq!(lines.is_stray(key.as_bytes(), lease), is_stray, "{key}");
    }
}

/// Parts of which prefixes and names are made that lie in each other, or nearly so.
fn parts() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        prop::sample::select(vec![
            ".lock",
            ".gone",
            ".notify",
            ".register",
            ".layout",
            ".",
            "..",
            "eu",
            "a",
            "h.a",
            ""
        ]),
        prop::sample::select(vec![
            "shop",
            "lockkeeper",
            "%2Elock",
            ".lock0",
            ".loc",
            "6c0ffee-0",
            "eu-0",
            "é",
            "h."
        ]),
    ];
    prop::collection::vec(part, 1..6).prop_map(|parts| parts.join("/"))
}

proptest! {
    /// Whatever else lockkeeper keeps, of other names, in other stores whose prefixes lie in this
    /// one's or around it, in either layout: none of it lies where the claims of a lock lie.
    #[test]
    fn no_other_key_lies_in_the_line_of_a_lock(
        (prefix, name) in (parts(), parts()),
        (other_prefix, other_name) in (parts(), parts()),
        (is_shared, is_same_prefix, is_same_name) in (any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let lines = Lines::new(Layout::Native, Some(&format!("/{prefix}")));
        let other_prefix = if is_same_prefix { format!("/{prefix}") } else { format!("/{other_prefix}") };
        let layout = if is_shared { Layout::Concurrency } else { Layout::Native };
        let other = Lines::new(layout, Some(&other_prefix).filter(|_| !is_shared || !is_same_prefix).map(|p| &**p));
        prop_assume!(lines.check().is_ok() && other.check().is_ok());
        let other_name = if is_same_name { name.clone() } else { other_name };
        let (Ok(name), Ok(other_name)) = (LockName::new(&name), LockName::new(&other_name)) else { return Ok(()) };
        let line = lines.of(&name);
        let has = |key: Bytes| line.from <= key && key < line.to;
        let id = ClaimId::from_bytes([0xab; 16]);
        let session = SessionId::new("6c0ffee");
        let beside = [other.session(&session), other.session_lease(&session, 7, true), other.ended(&session)];
        let others = [other.gone(id), other.notice("c0ffee"), other.register(other_name.as_str()), other.marker()];
        for key in others.into_iter().chain(beside) {
            prop_assert!(!has(key.clone()), "{key:?} lies in {line:?}");
        }
        prop_assume!(other.check_name(&other_name).is_ok());
        let claim = ClaimKey { name: other_name.clone(), session: SessionId::new("6c0ffee"), id };
        let is_this = layout == Layout::Native && name == other_name && lines == other;
        for key in [other.claim(&claim), other.slot(&claim, 7)] {
            prop_assert_eq!(has(key.clone()), is_this, "{:?} and {:?}", key, line);
        }
    }
}
