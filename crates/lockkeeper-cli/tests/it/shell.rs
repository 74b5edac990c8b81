//! `completions` and `man`.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{program, stderr, stdout};

fn printed(args: &[&str]) -> String {
    // Neither needs a store or a configuration.
    let output = program().args(args).env("LOCKKEEPER_CONFIG", "/nowhere").output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
    stdout(&output)
}

/// The output of a program for a text on its stdin, if that program is installed.
fn fed(command: &[&str], text: &str) -> Option<std::process::Output> {
    let mut started = Command::new(command[0]);
    started.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = started.spawn().ok()?;
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

#[test]
fn completions_are_there_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&["completions", shell]);
        for word in ["inspect", "completions", "connect-timeout", "pass-credentials"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let output = program().args(["completions", "bsh"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("Try: bash"), "{}", stderr(&output));
}

#[test]
fn bash_understands_its_completions_and_completes() {
    let script = printed(&["completions", "bash"]);
    let ask = "COMP_WORDS=(lockkeeper ins); COMP_CWORD=1; _lockkeeper lockkeeper ins lockkeeper; echo \"${COMPREPLY[*]}\"";
    let answer =
        fed(&["bash", "--norc", "-u", "-s"], &format!("set +u\n{script}\n{ask}\n")).unwrap();
    assert_eq!(stdout(&answer).trim(), "inspect", "{}", stderr(&answer));
    let checked = fed(&["bash", "-n", "-s"], &script).unwrap();
    assert!(checked.status.success() && checked.stderr.is_empty(), "{}", stderr(&checked));
}

#[test]
fn man_has_its_sections_and_renders() {
    let page = printed(&["man"]);
    let sections: Vec<_> = page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
    let expected = [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "COMMANDS",
        "\"EXIT STATUS\"",
        "ENVIRONMENT",
        "FILES",
        "EXAMPLES",
    ];
    let positions: Vec<_> =
        expected.iter().map(|name| sections.iter().position(|section| section == name)).collect();
    assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{sections:?}");
    assert!(page.lines().any(|line| line.starts_with(".TH LOCKKEEPER 1")), "{page}");
    assert!(page.contains("LOCKKEEPER_REQUIRE_STORE"));
    // If a formatter is installed, it accepts the page without a warning.
    if let Some(formatted) = fed(&["groff", "-man", "-Tutf8", "-ww", "-rLL=100n"], &page) {
        assert!(
            formatted.status.success() && formatted.stderr.is_empty(),
            "{}",
            stderr(&formatted)
        );
        assert!(stdout(&formatted).contains("LOCKKEEPER_PASSWORD_FILE"), "{}", stdout(&formatted));
    }
}
