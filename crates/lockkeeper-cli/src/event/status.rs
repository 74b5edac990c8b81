//! One line at the bottom of a terminal; it is redrawn, and leaves no trace.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::termios::tcgetpgrp;

use super::sink::Sink;
use crate::output::width;
use crate::this_process::own_group;

/// Moves to the first column, and erases the line.
const WIPE: &str = "\r\x1b[K";
/// How long a terminal that is held (Ctrl-S) may keep us.
const HELD: Duration = Duration::from_millis(200);
const USUAL_WIDTH: usize = 80;

#[derive(Debug)]
pub(super) struct Status {
    is_possible: bool,
    is_drawn: AtomicBool,
}

impl Status {
    pub(super) fn new(is_wanted: bool) -> Self {
        let can_wipe =
            || std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        Self {
            is_possible: is_wanted && io::stderr().is_terminal() && can_wipe(),
            is_drawn: AtomicBool::new(false),
        }
    }

    pub(super) fn is_possible(&self) -> bool {
        self.is_possible
    }

    pub(super) fn show(&self, stderr: &Sink, text: &str) {
        if !self.is_possible || is_in_background() {
            return;
        }
        self.is_drawn.store(true, Ordering::Relaxed);
        stderr
            .write(format!("{WIPE}{}", fitting(text, width(io::stderr()).unwrap_or(USUAL_WIDTH))));
    }

    /// Returns only when the terminal has erased the line, so that the next output begins on a
    /// clean line.
    pub(super) fn wipe(&self, stderr: &Sink) {
        if self.is_drawn.swap(false, Ordering::Relaxed) {
            stderr.write(WIPE.to_owned());
            stderr.flush(HELD);
        }
    }

    /// The characters that have to come before another line on stderr.
    pub(super) fn before_a_line(&self) -> &'static str {
        if self.is_drawn.swap(false, Ordering::Relaxed) { WIPE } else { "" }
    }
}

/// Returns whether another group has the terminal, for example after a shell has put this process
/// into the background.
fn is_in_background() -> bool {
    tcgetpgrp(io::stderr()).is_ok_and(|foreground| Some(foreground) != own_group())
}

/// As much text as fits into one line without its last column: a line that wraps could not be
/// erased. A character outside of ASCII may be two columns wide.
fn fitting(text: &str, width: usize) -> String {
    let mut left = width.saturating_sub(1);
    let fits = |c: &char| {
        let columns = if c.is_ascii() { 1 } else { 2 };
        let fits = columns <= left;
        left = left.saturating_sub(columns);
        fits
    };
    text.chars().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_never_reaches_the_last_column() {
        assert_eq!(fitting("abc", 4), "abc");
        assert_eq!(fitting("abcd", 4), "abc");
        assert_eq!(fitting("a漢漢", 6), "a漢漢");
        assert_eq!(fitting("ab漢", 4), "ab");
        assert_eq!(fitting("abc", 0), "");
    }
}
