//! A Rust file with comments and strings blanked, and, separately, its tests. Lines keep their
//! numbers.

use super::tokens::{Token, tokens};

/// A Rust file for the checks.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path from the root of the repository.
    pub(crate) path: String,
    /// The text without comments and without the contents of strings.
    pub(crate) code: String,
    /// The same without tests; empty if the whole file is a test, an example or a benchmark.
    pub(crate) shipped: String,
    /// How many lines are not tests, comments included.
    pub(crate) shipped_lines: usize,
    /// A program has written the file, and its head says so.
    pub(crate) is_generated: bool,
}

impl Source {
    /// `None` for a file that is not Rust.
    pub(crate) fn new(path: &str, text: &str) -> Option<Self> {
        if !path.ends_with(".rs") {
            return None;
        }
        let code = blank_text(text);
        let (shipped, test_lines) =
            if is_test(path) { (String::new(), usize::MAX) } else { blank_tests(&code) };
        let shipped_lines = text.lines().count().saturating_sub(test_lines);
        let is_generated = text.lines().take(3).any(|line| line.contains("@generated"));
        Some(Self { path: path.to_owned(), code, shipped, shipped_lines, is_generated })
    }

    /// All Rust files. A file that another file declares as `#[cfg(test)] mod x;` is blanked.
    pub(crate) fn all(files: &[(String, String)]) -> Vec<Self> {
        let mut sources: Vec<_> =
            files.iter().filter_map(|(path, text)| Self::new(path, text)).collect();
        let declared: Vec<String> = sources.iter().flat_map(Self::test_modules).collect();
        for source in &mut sources {
            let stem = source.path.trim_end_matches(".rs");
            if declared
                .iter()
                .any(|module| stem == module || stem.starts_with(&format!("{module}/")))
            {
                (source.shipped, source.shipped_lines) = (String::new(), 0);
            }
        }
        sources
    }

    /// The files of the `#[cfg(test)] mod x;` items, without `.rs`.
    fn test_modules(&self) -> Vec<String> {
        let stem = self.path.trim_end_matches(".rs");
        let (parent, last) = stem.rsplit_once('/').unwrap_or(("", stem));
        let dir = if ["mod", "lib", "main"].contains(&last) { parent } else { stem };
        let tokens = tokens(&self.code);
        let declared = tokens.windows(10).filter_map(|window| {
            let words: [&str; 10] = std::array::from_fn(|i| window[i].text);
            match words {
                ["#", "[", "cfg", "(", "test", ")", "]", "mod", name, ";"] => {
                    Some(format!("{dir}/{name}"))
                }
                _ => None,
            }
        });
        declared.collect()
    }

    pub(crate) fn tokens(&self) -> Vec<Token<'_>> {
        tokens(&self.shipped)
    }
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs")
        || ["tests", "examples", "benches"].iter().any(|dir| path.split('/').any(|d| d == *dir))
}

/// Replaces comments and the contents of strings and characters by spaces.
pub(crate) fn blank_text(text: &str) -> String {
    let mut blanked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after_word =
            blanked.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
        let length = literal(rest, after_word);
        if length == 0 {
            blanked.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            blanked.extend(rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[length..];
        }
    }
    blanked
}

/// The length of the comment or literal at the begin of the text; 0 if there is neither.
fn literal(text: &str, after_word: bool) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment(text);
    }
    if let Some(quoted) = text.strip_prefix('"') {
        return 1 + quoted_end(quoted, '"');
    }
    if text.starts_with('\'') {
        return character(text);
    }
    // r"…", r#"…"#, br"…", cr"…"; the r of `for"` begins no string.
    let prefix = ["r", "br", "cr"].into_iter().find(|p| !after_word && text.starts_with(p));
    prefix
        .and_then(|prefix| raw_string(&text[prefix.len()..]).map(|length| prefix.len() + length))
        .unwrap_or(0)
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        match rest {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Where the text that begins behind a quote ends, with the closing quote.
fn quoted_end(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// A character literal, but not a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text[1..].char_indices();
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), _) => 1 + quoted_end(&text[1..], '\''),
        (Some(_), Some((at, '\''))) => at + 2,
        _ => 0,
    }
}

fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.bytes().take_while(|b| *b == b'#').count();
    let content = text[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = content.find(&end).map_or(content.len(), |at| at + end.len());
    Some(hashes + 1 + length)
}

/// Blanks every item after `#[cfg(test)]`; also returns the number of their lines.
fn blank_tests(code: &str) -> (String, usize) {
    let (mut shipped, mut lines, mut rest) = (String::new(), 0, code);
    while let Some(at) = rest.find("#[cfg(test)]").or_else(|| rest.find("#[cfg(all(test")) {
        let (before, item) = rest.split_at(at);
        let (item, after) = item.split_at(item_end(item));
        shipped.push_str(before);
        shipped.extend(item.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        lines += item.lines().count();
        rest = after;
    }
    shipped.push_str(rest);
    (shipped, lines)
}

/// The end of the item at the begin of the text: its `;` or its closing brace.
fn item_end(item: &str) -> usize {
    let (mut braces, mut others) = (0_usize, 0_usize);
    for (at, c) in item.char_indices() {
        match c {
            '(' | '[' => others += 1,
            ')' | ']' => others = others.saturating_sub(1),
            '{' => braces += 1,
            '}' if braces <= 1 => return at + 1,
            '}' => braces -= 1,
            ';' if braces == 0 && others == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}
