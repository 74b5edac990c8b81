//! The streams: stdout carries answers, stderr carries warnings, errors and events.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use rustix::termios::tcgetwinsize;
use serde::Serialize;

use lockkeeper::url::StoreUrl;

use crate::exit::{Exit, Failure};
use crate::remedy::completed;

/// How many characters of a text an error shows.
const SHOWN: usize = 40;

/// How much is said on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    Errors,
    Warnings,
    Info,
    Debug,
}

/// One line on stderr. A closed stderr is no reason to fail, still less to leave a lock behind.
pub(crate) fn complain(message: &str) {
    drop(io::stderr().lock().write_all(complaint(message).as_bytes()));
}

/// The line that [`complain`] writes.
pub(crate) fn complaint(message: &str) -> String {
    format!("lockkeeper: {}\n", printable(&redact(&completed(message))))
}

/// A message before the first use of the store, as a line for people or for programs.
pub(crate) fn notice(message: &str, json: bool) -> String {
    if !json {
        return complaint(message);
    }
    let time = format!("{:.3}", Timestamp::now());
    format!(
        "{}\n",
        serde_json::json!({ "event": "notice", "time": time, "message": redact(message) })
    )
}

/// The answer, on stdout.
///
/// # Errors
/// A reader that has gone away ends the program as SIGPIPE would; a full disk is named.
pub(crate) fn answer(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => {
            Failure::new(Exit::Signal(rustix::process::Signal::PIPE.as_raw()), "stdout: closed")
        }
        _ => Failure::new(
            Exit::Output,
            format!("the answer could not be written to stdout: {error}. Try: another file, or a disk with space"),
        ),
    })
}

/// One line of JSON.
pub(crate) fn json_line(value: &impl Serialize) -> Result<String, Failure> {
    let line = serde_json::to_string(value)
        .map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    Ok(line + "\n")
}

/// The meaning of a cell, for terminals that can show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Title,
    /// The lock has a holder.
    Busy,
    /// The lock has no holder.
    Free,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Title => Style::new().bold(),
            Self::Busy => AnsiColor::Yellow.on_default(),
            Self::Free => AnsiColor::Green.on_default(),
        }
    }
}

/// The text in quotes, for an error: a text that is too long for a line ends with an ellipsis.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}", format!("{}…", &text[..end])),
        None => format!("{text:?}"),
    }
}

/// Returns whether the output is coloured: its target is a terminal that can show colours, and the
/// user has not refused them.
pub(crate) fn colours(to: &impl IsTerminal) -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    to.is_terminal()
        && !is_set("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Cells in columns, two spaces apart; the last column has any width. No text is ever cut: a column
/// only grows.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    widths: Vec<usize>,
    colours: bool,
}

impl Columns {
    pub(crate) fn new(colours: bool) -> Self {
        Self { widths: Vec::new(), colours }
    }

    /// The same with room for these cells from the first line on.
    pub(crate) fn with_room_for<'a>(mut self, cells: impl Iterator<Item = &'a str>) -> Self {
        self.make_room(cells);
        self
    }

    fn make_room<'a>(&mut self, cells: impl Iterator<Item = &'a str>) {
        for (column, cell) in cells.enumerate() {
            let width = cell.chars().count();
            match self.widths.get_mut(column) {
                Some(known) => *known = width.max(*known),
                None => self.widths.push(width),
            }
        }
    }

    /// One line, in columns as wide as the columns of all lines before.
    pub(crate) fn line(&mut self, cells: &[(&str, Tone)]) -> String {
        self.make_room(cells.iter().map(|(cell, _)| *cell));
        let last = cells.iter().rposition(|(cell, _)| !cell.is_empty());
        let mut line = String::new();
        for (column, (cell, tone)) in
            cells.iter().enumerate().take_while(|(column, _)| Some(*column) <= last)
        {
            let style = if self.colours { tone.style() } else { Style::new() };
            let room = if Some(column) == last {
                0
            } else {
                self.widths[column] + 2 - cell.chars().count()
            };
            line.push_str(&format!("{style}{cell}{style:#}{:room$}", ""));
        }
        line + "\n"
    }
}

/// Rows as columns.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    toned_table(Columns::default(), rows, Tone::Plain)
}

/// Rows as columns below the titles that are the first row, for stdout.
pub(crate) fn titled_table(rows: &[Vec<String>]) -> String {
    toned_table(Columns::new(colours(&io::stdout())), rows, Tone::Title)
}

fn toned_table(mut columns: Columns, rows: &[Vec<String>], first: Tone) -> String {
    rows.iter().for_each(|row| columns.make_room(row.iter().map(String::as_str)));
    let lines = rows.iter().enumerate().map(|(number, row)| {
        let tone = if number == 0 { first } else { Tone::Plain };
        columns.line(&row.iter().map(|cell| (cell.as_str(), tone)).collect::<Vec<_>>())
    });
    lines.collect()
}

/// The columns of the terminal, if it is one that knows them.
pub(crate) fn width(of: impl AsFd) -> Option<usize> {
    tcgetwinsize(of).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns != 0)
}

