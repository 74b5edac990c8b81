//! Each check finds its errors, and accepts text that only looks similar.

use super::size::LargeStore;
use super::*;

const LIB: (&str, &str) = (
    "crates/lockkeeper/src/lib.rs",
    "pub mod engine;\npub use backend::memory::MemoryStore;\npub use engine::{Session as EngineSession, Waiter};",
);

/// The lines with findings of one file of the library or its core.
fn lines(path: &str, text: &str) -> Vec<usize> {
    let home = if path.starts_with("store/") { "lockkeeper-core" } else { "lockkeeper" };
    findings(&format!("crates/{home}/src/{path}"), text)
        .iter()
        .map(|finding| finding.line)
        .collect()
}

fn findings(path: &str, text: &str) -> Vec<Finding> {
    let files = [LIB, (path, text)].map(|(path, text)| (path.to_owned(), text.to_owned()));
    check(&files, &Source::all(&files))
}

#[test]
fn a_module_that_is_declared_for_tests_is_a_test() {
    let read = |declaration: &str| {
        let files = [
            ("crates/x/src/a.rs", declaration),
            ("crates/x/src/a/model.rs", "tokio::spawn(f);"),
            ("crates/x/src/a/model/deep.rs", "tokio::spawn(f);"),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        check(&files, &Source::all(&files)).len()
    };
    assert_eq!((read("#[cfg(test)]\nmod model;"), read("mod model;")), (0, 2));
}

#[test]
fn imports_against_the_direction_are_found() {
    for (path, text) in [
        ("store/claim.rs", "use crate::runtime::Runtime;"),
        ("store/claim.rs", "use crate::{\n    LockName, net,\n};"),
        ("store/claim.rs", "use super::super::runtime::Runtime;"),
        ("store/mod.rs", "use super::runtime::Runtime;"),
        ("store/mod.rs", "mod inner { use super::super::net::Stream; }"),
        ("store/mod.rs", "fn f() -> crate::net::Stream { g() }"),
        ("store/mod.rs", "use crate::*;"),
        ("store/mod.rs", "use lockkeeper::Keeper;"),
        ("backend/claim.rs", "use crate::engine::Session;"),
        ("backend/claim.rs", "use crate::{\n    LockName, engine,\n};"),
        ("backend/claim.rs", "use crate::Waiter;"),
        ("backend/claim.rs", "use crate::EngineSession;"),
        ("store/mod.rs", "use tokio::sync::Notify;"),
        ("store/mod.rs", "use std::{fmt, fs::File};"),
        ("engine/session.rs", "use crate::backend::memory::MemoryStore;"),
        ("engine/session.rs", "use crate::MemoryStore as Reference;"),
        ("engine/session.rs", "fn is_redis_cluster() {}"),
        ("engine/mod.rs", "use crate::kinds::Mutex;"),
        ("kinds/mutex.rs", "use crate::backend;"),
        ("backend/memory/mod.rs", "use super::super::engine::Session;"),
        ("backend/file.rs", "use crate::{layer::Prefix};"),
        ("layer/prefix.rs", "use crate::backend::file::FileStore;"),
        ("mutex.rs", "use lockkeeper_cli::args;"),
    ] {
        assert!(!lines(path, text).is_empty(), "{path}: {text}");
    }
    assert_eq!(lines("store/a.rs", "use crate::{\n    LockName,\n    runtime::Runtime,\n};"), [3]);
}

#[test]
fn imports_in_the_direction_pass() {
    for (path, text) in [
        (
            "store/mod.rs",
            "use crate::{Error, LockName};\nuse self::claim::Claim;\nuse super::time::Clock;\nuse std::fmt;",
        ),
        ("store/mod.rs", "// crate::net\n/* crate::net */ const S: &str = \"crate::net\";"),
        ("store/mod.rs", "mod inner { use super::net_like::Claim; }"),
        ("store/mod.rs", "#[cfg(test)]\nmod tests {\n    use crate::net::Stream;\n}"),
        ("store/tests.rs", "use crate::net::Stream;"),
        ("engine/mod.rs", "use crate::store::{Claim, Store};\nuse tokio::sync::Notify;"),
        ("kinds/mutex.rs", "use crate::engine::Session;\nuse crate::store::MAX;"),
        ("backend/memory/mod.rs", "use crate::store::Store;\nuse super::sql::Row;"),
        ("testing/mod.rs", "use crate::{MemoryStore, engine::Session};"),
    ] {
        assert_eq!(lines(path, text), [0; 0], "{path}: {text}");
    }
    assert!(findings("crates/lockkeeper-cli/src/main.rs", "use lockkeeper::Keeper;").is_empty());
}

#[test]
fn every_crate_that_is_not_named_is_a_store_below_the_library() {
    let of = |path| findings(path, "use lockkeeper::Keeper;").len();
    assert_eq!(
        (of("crates/lockkeeper-new/src/lib.rs"), of("crates/lockkeeper-core/src/x.rs")),
        (1, 1)
    );
    assert_eq!((of("crates/lockkeeper-new/tests/it/main.rs"), of("xtask/src/main.rs")), (0, 0));
}

#[test]
fn clocks_randomness_and_tasks_are_found_outside_their_place() {
    for (place, text) in [
        ("time.rs", "let now = Instant::now();"),
        ("time.rs", "let now = std::time::SystemTime::now();"),
        ("time.rs", "use tokio::{sync, time};"),
        ("time.rs", "tokio::time::sleep(d).await;"),
        ("time.rs", "let t = rustix::time::clock_gettime(c);"),
        ("time.rs", "std::thread::sleep(d);"),
        ("random.rs", "let x: u8 = rand::random();"),
        ("random.rs", "use getrandom::fill;"),
        ("runtime.rs", "tokio::spawn(f);"),
        ("runtime.rs", "tokio::task::spawn_blocking(f);"),
        ("runtime.rs", "use tokio::task;\ntask::spawn(f);"),
        ("runtime.rs", "std::thread::Builder::new();"),
        ("runtime.rs", "thread::spawn(f);"),
        ("runtime.rs", "self.handle.spawn(f);"),
        ("runtime.rs", "Handle::current().spawn(f);"),
    ] {
        assert_eq!(lines("keeper.rs", text).len(), 1, "{text}");
        assert_eq!(lines("sub/time.rs", text).len(), 1, "{text}");
        assert_eq!(lines("sub/time/part.rs", text).len(), 1, "{text}");
        assert_eq!(lines(place, text), [0; 0], "{text}");
        assert_eq!(lines(&place.replace(".rs", "/part.rs"), text), [0; 0], "{text}");
        assert_eq!(lines("tests/it.rs", text), [0; 0], "{text}");
        let in_tests =
            format!("#[cfg(test)]\nmod tests {{\n    fn f() {{\n        {text}\n    }}\n}}\n");
        assert_eq!(lines("keeper.rs", &in_tests), [0; 0], "{text}");
        assert_eq!(lines("keeper.rs", &format!("{in_tests}{text}")).len(), 1, "{text}");
    }
}

#[test]
fn what_only_looks_like_it_passes() {
    for text in [
        "//! `Instant::now` and tokio::spawn\n/// rand::random()\nfn f() {}",
        "const S: &str = \"a \\\" tokio::spawn(f)\"; const R: &str = r#\"a \" SystemTime\"#;",
        "/* outer /* inner */ tokio::spawn(f) */ fn f() {}",
        "fn f<'a>(x: &'a str) -> char { '\"' } // \" tokio::spawn(f)",
        "Command::new(cmd).spawn()?; operand::x(); self.clock.now(); crate::time::Instant::from_nanos(1);",
        "let ignore = (a, ignore); todo(); v.unimplemented; for r in rows { \"todo!()\" }",
        "let c = '\\''; let b = b'\"'; // todo!()",
    ] {
        assert_eq!(lines("keeper.rs", text), [0; 0], "{text}");
    }
}

#[test]
fn exceptions_have_a_reason_and_hold() {
    let place = "crates/lockkeeper-testing/src/crowd.rs";
    assert!(findings(place, "tokio::spawn(f); tokio::time::pause();").is_empty());
    assert_eq!(findings(place, "rand::random();").len(), 1);
}

#[test]
fn leftovers_are_found_in_tests_too() {
    for text in [
        "todo!()",
        "unimplemented!(\"x\")",
        "#[ignore]\nfn t() {}",
        "#[ignore = \"slow\"]",
        "#[cfg_attr(x, ignore)]",
    ] {
        assert_eq!(lines("keeper.rs", text), [1], "{text}");
        assert_eq!(lines("tests/it.rs", text), [1], "{text}");
        assert_eq!(
            lines("keeper.rs", &format!("#[cfg(test)]\nmod tests {{\n{text}\n}}")),
            [3],
            "{text}"
        );
    }
}

#[test]
fn paths_of_build_machines_are_found_in_every_text() {
    let machine = concat!("/wo", "rk/x");
    for text in [
        format!("see {machine}"),
        format!("// {machine}"),
        format!("\"{machine}\""),
        concat!("../sh", "ared").into(),
    ] {
        assert_eq!(findings("README.md", &format!("first\n{text}")).len(), 1, "{text}");
    }
    assert!(
        findings("README.md", &format!("https://example.org{machine} and ~{machine}")).is_empty()
    );
}

#[test]
fn a_test_named_in_the_documentation_exists_in_its_module() {
    let source = "fn a_lock_is_held() {}\nmod inner {\n    async fn what_is_lost_is_lost() {}\n}\n// fn it_was_once_here()";
    let found = |text: &str| {
        let files = [("crates/x/tests/it/faults/cuts.rs", source), ("docs/x.md", text)];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        check(&files, &Source::all(&files)).len()
    };
    for there in [
        "a_lock_is_held",
        "cuts::a_lock_is_held",
        "faults::cuts::a_lock_is_held",
        "inner::what_is_lost_is_lost",
    ] {
        assert_eq!(found(&format!("It is shown (`x`, suite `{there}`).")), 0, "{there}");
    }
    for not_there in
        ["a_lock_is_free", "cuts::a_lock_is_free", "replies::a_lock_is_held", "it_was_once_here"]
    {
        assert_eq!(found(&format!("It is shown (`x`, suite `{not_there}`).")), 1, "{not_there}");
    }
    for other in [
        "max_waiters",
        "storm::*",
        "lockkeeper_renewal_slack_ratio",
        "LOCKKEEPER_LIVE_REDIS_SERVER",
        "--a_b_c_d",
    ] {
        assert_eq!(found(&format!("a_lock_is_free, and `{other}`")), 0, "{other}");
    }
}

#[test]
fn long_files_and_functions_are_noted() {
    let source = |text: &str| Source::new("crates/x/src/a.rs", text).unwrap();
    let body = |lines: usize| {
        format!("fn f<const N: usize>(a: [u8; 2]) {{\n{}}}\n", "    g({ 1 });\n".repeat(lines))
    };
    assert!(size::check(&[source(&body(68))]).is_empty());
    assert_eq!(
        size::check(&[source(&format!("\n{}", body(69)))])[0].to_string(),
        "crates/x/src/a.rs:2: fn f has 71 lines; 70 are enough"
    );
    let tests = |lines: usize| {
        format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    const A: u8 = 1;\n".repeat(lines))
    };
    assert!(
        size::check(&[source(&format!("{}{}", "const A: u8 = 1;\n".repeat(400), tests(300)))])
            .is_empty()
    );
    assert_eq!(size::check(&[source(&"const A: u8 = 1;\n".repeat(401))]).len(), 1);
    assert!(size::check(&[source("trait T { fn f(); type F = fn(u8); }")]).is_empty());
}

#[test]
fn a_large_store_is_refused_unless_it_has_a_reason_and_does_not_grow() {
    let code = "const A: u8 = 1;\n".repeat(1300);
    let tests = format!("#[cfg(test)]\nmod tests {{\n{code}}}\n");
    let found = |large: &[LargeStore], other: (&str, &str)| {
        let files = [("x/src/driver.rs", ""), ("x/src/a.rs", code.as_str()), other];
        size::growth(large, &sources(&files)).len()
    };
    let may_be = |lines| [LargeStore { path: "crates/x/", lines, why: "why" }];
    let other = ("x/src/b.rs", code.as_str());
    assert_eq!((found(&[], other), found(&may_be(2600), other)), (1, 0));
    assert_eq!((found(&may_be(2599), other), found(&may_be(2700), other)), (1, 0));
    for none in [
        ("x/src/b.rs", tests.as_str()),
        ("x/tests/it.rs", code.as_str()),
        ("y/src/b.rs", code.as_str()),
    ] {
        assert_eq!(found(&[], none), 0, "{}", none.0);
        assert_eq!(found(&may_be(2600), none), 1, "{}: it is no longer large", none.0);
    }
}

#[test]
fn a_large_store_is_shown_with_its_size_and_its_reason() {
    let code = "const A: u8 = 1;\n".repeat(2600);
    let files = sources(&[("x/src/driver.rs", ""), ("x/src/a.rs", code.as_str())]);
    let shown =
        |lines| size::large(&[LargeStore { path: "crates/x/", lines, why: "it is" }], &files);
    let text = "crates/x/: 2600 lines without tests, 2600 may be, since it is";
    assert_eq!(shown(2600), [text]);
    assert!(shown(2700)[0].ends_with("2700 may be, since it is; lower the number in LARGE_STORES"));
}

fn sources(files: &[(&str, &str)]) -> Vec<Source> {
    let files: Vec<_> =
        files.iter().map(|(path, text)| (format!("crates/{path}"), (*text).to_owned())).collect();
    Source::all(&files)
}

#[test]
fn files_that_use_each_other_are_a_cycle() {
    let found = |files: &[(&str, &str)]| {
        let sources = sources(files);
        cycles::cycles(&sources)
            .iter()
            .map(|cycle| cycle.join(" ").replace("crates/", ""))
            .collect::<Vec<_>>()
    };
    let (a, b) = (("x/src/a.rs", "use crate::b::B;"), ("x/src/b.rs", "fn f(a: crate::a::A) {}"));
    assert_eq!(found(&[a, b]), ["x/src/a.rs x/src/b.rs"]);
    assert_eq!(
        found(&[a, ("x/src/b.rs", "use super::a;\nfn f(a: a::A) {}")]),
        ["x/src/a.rs x/src/b.rs"]
    );
    assert_eq!(
        found(&[a, ("x/src/b.rs", "mod inner { use super::super::a::A; }")]),
        ["x/src/a.rs x/src/b.rs"]
    );
    assert_eq!(
        found(&[a, ("x/src/b.rs", "use crate::c::C;"), ("x/src/c.rs", "use super::a::{A, G};")])
            .len(),
        1
    );
    // A module that is only named, a test, and a file of another crate use nothing here.
    for other in [
        ("x/src/b.rs", "use crate::a;"),
        ("x/src/b.rs", "#[cfg(test)]\nmod tests { use crate::a::A; }"),
        ("x/src/b.rs", "//! crate::a::A"),
        ("y/src/b.rs", "use crate::a::A;"),
    ] {
        assert!(found(&[a, other]).is_empty(), "{other:?}");
    }
}

#[test]
fn a_file_that_only_declares_and_re_exports_is_in_no_cycle() {
    let found = |root: &str| {
        let child = ("x/src/d/child.rs", "use super::Other;\nstruct Child(Other);");
        let other = ("x/src/d/other.rs", "struct Other;");
        let sources = sources(&[("x/src/d/mod.rs", root), child, other]);
        cycles::cycles(&sources).len()
    };
    let facade =
        "mod child;\nmod other;\npub use self::child::Child;\npub(crate) use other::Other;\n";
    assert_eq!(found(facade), 0);
    assert_eq!(found(&facade.replace("Child;", "Child as Named;")), 0);
    assert_eq!(found(&format!("{facade}pub use other_crate::child;\nuse std::Child;\n")), 0);
    let defines = "mod child;\nuse self::child::Child;\nstruct Other(Child);";
    assert_eq!(found(defines), 1);
}

#[test]
fn a_cycle_of_more_than_five_files_is_refused() {
    let files = ["a.rs", "b.rs", "c.rs", "d.rs", "e.rs", "f.rs"];
    assert!(cycles::too_large(&files[..5]).is_none());
    let finding = cycles::too_large(&files).unwrap().to_string();
    assert!(finding.starts_with("a.rs:1: 6 files use each other in a circle, 5 may: a.rs, b.rs"));
}

#[test]
fn a_name_is_that_of_one_type_in_a_crate() {
    let files = [
        (
            "x/src/a.rs",
            "pub(crate) struct Turn;\nenum Place {}\n#[cfg(test)]\nmod tests { struct Word; }",
        ),
        ("x/src/b.rs", "trait Turn {}\n// struct Place;\nstruct Word;"),
        ("y/src/a.rs", "struct Place;"),
        ("x/tests/it.rs", "struct Place;"),
    ];
    let found = |double: &[(&str, &[&str])]| {
        let findings = names::against(double, &sources(&files));
        findings.into_iter().map(|finding| finding.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found(&[]), ["crates/x/src/b.rs:1: Turn is also a type in crates/x/src/a.rs:1"]);
    assert_eq!(found(&[("crates/x", &["Turn"])]), [""; 0]);
    let too_much = found(&[("crates/x", &["Turn", "Place"])]);
    assert!(
        too_much[0].ends_with("Place of crates/x is no longer double: remove it from DOUBLE"),
        "{too_much:?}"
    );
    assert_eq!(found(&[("crates/y", &["Turn"])]).len(), 2);
}

#[test]
fn private_words_are_found_in_identifiers_and_sentences() {
    let found = |path: &str, text: &str| findings(&format!("crates/{path}"), text).len();
    for text in [
        "struct Bell;",
        "let rung = 1;",
        "fn the_seat(x: u8) {}",
        "struct PeerSeat(u8);",
        "fn told() {}",
    ] {
        assert_eq!(found("x/src/a.rs", text), 1, "{text}");
    }
    assert_eq!(found("x/src/a.lua", "local function bury(ms) end -- 1"), 1);
    for text in [
        "let label = \"bell\";",
        "struct Bells2;",
        "fn a_holder_is_told_that_it_waits() {}",
        "use a::string::Rang;",
    ] {
        assert_eq!(found("x/src/a.rs", text), 0, "{text}");
    }
    let text = "/// Rings a bell.\nfn f() {} // a seat\nconst S: &str = \"// seat\";";
    assert_eq!(found("x/src/a.rs", text), 2);
    assert_eq!(found("x/src/a.lua", "local a = '-- seat' -- a bell"), 1);
    for path in ["xtask/src/a.rs", "compare/etcd/src/a.rs", "interop/rust/src/a.rs"] {
        assert_eq!(findings(path, "struct Bell; // a bell").len(), 2, "{path}");
    }
    assert_eq!(findings("xtask/src/tidy/words.rs", "// a bell").len(), 0);
}

#[test]
fn private_words_are_found_in_documents_outside_of_code() {
    let lines = |text: &str| {
        let found = findings("docs/a.md", text);
        found.iter().map(|finding| finding.line).collect::<Vec<_>>()
    };
    assert_eq!(lines("One\nhears `a` bell.\n| told |"), [2, 2, 3]);
    assert_eq!(lines("The words `told` and `bell`.\n```sh\nbell\n```\nA bell."), [5]);
}

#[test]
fn a_long_comment_is_refused_and_a_long_line_of_code_or_of_a_table_in_it_is_not() {
    let long = "word ".repeat(25);
    let found = |text: &str| columns::check(&[("a.rs".to_owned(), text.to_owned())]).len();
    assert_eq!(found(&format!("/// {long}\nfn f() {{}} // x\n    // {long}")), 2);
    let fence = "/// ```text";
    let others = [
        format!("const S: &str = \"{long}\";"),
        format!("/// | {long} |\n/// > {long}"),
        format!("{fence}\n/// {long}\n/// ```"),
    ];
    assert_eq!(others.map(|text| found(&text)), [0; 3]);
    assert_eq!(found(&format!("{fence}\n\n/// {long}")), 1, "an open fence ends with the comment");
}

#[test]
fn this_repository_is_read() {
    let root = crate::root().unwrap();
    let files = read_all(&root).unwrap();
    assert!(files.iter().any(|(path, _)| path == "xtask/src/tidy/tests.rs"));
    assert!(
        files.iter().all(|(path, _)| !path.starts_with("target/") && !path.starts_with(".git/"))
    );
}
