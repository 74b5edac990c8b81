//! The programs of the pages in docs/, compiled as they are printed.

mod getting_started;
mod library;
mod testing;

/// Each block of Rust in the page is in the program, letter by letter.
fn is_compiled(page: &str, program: &str) {
    let blocks: Vec<&str> =
        page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        assert!(program.contains(block), "not compiled:\n{block}");
    }
}

#[test]
fn the_first_lock_in_rust_is_compiled_as_it_is_printed() {
    let page = include_str!("../../../../docs/getting-started.md");
    is_compiled(page, include_str!("pages/getting_started.rs"));
}

#[test]
fn the_leader_on_the_library_page_runs_as_printed() {
    let page = include_str!("../../../../docs/library.md");
    let (_, leader) = page.split_once("## A leader").unwrap();
    let (leader, _) = leader.split_once("\n## ").unwrap();
    is_compiled(leader, include_str!("pages/library.rs"));
}

#[test]
fn the_tests_on_the_testing_page_run_as_printed() {
    let page = include_str!("../../../../docs/testing.md");
    is_compiled(page, include_str!("pages/testing.rs"));
}
