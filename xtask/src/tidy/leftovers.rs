//! Leftovers: unfinished code, tests that do not run, paths of a developer's machine.

use super::finding::Finding;
use super::source::Source;
use super::tokens::tokens;

/// Directories of machines that built the project. Written in two halves, so that this file passes.
const WORDS: [&str; 4] = [
    concat!("/wo", "rk/"),
    concat!("../sh", "ared"),
    concat!("/tmp/w", "t/"),
    concat!("/tmp/t", "gt/"),
];

/// Text that must not be in any file.
pub(crate) fn words(files: &[(String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files {
        for (number, line) in text.lines().enumerate() {
            for word in WORDS.iter().filter(|word| begins_somewhere(line, word)) {
                findings.push(Finding::new(
                    path,
                    number + 1,
                    format!("{word} is a path of a build machine"),
                ));
            }
        }
    }
    findings
}

/// Whether the word occurs, other than as the end of a longer path.
fn begins_somewhere(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || "_~.-".contains(c);
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(inside))
}

/// Code that must not be in any Rust file, tests included.
pub(crate) fn code(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        for window in tokens(&source.code).windows(3) {
            let problem = match [0, 1, 2].map(|i| window[i].text) {
                [name @ ("todo" | "unimplemented"), "!", _] => {
                    format!("{name}! is unfinished code")
                }
                ["#", "[", "ignore"] | ["," | "(", "ignore", ")" | "=" | ","]
                    if in_attribute(source, window[0].line) =>
                {
                    "an ignored test is no test".to_owned()
                }
                _ => continue,
            };
            findings.push(Finding::new(&source.path, window[0].line, problem));
        }
    }
    findings
}

/// Whether an attribute begins on the line: `ignore` is a fair name for a variable.
fn in_attribute(source: &Source, line: usize) -> bool {
    source.code.lines().nth(line - 1).is_some_and(|text| text.trim_start().starts_with("#["))
}
