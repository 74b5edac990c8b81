//! Passes the output of tests and examples on, line by line, and looks for secrets in the whole
//! output, also in the output of passing tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The passwords of the tests. No password may ever be printed.
const SECRETS: [&str; 2] = ["hunter2", "hush@"];

/// How often a command is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Gets each line without secrets, and whether the line is shown.
pub(crate) type See<'a> = &'a (dyn Fn(&str, bool) + Sync);

/// Runs a command; a command that runs tests has `--show-output`. `see` gets its lines, and `look`
/// gets its process id now and then while it runs. Returns the exit status (`None` if the command
/// was killed at its limit), and the number of lines with a secret.
pub(crate) fn watch(
    command: &mut Command,
    limit: Option<Duration>,
    see: See<'_>,
    look: &dyn Fn(u32),
) -> Result<(Option<ExitStatus>, usize)> {
    if limit.is_some() {
        // The processes that the command starts belong to it: the output ends only when all of them
        // have ended.
        command.process_group(0);
    }
    let mut child: Child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot be started")?;
    let (out, err) =
        (child.stdout.take().context("no output")?, child.stderr.take().context("no output")?);
    let (found, mut ended) = (AtomicUsize::new(0), Ok(None));
    std::thread::scope(|scope| {
        scope.spawn(|| pass_on(out, see, &found));
        scope.spawn(|| pass_on(err, see, &found));
        ended = end(&mut child, limit, look);
    });
    Ok((ended?, found.into_inner()))
}

/// Shows a line at once, if it is to be shown.
pub(crate) fn show(line: &str, is_to_be_shown: bool) {
    if is_to_be_shown {
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}

fn end(
    child: &mut Child,
    limit: Option<Duration>,
    look: &dyn Fn(u32),
) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    while limit.is_none_or(|limit| start.elapsed() < limit) {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        look(child.id());
        std::thread::sleep(LOOK);
    }
    // The child is not reaped yet, so it still has this process id.
    let group = format!("-{}", child.id());
    Command::new("kill").args(["-KILL", "--", &group]).status().context("kill")?;
    child.wait()?;
    Ok(None)
}

fn pass_on(from: impl Read, see: See<'_>, found: &AtomicUsize) {
    let mut section = Section::default();
    for line in BufReader::new(from).split(b'\n') {
        let Ok(line) = line else { return };
        let line = String::from_utf8_lossy(&line);
        let secret = SECRETS.iter().find(|secret| line.contains(**secret));
        if let Some(secret) = secret {
            found.fetch_add(1, Ordering::Relaxed);
            see(
                &format!("xtask: a secret was printed: {}", line.replace(secret, "[SECRET]")),
                true,
            );
        } else {
            let is_to_be_shown = section.is_to_be_shown(&line);
            see(&line, is_to_be_shown);
        }
    }
}

/// The part of a test program's output that a line belongs to.
#[derive(Default)]
struct Section {
    of_successes: bool,
}

impl Section {
    /// The output of passing tests is checked, but not shown.
    fn is_to_be_shown(&mut self, line: &str) -> bool {
        match line {
            "successes:" => self.of_successes = true,
            "failures:" => self.of_successes = false,
            line if line.starts_with("test result:") => self.of_successes = false,
            _ => {}
        }
        !self.of_successes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn passed_on(text: &str) -> (String, usize) {
        let (shown, found) = (Mutex::new(String::new()), AtomicUsize::new(0));
        let see = |line: &str, is_to_be_shown: bool| {
            if is_to_be_shown {
                *shown.lock().unwrap() += &format!("{line}\n");
            }
        };
        pass_on(text.as_bytes(), &see, &found);
        (shown.into_inner().unwrap(), found.into_inner())
    }

    #[test]
    fn what_does_not_end_is_killed_with_all_that_it_started() {
        let mut sh = Command::new("sh");
        sh.args(["-c", "sleep 1000 & sleep 1000"]);
        let start = Instant::now();
        let (ended, _) = watch(&mut sh, Some(Duration::from_millis(200)), &show, &|_| ()).unwrap();
        assert!(ended.is_none() && start.elapsed() < Duration::from_secs(500));
    }

    #[test]
    fn what_ends_in_time_says_how() {
        let mut sh = Command::new("sh");
        sh.args(["-c", "exit 3"]);
        let (ended, _) = watch(&mut sh, Some(Duration::from_secs(500)), &show, &|_| ()).unwrap();
        assert_eq!(ended.unwrap().code(), Some(3));
    }

    #[test]
    fn what_passing_tests_printed_is_not_shown() {
        let output = "test a ... ok\n\nsuccesses:\n\n---- a stdout ----\nhello\n\nfailures:\n\n---- b ----\n\ntest result: x\n";
        let (shown, found) = passed_on(output);
        assert!(
            !shown.contains("hello")
                && shown.contains("---- b ----")
                && shown.contains("test result: x")
        );
        assert_eq!(found, 0);
    }

    #[test]
    fn a_secret_is_found_wherever_it_is_printed() {
        let secret = SECRETS[0];
        let (shown, found) =
            passed_on(&format!("successes:\n---- a stdout ----\nredis://u:{secret}@h\n"));
        assert_eq!(found, 1);
        assert!(shown.contains("a secret was printed") && !shown.contains(secret), "{shown}");
    }
}
