//! `cargo xtask tidy`: checks beyond the compiler. It scans text and does not parse: it first
//! blanks comments and strings. A scan cannot see everything, such as a method call on a value of
//! unknown type; the reviewer has to.

mod claims;
mod columns;
mod cycles;
mod finding;
mod imports;
mod leftovers;
mod names;
mod places;
mod size;
mod source;
#[cfg(test)]
mod tests;
mod tokens;
mod versions;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use self::finding::Finding;
use self::source::Source;

/// Directories without files of the project.
const SKIPPED: [&str; 3] = [".git", "target", "node_modules"];

pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let files = read_all(root)?;
    let sources = Source::all(&files);
    let mut findings = check(&files, &sources);
    for note in size::check(&sources) {
        println!("note: {note}");
    }
    for note in size::large(size::LARGE_STORES, &sources) {
        println!("note: {note}");
    }
    findings.extend(size::growth(size::LARGE_STORES, &sources));
    findings.extend(cycles::check(&sources));
    findings.extend(names::check(&sources));
    findings.extend(versions::check(&files));
    for finding in &findings {
        println!("error: {finding}");
    }
    println!("tidy: {} Rust files, {} errors", sources.len(), findings.len());
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All findings in the order of the files.
fn check(files: &[(String, String)], sources: &[Source]) -> Vec<Finding> {
    let mut findings = leftovers::words(files);
    findings.extend(words::check(files));
    findings.extend(columns::check(files));
    findings.extend(leftovers::code(sources));
    findings.extend(imports::check(sources));
    findings.extend(places::check(sources));
    findings.extend(claims::check(files, sources));
    findings.sort();
    findings
}

/// Every text file of the repository, with its path from the root.
fn read_all(root: &Path) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    walk(root, &mut |path| {
        // A file that is not UTF-8 is no text.
        if let Ok(text) = fs::read_to_string(path) {
            let name = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
            files.push((name, text));
        }
    })?;
    files.sort();
    Ok(files)
}

fn walk(dir: &Path, visit: &mut impl FnMut(&PathBuf)) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
            walk(&entry.path(), visit)?;
        } else if kind.is_file() && entry.file_name() != ".git" {
            visit(&entry.path());
        }
    }
    Ok(())
}
