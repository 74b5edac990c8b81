//! The claims of the documentation: each named test exists.

use std::collections::HashMap;

use super::finding::Finding;
use super::source::Source;

/// A name of this many words is a sentence, and so the name of a test. A shorter name may be
/// anything.
const WORDS: usize = 4;

/// Other names with such a beginning: metrics, and a field of JSON.
const FIGURES: [&str; 2] = ["lockkeeper_", "store_commands_per_pair"];

pub(crate) fn check(files: &[(String, String)], sources: &[Source]) -> Vec<Finding> {
    let tests = tests(sources);
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".md")) {
        for (number, line) in text.lines().enumerate() {
            let missing = named(line).filter(|name| !is_there(name, &tests));
            findings
                .extend(missing.map(|name| {
                    Finding::new(path, number + 1, format!("there is no test {name}"))
                }));
        }
    }
    findings
}

/// The tests that a line names: between backticks.
fn named(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).flat_map(str::split_whitespace).filter(|name| is_test(name))
}

/// The names of functions that could be tests, and the files that have them.
fn tests(sources: &[Source]) -> HashMap<&str, Vec<&Source>> {
    let mut tests: HashMap<&str, Vec<&Source>> = HashMap::new();
    for source in sources {
        for declared in source.code.split("fn ").skip(1) {
            let end =
                declared.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(declared.len());
            if is_test(&declared[..end]) {
                tests.entry(&declared[..end]).or_default().push(source);
            }
        }
    }
    tests
}

/// `loss::a_late_answer_revives_nothing`: a path in small letters that ends with a sentence.
fn is_test(name: &str) -> bool {
    let is_small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c);
    let sentence = name.rsplit("::").next().unwrap_or(name);
    name.chars().all(is_small)
        && sentence.split('_').count() >= WORDS
        && !FIGURES.iter().any(|figure| sentence.starts_with(figure))
}

/// Returns whether there is such a function, in a module of the given name.
fn is_there(name: &str, tests: &HashMap<&str, Vec<&Source>>) -> bool {
    let mut path = name.rsplit("::");
    let places = path.next().and_then(|sentence| tests.get(sentence));
    let Some(module) = path.next() else { return places.is_some() };
    let is_module = |source: &&Source| {
        source.path.split(['/', '.']).any(|part| part == module)
            || source.code.contains(&format!("mod {module} {{"))
    };
    places.is_some_and(|places| places.iter().any(is_module))
}
