//! Private words: metaphors of the old code, where the field has a term (`docs/glossary.md`).

use super::finding::Finding;
use super::tokens::tokens;

/// A word, and its replacement.
struct Word {
    word: &'static str,
    instead: &'static str,
    /// Whether the sentence in the name of a test may have the word.
    in_names: bool,
}

#[rustfmt::skip]
const WORDS: &[Word] = &[
    Word { word: "anew", instead: "again", in_names: true },
    Word { word: "belfry", instead: "Notifier", in_names: false },
    Word { word: "bell", instead: "Notify, notice", in_names: false },
    Word { word: "bells", instead: "notices", in_names: false },
    Word { word: "buried", instead: "removed", in_names: false },
    Word { word: "bury", instead: "add a tombstone, remove", in_names: false },
    Word { word: "census", instead: "DeadClientCheck", in_names: false },
    Word { word: "deaf", instead: "closed", in_names: false },
    Word { word: "desk", instead: "state", in_names: false },
    Word { word: "detour", instead: "RetryAction", in_names: false },
    Word { word: "diary", instead: "EventLog", in_names: false },
    Word { word: "disown", instead: "forget the owner", in_names: false },
    Word { word: "doomed", instead: "KillSet", in_names: false },
    Word { word: "ear", instead: "listener", in_names: false },
    Word { word: "ears", instead: "listeners", in_names: false },
    Word { word: "flaw", instead: "mutant", in_names: false },
    Word { word: "flaws", instead: "mutants", in_names: false },
    Word { word: "grave", instead: "tombstone", in_names: false },
    Word { word: "hear", instead: "receive, learn", in_names: true },
    Word { word: "heard", instead: "received", in_names: true },
    Word { word: "hears", instead: "receives, learns", in_names: true },
    Word { word: "heed", instead: "note", in_names: false },
    Word { word: "lookout", instead: "observer", in_names: false },
    Word { word: "manieth", instead: "number", in_names: false },
    Word { word: "narrator", instead: "WaitReporter", in_names: false },
    Word { word: "nudge", instead: "wake", in_names: false },
    Word { word: "nudges", instead: "wakes", in_names: false },
    Word { word: "outlet", instead: "sink", in_names: false },
    Word { word: "outlets", instead: "sinks", in_names: false },
    Word { word: "parties", instead: "clients", in_names: false },
    Word { word: "party", instead: "client", in_names: false },
    Word { word: "patience", instead: "limit, time-out", in_names: false },
    Word { word: "poked", instead: "woken", in_names: false },
    Word { word: "roster", instead: "schedule", in_names: false },
    Word { word: "rouse", instead: "wake", in_names: false },
    Word { word: "rung", instead: "notified", in_names: false },
    Word { word: "seat", instead: "slot", in_names: false },
    Word { word: "seats", instead: "slots", in_names: false },
    Word { word: "sleepers", instead: "waiters", in_names: false },
    Word { word: "spoil", instead: "retire", in_names: false },
    Word { word: "spoiled", instead: "retired", in_names: false },
    Word { word: "stake", instead: "share", in_names: false },
    Word { word: "tally", instead: "counter", in_names: false },
    Word { word: "tell", instead: "report", in_names: true },
    Word { word: "tells", instead: "reports", in_names: true },
    Word { word: "told", instead: "reported", in_names: true },
    Word { word: "weather", instead: "fault profile", in_names: false },
    Word { word: "whoever", instead: "the claim, the client", in_names: true },
    Word { word: "whom", instead: "the claim, the client", in_names: true },
];

/// The file in which [`WORDS`] is.
const HERE: &str = "xtask/src/tidy/words.rs";

