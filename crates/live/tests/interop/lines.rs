//! A foreign client, which reads lines.

use std::process::Command;
use std::time::{Duration, Instant};

use lockkeeper_live::{Dialogue, interop_binary};

use crate::contender::{Contender, Tries};

pub(crate) struct Lines {
    dialogue: Dialogue,
    /// A line that was read by a check for output.
    said: Option<String>,
    /// What stands before each answer, if the program prints other lines too.
    mark: Option<char>,
}

/// Many times the duration of any answer.
const LIMIT: Duration = Duration::from_secs(180);

impl Lines {
    /// A client in a program of its own.
    pub(crate) fn program(path: &str, arguments: &[&str]) -> Self {
        Self::start(&mut Command::new(interop_binary(path).unwrap()), arguments)
    }

    /// A program for Java.
    pub(crate) fn java(path: &str, arguments: &[&str]) -> Self {
        let mut java = Command::new("java");
        // Many clients start on few processors.
        java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-jar"]);
        Self::start(java.arg(interop_binary(path).unwrap()), arguments)
    }

    /// A program for an interpreter.
    pub(crate) fn script(interpreter: &mut Command, path: &str, arguments: &[&str]) -> Self {
        Self::start(interpreter.arg(interop_binary(path).unwrap()), arguments)
    }

    /// A test of this program that answers lines, each after a mark.
    pub(crate) fn this_test(test: &str, variable: &str, value: &str, mark: char) -> Self {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(variable, value);
        Self::start_marked(&mut program, Some(mark))
    }

    fn start(command: &mut Command, arguments: &[&str]) -> Self {
        Self::start_marked(command.args(arguments), None)
    }

    fn start_marked(command: &mut Command, mark: Option<char>) -> Self {
        let dialogue = Dialogue::start(command).unwrap();
        let mut lines = Self { dialogue, said: None, mark };
        assert_eq!(lines.answer(), "ready");
        lines
    }

    /// Sends a line, without waiting for the answer.
    pub(crate) fn send(&mut self, line: &str) {
        self.dialogue.send(line).unwrap();
    }

    /// Sends a line, and returns the answer.
    pub(crate) fn say(&mut self, line: &str) -> String {
        self.send(line);
        self.answer()
    }

    /// The next answer, if it comes within this time.
    pub(crate) fn answer_within(&mut self, limit: Duration) -> Option<String> {
        let end = Instant::now() + limit;
        loop {
            let line = self.dialogue.answer_within(end.saturating_duration_since(Instant::now()));
            let line = line.unwrap()?;
            match self.mark {
                None => return Some(line),
                // The runner of a test program prints lines of its own.
                Some(mark) => {
                    if let Some((_, answer)) = line.split_once(mark) {
                        return Some(answer.to_owned());
                    }
                }
            }
        }
    }

    /// `SIGSTOP`.
    pub(crate) fn pause(&self) {
        self.dialogue.pause().unwrap();
    }

    pub(crate) fn resume(&self) {
        self.dialogue.resume().unwrap();
    }

    fn answer(&mut self) -> String {
        self.said.take().unwrap_or_else(|| {
            self.answer_within(LIMIT).unwrap_or_else(|| panic!("no answer within {LIMIT:?}"))
        })
    }
}

impl Contender for Lines {
    fn ask(&mut self, name: &str) {
        self.send(&format!("lock {name}"));
    }

    fn held(&mut self) -> String {
        let answer = self.answer();
        let key = answer.strip_prefix("held ");
        key.unwrap_or_else(|| panic!("it has answered {answer:?}")).to_owned()
    }

    fn has_answered(&mut self) -> bool {
        if self.said.is_none() {
            self.said = self.answer_within(Duration::ZERO);
        }
        self.said.is_some()
    }

    fn release(&mut self) {
        assert_eq!(self.say("unlock"), "released");
    }

    fn count(&mut self, name: &str, counter: &str, times: u32) {
        self.send(&format!("count {name} {counter} {times}"));
    }

    fn counted(&mut self) {
        let answer = self.answer();
        assert!(answer.starts_with("counted"), "it has answered {answer:?}");
    }

    fn die(self: Box<Self>) {
        self.dialogue.kill().unwrap();
    }
}

impl Tries for Lines {
    fn takes_at_once(&mut self, name: &str) -> bool {
        let answer = self.say(&format!("try {name}"));
        assert!(answer == "busy" || answer.starts_with("held "), "it has answered {answer:?}");
        answer != "busy"
    }

    fn extend(&mut self) {
        assert_eq!(self.say("extend"), "extended");
    }
}
