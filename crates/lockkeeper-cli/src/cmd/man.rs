//! `lockkeeper man`: one page with everything, from the definition of the command line and the
//! texts in this file.

use std::io;

use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::{Cli, MANUAL};
use crate::exit::{Exit, Failure};
use crate::output::answer;

/// How many columns the code has in the help.
const CODE: usize = 6;
const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "LOCKKEEPER_STORE",
        "The store, as in --store. The URL may contain a password here. lockkeeper refuses an empty value (78).",
    ),
    ("LOCKKEEPER_CONFIG", "The configuration, as in --config."),
    ("LOCKKEEPER_PREFIX", "The prefix, as in --prefix."),
    ("LOCKKEEPER_OWNER", "The owner, as in --owner."),
    (
        "LOCKKEEPER_LOG",
        "A level (error, warn, info, debug, trace) or a tracing filter; -v replaces it.",
    ),
    (
        "LOCKKEEPER_REQUIRE_STORE",
        "If set to 1, lockkeeper uses no default file: without a configured store the exit code is 78.",
    ),
    (
        "LOCKKEEPER_PASSWORD, LOCKKEEPER_PASSWORD_FILE",
        "The password of the store, or the file with the password. It replaces the password of the URL and of the \
         configuration. lockkeeper refuses an empty value (78).",
    ),
    ("NO_COLOR", "If set to any text, the output has no colours. Only terminals get colours."),
    (
        "LOCKKEEPER_LOCK, LOCKKEEPER_LOCKS, LOCKKEEPER_FENCING_TOKEN, LOCKKEEPER_SEQUENCER, LOCKKEEPER_SEQUENCERS, \
         LOCKKEEPER_MODE",
        "The command under a lock gets these variables: the first name on the command line, all names, the fencing \
         token and the sequencer of the first lock, all sequencers, and the mode (exclusive, shared or permits). A \
         list has one entry a line. The command gets no passwords. LOCKKEEPER_STORE, LOCKKEEPER_CONFIG and \
         LOCKKEEPER_PREFIX have the values of the flags of run or elect, so that a lockkeeper inside the command uses \
         the same locks.",
    ),
    (
        "LOCKKEEPER_RUN_ID",
        "The command gets a different number at each start. By this number, lockkeeper also finds processes of the \
         command that have lost their parent. It does not find a process of another user, or a process that was \
         started without the variable.",
    ),
    (
        "LOCKKEEPER_OUTER_SEQUENCERS",
        "The command of an inner run gets the sequencers of all outer runs, one a line. With this variable and \
         LOCKKEEPER_SEQUENCERS, an inner run detects that it would wait for its own outer run (exit code 64).",
    ),
];

const FILES: &[(&str, &str)] = &[
    (
        "$XDG_CONFIG_HOME/lockkeeper/config.toml, /etc/lockkeeper/config.toml",
        "The configuration: lockkeeper reads the first of these files that exists. XDG_CONFIG_HOME is ~/.config by \
         default. Only the owner may have the right to write the file. If the file contains a password, only the owner \
         may have the right to read it; a file of root may also be readable by its group.",
    ),
    (
        "/var/lib/lockkeeper/locks.db, ${XDG_STATE_HOME:-~/.local/state}/lockkeeper/locks.db",
        "The default stores of root and of other users, when no store is configured. Their locks hold on this host \
         only, or in one container only.",
    ),
];

const NOTES: &[(&str, &str)] = &[
    (
        "What ends with the lock",
        "When the lock is lost, run ends the command, its process group, and their descendants before the store can \
         give the lock to another holder. If run itself is killed, or stopped for longer than the ttl, a guard process \
         (lockkeeper-guard) kills them. A daemon that has left the group and lost its parent is not ended. If run and \
         its guard are both killed or stopped, nothing ends the command.",
    ),
    (
        "What the command leaves in the background",
        "When the command exits, run releases the lock, and background processes of the command go on without the \
         lock, as with timeout(1). When a signal ended the command or was sent to end it, its other processes get \
         TERM, and KILL after --kill-after. The same happens before elect runs the command again. run and elect keep \
         the lock until all these processes have ended.",
    ),
    (
        "Ctrl-Z",
        "Ctrl-Z stops the command and run. If the stop is longer than the ttl, the lock is lost and the command killed.",
    ),
    (
        "elect",
        "The notes on run are true of elect as well. elect runs its command again after 1 to 1.5 seconds, then 2 to 3, \
         4 to 6, up to 20 to 30; after a command that has lasted for a minute, the pauses start again at 1 second. \
         INT, TERM and QUIT end elect and its command at any time. HUP, USR1 and USR2 go to the command; if one of \
         them kills the command, elect ends as well. elect also ends if the command cannot be started in the first \
         round (126, 127), and if a campaign takes longer than --wait (75). elect survives an outage of the store, \
         except at the start.",
    ),
];