/// The refused words in identifiers, comments and documents.
pub(crate) fn check(files: &[(String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path != HERE) {
        let Some((code, prose)) = split(path, text) else { continue };
        for token in tokens(&code).into_iter().filter(|token| token.is_word()) {
            for word in parts(token.text)
                .iter()
                .filter_map(|part| of(part))
                .filter(|word| !word.in_names || !is_sentence(token.text))
            {
                findings.push(word.finding(path, token.line, token.text));
            }
        }
        for (number, line) in prose.lines().enumerate() {
            let words = line.split(|c: char| !c.is_ascii_alphabetic()).map(str::to_ascii_lowercase);
            for word in words.filter_map(|word| of(&word)) {
                findings.push(word.finding(path, number + 1, "a sentence"));
            }
        }
    }
    findings
}

impl Word {
    fn finding(&self, path: &str, line: usize, place: &str) -> Finding {
        let message =
            format!("{place} has the private word {:?}. Try: {}", self.word, self.instead);
        Finding::new(path, line, message)
    }
}

fn of(word: &str) -> Option<&'static Word> {
    WORDS.iter().find(|known| known.word == word)
}

/// The code and the sentences of a Rust, Lua or Markdown file, each with the other one blanked;
/// strings are in neither. Markdown has no code here: tests and commands have quoted names.
fn split(path: &str, text: &str) -> Option<(String, String)> {
    let (marker, quotes): (_, &[char]) = match path.rsplit_once('.')?.1 {
        "rs" => ("//", &['"']),
        "lua" => ("--", &['\'', '"']),
        "md" => return Some((String::new(), blank_quoted(text))),
        _ => return None,
    };
    let (mut code, mut prose) = (String::new(), String::new());
    let code_of = match marker {
        "//" => super::source::blank_text(text),
        _ => blank_lua(text),
    };
    for (line, blanked) in text.lines().zip(code_of.lines()) {
        // A comment begins where the marker was blanked.
        let begin = line.match_indices(marker).map(|(at, _)| at).find(|at| {
            blanked.is_char_boundary(*at)
                && blanked[*at..].trim().is_empty()
                && !in_string(&line[..*at], quotes)
        });
        code.push_str(blanked);
        prose.push_str(begin.map_or("", |at| &line[at..]));
        code.push('\n');
        prose.push('\n');
    }
    Some((code, prose))
}

/// Markdown without its blocks of code, and without what is between backticks.
fn blank_quoted(text: &str) -> String {
    let (mut prose, mut in_block) = (String::with_capacity(text.len()), false);
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        if !in_block && !is_fence {
            prose.extend(line.split('`').step_by(2));
        }
        prose.push('\n');
    }
    prose
}

/// Whether one of these quotes is open at the end of this part of a line.
fn in_string(before: &str, quotes: &[char]) -> bool {
    let (mut open, mut escaped) = (None, false);
    for c in before.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if open == Some(c) => open = None,
            c if open.is_none() && quotes.contains(&c) => open = Some(c),
            _ => {}
        }
    }
    open.is_some()
}

fn blank_lua(text: &str) -> String {
    let mut blanked = String::with_capacity(text.len());
    for line in text.lines() {
        let (mut quote, mut rest) = (None, line.chars().peekable());
        while let Some(c) = rest.next() {
            if quote.is_none() && c == '-' && rest.peek() == Some(&'-') {
                blanked.extend(std::iter::repeat_n(' ', 1 + rest.count()));
                break;
            }
            let is_quote = c == '\'' || c == '"';
            blanked.push(if quote.is_some() || is_quote { ' ' } else { c });
            quote = match quote {
                Some(open) if open == c => None,
                None if is_quote => Some(c),
                open => open,
            };
        }
        blanked.push('\n');
    }
    blanked
}

/// The words of an identifier, in small letters.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = '_';
    for c in identifier.chars() {
        if c == '_' || (c.is_uppercase() && before.is_lowercase()) {
            parts.push(String::new());
        }
        if let Some(last) = parts.last_mut().filter(|_| c != '_') {
            last.extend(c.to_lowercase());
        }
        before = c;
    }
    parts
}

/// Whether an identifier is the name of a test: five words and more.
fn is_sentence(identifier: &str) -> bool {
    identifier.split('_').count() >= 5
}
