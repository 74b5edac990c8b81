//! The width of comments. rustfmt keeps the code within its `max_width`, and breaks no comment.

use super::finding::Finding;

/// As `max_width` in rustfmt.toml.
const COLUMNS: usize = 100;

/// The lines of sentences that are too long. Code, tables and quotations keep their lines.
pub(crate) fn check(files: &[(String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".rs")) {
        let mut is_code = false;
        for (number, line) in text.lines().enumerate() {
            let Some(sentence) = sentence(line) else {
                is_code = false;
                continue;
            };
            is_code ^= sentence.starts_with("```");
            let may_be_long = is_code || sentence.starts_with(['|', '>']);
            if !may_be_long && line.chars().count() > COLUMNS {
                let message = format!("a comment has more than {COLUMNS} columns");
                findings.push(Finding::new(path, number + 1, message));
            }
        }
    }
    findings
}

/// The text of a line that is a comment.
fn sentence(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}