const CONFIGURATION: &str = "\
default_store = \"prod\"
require_store = true
[stores]
prod  = { url = \"file:/srv/app/locks.db\", prefix = \"billing/\", ttl = \"20s\" }
queue = { url = \"redis://app@db-1:6379\", password_file = \"/run/secrets/redis\" }";

const EXAMPLES: &[(&str, &str)] = &[
    (
        "A crontab on several hosts: one of them makes the report, and the others print nothing. Cron has a short PATH:",
        "PATH=/usr/local/bin:/usr/bin:/bin\nLOCKKEEPER_STORE=redis://10.0.0.5\nLOCKKEEPER_REQUIRE_STORE=1\n\
         */5 * * * *  lockkeeper run -n -E 0 --min-hold 60s report -- /opt/report.sh",
    ),
    (
        "One deploy at a time; other deploys wait at most a quarter of an hour:",
        "lockkeeper run -w 15m --reason \"$CI_JOB_URL\" deploy/web -- ./deploy.sh",
    ),
    (
        "One of three replicas does the work; if it fails, another replica takes over:",
        "lockkeeper elect scheduler -- /app/scheduler",
    ),
    (
        "At most five at a time, on all machines together:",
        "lockkeeper run --permits 5 thumbnails -- ./thumbnail.sh",
    ),
    (
        "A write in a command that fails if a newer holder has written; the table needs the column fence first:",
        "psql -qtAc \"UPDATE cfg SET v=1, fence=$LOCKKEEPER_FENCING_TOKEN\n    WHERE id=1 AND \
         fence<=$LOCKKEEPER_FENCING_TOKEN RETURNING 1\" | grep -qx 1",
    ),
];

pub(crate) fn man() -> Result<Exit, Failure> {
    let page = page(Cli::command())
        .map_err(|error| Failure::new(Exit::Internal, format!("the manual: {error}")))?;
    answer(&page)?;
    Ok(Exit::Ok)
}

fn page(command: Command) -> io::Result<String> {
    let version = format!("lockkeeper {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone())
        .title("LOCKKEEPER")
        .section("1")
        .source(version)
        .manual("User Commands");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(&command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    Roff::new().control("SH", ["COMMANDS"]).to_writer(&mut page)?;
    for subcommand in shown(&command) {
        page.extend(section_of(subcommand)?.into_bytes());
    }
    man.render_options_section(&mut page)?;
    durations().to_writer(&mut page)?;
    terms("EXIT STATUS", &exit_codes()).to_writer(&mut page)?;
    terms("ENVIRONMENT", ENVIRONMENT).to_writer(&mut page)?;
    terms("FILES", FILES).to_writer(&mut page)?;
    terms("NOTES", NOTES).to_writer(&mut page)?;
    configuration().to_writer(&mut page)?;
    examples().to_writer(&mut page)?;
    Ok(with_one_preamble(&String::from_utf8_lossy(&page)))
}

/// Each rendered part defines the apostrophe again.
fn with_one_preamble(page: &str) -> String {
    let is_definition =
        |line: &str| line.starts_with(".ie \\n(.g .ds Aq") || line.starts_with(".el .ds Aq");
    let lines =
        page.lines().enumerate().filter(|(number, line)| *number < 2 || !is_definition(line));
    lines.flat_map(|(_, line)| [line, "\n"]).collect()
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set())
}

fn usage(subcommand: &Command) -> String {
    let named = subcommand.clone().bin_name(format!("lockkeeper {}", subcommand.get_name()));
    let usage = { named }.render_usage().to_string();
    usage.trim_start_matches("Usage: ").to_owned()
}

fn synopsis(command: &Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for subcommand in shown(command) {
        roff.text([bold(usage(subcommand))]);
        roff.control("br", []);
    }
    roff
}

/// A command with its own options, one level below the heading that they would have in a page of
/// their own.
fn section_of(subcommand: &Command) -> io::Result<String> {
    let mut text = Vec::new();
    Roff::new().control("SS", [usage(subcommand).as_str()]).to_writer(&mut text)?;
    let man = Man::new(subcommand.clone().disable_help_flag(true).mut_args(with_aliases));
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let without_headings = text.lines().filter(|line| !line.starts_with(".SH "));
    Ok(without_headings.flat_map(|line| [line, "\n"]).collect())
}

/// The other names of an option, which roff would not get otherwise.
fn with_aliases(option: Arg) -> Arg {
    let Some(aliases) = option.get_visible_aliases().filter(|aliases| !aliases.is_empty()) else {
        return option;
    };
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    let named = format!("{help} [also: --{}]", aliases.join(", --"));
    option.help(named)
}

/// The exit codes of the help. There the code is in the first columns, and its meaning may continue
/// in the lines below.
fn exit_codes() -> Vec<(String, String)> {
    let (_, codes) = MANUAL.split_once("Exit codes:\n").unwrap_or_default();
    let mut terms: Vec<(String, String)> = Vec::new();
    for (code, meaning) in codes.lines().filter_map(|line| line.split_at_checked(CODE)) {
        let meaning = meaning.trim();
        match terms.last_mut() {
            Some((_, before)) if code.trim().is_empty() => before.extend([" ", meaning]),
            _ => terms.push((code.trim().to_owned(), meaning.to_owned())),
        }
    }
    terms
}

fn durations() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["DURATIONS"]);
    let (durations, _) = MANUAL.split_once("\n\n").unwrap_or_default();
    roff.text([roman(durations.trim_start_matches("Durations: "))]);
    roff
}

fn terms<T: AsRef<str>>(heading: &str, terms: &[(T, T)]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    for (term, meaning) in terms {
        roff.control("TP", []).text([bold(term.as_ref())]).text([roman(meaning.as_ref())]);
    }
    roff
}

fn configuration() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["CONFIGURATION"]);
    let order =
        "A flag replaces the environment, the environment the URL, and the URL the configuration.";
    roff.text([roman(order)]);
    literal(&mut roff, CONFIGURATION);
    let rest = "A store also takes epoch, max_waiters, unsafe and password. The path of a \
                file with a secret may be relative to the folder of the configuration.";
    roff.text([roman(rest)]);
    roff
}

