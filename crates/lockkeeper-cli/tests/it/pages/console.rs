//! A terminal of a page: its commands and their output.

use std::path::PathBuf;

use super::block::Block;
use super::stage::Stage;
use crate::support::{Process, eventually, text};

/// The owner in all pages; the number differs in each terminal that goes on.
const OWNER: &str = "anna@web1:";
const FIRST: u32 = 4710;

/// A command, and its output according to the page.
struct Typed {
    command: String,
    expected: String,
    printed: PathBuf,
    code: PathBuf,
}

/// A shell that runs the commands of a block.
pub(super) struct Console {
    location: String,
    typed: Vec<Typed>,
    shell: Process,
}

impl Console {
    /// Runs the commands. If the last command goes on, runs them until it has printed its first
    /// line.
    pub(super) fn start(stage: &Stage, block: &Block) -> Self {
        let typed = typed(stage, block);
        let script = script(&typed);
        // Enter, when the input ends.
        let script =
            if block.goes_on() { format!("{{ cat; echo; }} | {{\n{script}}}") } else { script };
        let mut shell = stage.shell(&script);
        let owner =
            format!("{OWNER}{}", if block.goes_on() { stage.terminal() } else { 0 } + FIRST);
        let shell = Process::start(shell.env("LOCKKEEPER_OWNER", owner));
        let console = Self { location: block.location.clone(), typed, shell };
        if block.goes_on() {
            console.first_line();
        }
        console
    }

    fn first_line(&self) {
        let last =
            self.typed.last().unwrap_or_else(|| panic!("{}: nothing is typed", self.location));
        let Some(expected) = last.expected.lines().next() else { return };
        let mut printed = String::new();
        eventually(&format!("{}: {}", self.location, last.command), || {
            printed = text(&last.printed);
            printed.lines().next().is_some_and(|line| same(expected, line))
        });
    }

    /// Presses Enter, waits for the end of the last command, and compares its output.
    pub(super) fn finish(mut self) {
        self.shell.finish();
        let location = &self.location;
        for (at, typed) in self.typed.iter().enumerate() {
            let (printed, code) = (text(&typed.printed), text(&typed.code));
            assert!(
                same(&typed.expected, &printed),
                "{location}: $ {}\nprints\n{printed}instead of\n{}",
                typed.command,
                typed.expected
            );
            let asked = self.typed.get(at + 1).is_some_and(|next| next.command.trim() == "echo $?");
            assert!(
                asked || code == "0\n",
                "{location}: $ {}\nends with {code}{printed}",
                typed.command
            );
        }
    }
}

/// The commands of the block.
fn typed(stage: &Stage, block: &Block) -> Vec<Typed> {
    let mut typed: Vec<Typed> = Vec::new();
    for line in block.code.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            let (printed, code) = (stage.record(), stage.record());
            typed.push(Typed {
                command: command.to_owned(),
                expected: String::new(),
                printed,
                code,
            });
        } else {
            let last = typed
                .last_mut()
                .unwrap_or_else(|| panic!("{}: begins with no command", block.location));
            let of_command = last.expected.is_empty() && last.command.ends_with('\\');
            let text = if of_command { &mut last.command } else { &mut last.expected };
            text.push_str(if of_command { "\n" } else { "" });
            text.push_str(line);
            text.push_str(if of_command { "" } else { "\n" });
        }
    }
    typed
}

/// All commands in one shell, each with its output in a file, and with `$?` as in an interactive
/// shell.
fn script(typed: &[Typed]) -> String {
    let mut script = "result=0\n".to_owned();
    for Typed { command, printed, code, .. } in typed {
        let (printed, code) = (printed.display(), code.display());
        script += &format!(
            "{{ (exit $result)\n{command}\n}} > '{printed}' 2>&1\nresult=$?; echo $result > '{code}'\n"
        );
    }
    script
}

/// Whether this was printed. Times, tokens and ids are examples, blanks may be more or fewer, and
/// `…` is any text.
pub(super) fn same(expected: &str, printed: &str) -> bool {
    let (expected, printed) = (plain(expected), plain(printed));
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|first| printed.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    true
}

fn plain(text: &str) -> String {
    let lines = text
        .trim_end()
        .lines()
        .map(|line| line.split_whitespace().map(example).collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

/// `#` in the place of a time, a token or an id.
fn example(word: &str) -> String {
    let bare = word.trim_end_matches([',', '.', ';', ':', ')']);
    let is_time = bare.starts_with(|c: char| c.is_ascii_digit())
        && bare.ends_with(['s', 'm', 'h'])
        && bare.chars().all(|c| c.is_ascii_digit() || ".hmsµ".contains(c));
    let is_number = bare.len() >= 13 && bare.chars().all(|c| c.is_ascii_hexdigit());
    if is_time || is_number { word.replacen(bare, "#", 1) } else { word.to_owned() }
}
