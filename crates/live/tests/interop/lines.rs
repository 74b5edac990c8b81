//! A foreign client, which reads lines.

use std::process::Command;

use lockkeeper_live::{Dialogue, interop_binary};

use crate::contender::{Contender, TTL};

pub(crate) struct Lines {
    dialogue: Dialogue,
    /// A line that was read by a check for output.
    said: Option<String>,
}

impl Lines {
    /// A client in a program of its own.
    pub(crate) fn program(path: &str, address: &str) -> Self {
        Self::start(&mut Command::new(interop_binary(path).unwrap()), address)
    }

    /// A program for Java.
    pub(crate) fn java(path: &str, address: &str) -> Self {
        let mut java = Command::new("java");
        // Many clients start on few processors.
        java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-jar"]);
        Self::start(java.arg(interop_binary(path).unwrap()), address)
    }

    /// Whether the client gets the lock at once; it releases the lock again.
    pub(crate) fn gets_at_once(&mut self, name: &str) -> bool {
        self.dialogue.send(&format!("try {name}")).unwrap();
        let answer = self.answer();
        if answer == "busy" {
            return false;
        }
        assert!(answer.starts_with("held "), "it has answered {answer:?}");
        self.release();
        true
    }

    fn start(command: &mut Command, address: &str) -> Self {
        let dialogue = Dialogue::start(command.args([address, &TTL.to_string()])).unwrap();
        let mut lines = Self { dialogue, said: None };
        lines.expect("ready");
        lines
    }

    fn answer(&mut self) -> String {
        self.said.take().unwrap_or_else(|| self.dialogue.answer().unwrap())
    }

    fn expect(&mut self, answer: &str) {
        assert_eq!(self.answer(), answer);
    }
}

impl Contender for Lines {
    fn ask(&mut self, name: &str) {
        self.dialogue.send(&format!("lock {name}")).unwrap();
    }

    fn held(&mut self) -> String {
        let answer = self.answer();
        let key = answer.strip_prefix("held ");
        key.unwrap_or_else(|| panic!("it has answered {answer:?}")).to_owned()
    }

    fn has_answered(&mut self) -> bool {
        if self.said.is_none() {
            self.said = self.dialogue.answer_now().unwrap();
        }
        self.said.is_some()
    }

    fn release(&mut self) {
        self.dialogue.send("unlock").unwrap();
        self.expect("released");
    }

    fn count(&mut self, name: &str, counter: &str, times: u32) {
        self.dialogue.send(&format!("count {name} {counter} {times}")).unwrap();
    }

    fn counted(&mut self) {
        self.expect("counted");
    }

    fn die(self: Box<Self>) {
        self.dialogue.kill().unwrap();
    }
}