fn examples() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    for (what, example) in EXAMPLES {
        roff.text([roman(*what)]);
        literal(&mut roff, example);
    }
    roff
}

fn literal(roff: &mut Roff, text: &str) {
    roff.control("PP", []).control("RS", ["4"]).control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []).control("RE", []).control("PP", []);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_option_is_named() {
        // roff writes a hyphen that a user may copy as \-.
        let page = page(Cli::command()).unwrap().replace("\\-", "-");
        let command = Cli::command();
        for subcommand in shown(&command) {
            assert!(
                page.contains(&format!(".SS \"lockkeeper {}", subcommand.get_name())),
                "{}",
                subcommand.get_name()
            );
        }
        let all = std::iter::once(&command).chain(shown(&command));
        for arg in all.flat_map(Command::get_arguments).filter(|arg| !arg.is_hide_set()) {
            let value = arg
                .get_value_names()
                .filter(|_| arg.get_action().takes_values())
                .unwrap_or_default();
            let aliases = arg.get_visible_aliases().unwrap_or_default();
            for name in arg
                .get_long()
                .into_iter()
                .chain(aliases)
                .chain(value.iter().map(|name| name.as_str()))
            {
                assert!(page.contains(name), "{name}: {page}");
            }
        }
    }

    #[test]
    fn the_exit_codes_are_those_of_the_help() {
        let codes = exit_codes();
        let meaning = |code: &str| {
            codes.iter().find(|(known, _)| known == code).map(|(_, meaning)| meaning.as_str())
        };
        assert_eq!(meaning("79"), Some("the lock was lost while the command ran"));
        assert_eq!(meaning("128+n"), Some("ended by signal n, which ends lockkeeper itself, too"));
        let no = meaning("1").unwrap();
        assert!(no.starts_with("\"no\": ") && no.ends_with("FAIL (doctor)"), "{no}");
        let all: Vec<&str> = codes.iter().map(|(code, _)| code.as_str()).collect();
        assert_eq!(
            all,
            [
                "0", "1", "64", "69", "70", "71", "74", "75", "77", "78", "79", "126", "127",
                "128+n", "else"
            ]
        );
    }
}