/// The lines of a text, none wider than `width`; a word that is wider has a line of its own.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines
            .last_mut()
            .filter(|line| line.chars().count() + 1 + word.chars().count() <= width)
        {
            Some(line) => *line = format!("{line} {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Text of strangers for a terminal: control characters could move the cursor and forge lines.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// Removes the password, and every parameter that looks like a password, from every URL in a text.
pub(crate) fn redact(text: &str) -> Cow<'_, str> {
    let Some((before, _, after)) = password(text) else { return without_parameters(text) };
    Cow::Owned(format!("{before}***{}", redact(after)))
}

fn without_parameters(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    let words = text
        .split(|c: char| c.is_whitespace() || "\"'".contains(c))
        .filter(|word| word.contains("://"));
    // An error puts a colon after the URL.
    let words = words.map(|word| word.strip_suffix(':').unwrap_or(word));
    let urls = words.filter_map(|word| Some((word.to_owned(), word.parse::<StoreUrl>().ok()?)));
    for (word, url) in urls.filter(|(_, url)| url.has_password()).collect::<Vec<_>>() {
        text = Cow::Owned(text.replace(&word, &url.to_string()));
    }
    text
}

/// Whether a URL carries a password, or a parameter that looks like one.
pub(crate) fn has_password(url: &str) -> bool {
    password(url).is_some() || url.parse::<StoreUrl>().is_ok_and(|url| url.has_password())
}

/// The text before, of and behind the first password of a URL in `text`.
///
/// A password with an unencoded `/` is recognised too: a typing mistake must not reveal it.
fn password(text: &str) -> Option<(&str, &str, &str)> {
    let mut start = 0;
    while let Some(found) = text[start..].find("://") {
        start += found + 3;
        let rest = &text[start..];
        let url = &rest[..rest.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(rest.len())];
        if let Some((colon, at)) = password_in(url) {
            return Some((
                &text[..=start + colon],
                &text[start + colon + 1..start + at],
                &text[start + at..],
            ));
        }
    }
    None
}

/// The positions of the `:` before the password and of the `@` after it, in the text after `://`.
fn password_in(url: &str) -> Option<(usize, usize)> {
    let authority = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
    let at = match authority.rfind('@') {
        Some(at) => at,
        None if ends_with_port(authority) => return None,
        None => url.rfind('@')?,
    };
    let colon = url[..at].find(':')?;
    (colon + 1 < at).then_some((colon, at))
}

fn ends_with_port(authority: &str) -> bool {
    match authority.rsplit_once(':') {
        Some((_, port)) => port.ends_with(']') || port.bytes().all(|b| b.is_ascii_digit()),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_taken_out() {
        for (text, redacted) in [
            ("redis://:pw@h:1/0", "redis://:***@h:1/0"),
            ("at redis://me:p@w@h, gone", "at redis://me:***@h, gone"),
            ("redis://me:p/w@h", "redis://me:***@h"),
            ("a://u:1@h and b://u:2@h", "a://u:***@h and b://u:***@h"),
            (
                "redis+sentinel://h/m?sentinel-password=pw",
                "redis+sentinel://h/m?sentinel-password=***",
            ),
        ] {
            assert_eq!(redact(text), redacted);
            assert!(has_password(text));
        }
        assert_eq!(
            redact("no 'mysql://h?auth-token=pw' found"),
            "no 'mysql://h?auth-token=***' found"
        );
    }

    #[test]
    fn what_holds_no_password_stays() {
        for text in [
            "file:/a:b@c",
            "redis://h:6379/0",
            "redis://me@h",
            "redis://me:@h",
            "etcd://h:2379/a@b",
            "zk://[::1]/a@b",
            "",
        ] {
            assert_eq!(redact(text), text);
            assert!(!has_password(text), "{text}");
        }
    }

    #[test]
    fn columns_are_aligned_without_trailing_blanks() {
        let rows = [vec!["NAME".into(), "OWNER".into()], vec!["deploy/web".into(), String::new()]];
        assert_eq!(table(&rows), "NAME        OWNER\ndeploy/web\n");
    }

    #[test]
    fn colours_take_no_room_and_lines_that_follow_keep_the_columns() {
        let mut columns = Columns::new(true);
        assert_eq!(
            columns.line(&[("held", Tone::Busy), ("a", Tone::Plain)]),
            "\u{1b}[33mheld\u{1b}[0m  a\n"
        );
        let mut columns = Columns::default();
        assert_eq!(columns.line(&[("long", Tone::Busy), ("a", Tone::Plain)]), "long  a\n");
        assert_eq!(columns.line(&[("x", Tone::Free), ("b", Tone::Plain)]), "x     b\n");
        assert_eq!(columns.line(&[("longer", Tone::Free), ("b", Tone::Plain)]), "longer  b\n");
        assert_eq!(columns.line(&[("", Tone::Plain)]), "\n");
    }

    #[test]
    fn text_is_wrapped_between_words_and_none_is_cut() {
        assert_eq!(wrapped("a bc d", 4), ["a bc", "d"]);
        assert_eq!(wrapped("a bc d", 6), ["a bc d"]);
        assert_eq!(wrapped("éé à wide-word b", 4), ["éé à", "wide-word", "b"]);
        assert_eq!(wrapped("", 4), [""]);
    }

    #[test]
    fn strangers_cannot_move_the_cursor() {
        assert_eq!(printable("a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(printable("é"), "é");
    }
}
