//! The pages that guide a reader through steps: the tests run their commands as printed.
//!
//! All blocks of a page run in one folder, in their order, on a file store. `redis://10.0.0.5` in a
//! page means that store, and [`PROGRAMS`] replaces the programs of the reader. A block runs by its
//! language:
//!
//! - `sh`: a script, of which each line has to succeed.
//! - `console`: commands after `$ ` and their output. Times, tokens and ids are examples; `…` is
//!   any text. A command that fails is followed by `$ echo $?`.
//! - `yaml`, `ini`: the lockkeeper lines of the block, as a script.
//! - `toml`, `json`: read by a parser.
//!
//! `<!-- not run here: WHY -->` before a block leaves it out; the test of the page lists each WHY.
//! `<!-- goes on -->` before a console is a terminal of its own, in which the last command goes on
//! beside the following blocks. Its input ends with the section.

mod block;
mod console;
mod stage;

use serde_json::Value;
use toml::de::DeTable;

use self::block::{Block, blocks};
use self::console::{Console, same};
use self::stage::Stage;

/// Runs the whole page except the blocks that are left out for these reasons.
fn page(name: &str, left_out: &[&str]) {
    let blocks = blocks(name);
    assert!(!blocks.is_empty(), "{name} has no blocks");
    let reasons: Vec<&str> = blocks.iter().filter_map(Block::left_out).collect();
    assert_eq!(reasons, left_out, "{name}");
    let stage = Stage::new();
    for section in blocks.chunk_by(|a, b| a.section == b.section) {
        let going_on: Vec<Console> =
            section.iter().filter_map(|block| run(&stage, block)).collect();
        for console in going_on {
            console.finish();
        }
    }
}

/// Runs a block. Returns the terminal, if its last command goes on.
fn run(stage: &Stage, block: &Block) -> Option<Console> {
    if block.left_out().is_some() {
        return None;
    }
    match block.language.as_str() {
        "sh" => stage.run(&block.code, &block.location),
        "yaml" | "ini" => stage.run(&block.embedded(), &block.location),
        "console" => {
            let console = Console::start(stage, block);
            if block.goes_on() {
                return Some(console);
            }
            console.finish();
        }
        "toml" => assert!(DeTable::parse(&block.code).is_ok(), "{}", block.location),
        "json" => assert!(serde_json::from_str::<Value>(&block.code).is_ok(), "{}", block.location),
        // Rust is a test of the library.
        "rust" | "text" | "dockerfile" => {}
        other => panic!("{}: nothing is known of the language {other:?}", block.location),
    }
    None
}

#[test]
fn times_tokens_and_ids_of_a_page_are_examples_and_the_rest_is_compared() {
    assert!(same(
        "held for 1.2s by a@b:1,  token 1795487515728929",
        "held for 30m00s by a@b:1, token 1795487515728930\n"
    ));
    assert!(same("takes 4.0ms (median)", "takes 888.6µs (median)"));
    assert!(same("ok … in use", "ok  locks 1 in use"));
    assert!(same("…\nfree", "b\na\nfree"));
    for (page, printed) in [
        ("free", "held"),
        ("a@b:1", "a@b:2"),
        ("a …", "b a"),
        ("… a", "a b"),
        ("a", "a b"),
        ("12", "13"),
    ] {
        assert!(!same(page, printed), "{page:?} {printed:?}");
    }
}

#[test]
fn the_lines_of_lockkeeper_are_found_in_other_files() {
    let code = "command: [\"lockkeeper\", \"run\", \"a b\"]\n  - run: lockkeeper list\n  - lockkeeper list\n\
                ExecStart=/usr/local/bin/lockkeeper list\n  lockkeeper run x -- \\\n    true\n- name: lockkeeper list\n";
    let block = Block { code: code.to_owned(), ..Block::default() };
    let list = "lockkeeper list\n";
    assert_eq!(
        block.embedded(),
        format!("'lockkeeper' 'run' 'a b'\n{list}{list}{list}lockkeeper run x -- \\\n    true\n")
    );
}

#[test]
fn the_first_lock_of_the_readme_is_as_it_is_printed() {
    let mut console =
        blocks("README.md").into_iter().find(|block| block.language == "console").unwrap();
    let wait = "until lockkeeper inspect deploy > /dev/null 2>&1; do sleep 0.1; done;";
    console.code = console.code.replace("me@host:4411", "anna@web1:4710").replace("sleep 1;", wait)
        + "$ kill $!\n";
    Console::start(&Stage::new(), &console).finish();
}

#[test]
fn the_first_steps_are_as_they_are_printed() {
    page("docs/getting-started.md", &["builds lockkeeper", "needs a server"]);
}

#[test]
fn the_lines_of_pipelines_run_as_they_are_printed() {
    page("docs/ci.md", &[]);
}

#[test]
fn the_lines_of_units_run_as_they_are_printed() {
    page("docs/systemd.md", &["the lock is kept for two minutes"]);
}

#[test]
fn the_commands_of_manifests_run_as_they_are_printed() {
    page("docs/kubernetes.md", &["needs a cluster"]);
}

#[test]
fn what_operators_type_runs_as_it_is_printed() {
    page("docs/operations.md", &["goes on until you end it", "measures for ten seconds"]);
}

#[test]
fn what_is_typed_about_a_file_runs_as_it_is_printed() {
    let left_out = ["needs another user", "needs root", "needs root", "needs containers"];
    page("docs/file.md", &[&left_out[..], &["needs the program sqlite3"]].concat());
}

#[test]
fn what_is_typed_about_tests_of_scripts_runs_as_it_is_printed() {
    page("docs/testing.md", &[]);
}
