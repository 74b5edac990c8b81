//! `etcdctl lock`, one process for each held lock.

use std::process::Command;

use lockkeeper_live::{Dialogue, interop_binary};

use super::kind::TTL;
use crate::contender::Contender;

/// The command under the lock.
const RAISE: &str =
    r#"count=$("$0" get --print-value-only "$1") && "$0" put "$1" "$((count + 1))""#;

/// Counts: `$0` is the program.
const COUNT: &str = r#"
number=0
while [ "$number" -lt "$3" ]; do
    "$0" lock "$1" -- sh -c "$4" "$0" "$2" >/dev/null || exit 1
    number=$((number + 1))
done
echo counted
"#;

pub(crate) struct Etcdctl {
    address: String,
    /// The process that waits or holds, or counts.
    running: Option<Dialogue>,
    said: Option<String>,
}

impl Etcdctl {
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), running: None, said: None }
    }

    fn run(&mut self, command: &mut Command) {
        command.env("ETCDCTL_ENDPOINTS", &self.address);
        self.running = Some(Dialogue::start(command).unwrap());
    }

    fn running(&mut self) -> &mut Dialogue {
        self.running.as_mut().unwrap()
    }

    fn answer(&mut self) -> String {
        self.said.take().unwrap_or_else(|| self.running().answer().unwrap())
    }
}

fn program() -> Command {
    Command::new(interop_binary("bin/etcdctl").unwrap())
}

impl Contender for Etcdctl {
    fn ask(&mut self, name: &str) {
        self.run(program().args(["lock", name, &format!("--ttl={TTL}")]));
    }

    fn held(&mut self) -> String {
        self.answer()
    }

    fn has_answered(&mut self) -> bool {
        if self.said.is_none() {
            self.said = self.running().answer_now().unwrap();
        }
        self.said.is_some()
    }

    fn release(&mut self) {
        let ended = self.running.take().unwrap().terminate().unwrap();
        assert!(ended.success(), "{ended}");
    }

    fn count(&mut self, name: &str, counter: &str, times: u32) {
        let mut shell = Command::new("sh");
        shell.args(["-c", COUNT]).arg(program().get_program());
        self.run(shell.args([name, counter, &times.to_string(), RAISE]));
    }

    fn counted(&mut self) {
        assert_eq!(self.answer(), "counted");
    }

    fn die(mut self: Box<Self>) {
        self.running.take().unwrap().kill().unwrap();
    }
}
