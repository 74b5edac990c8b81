//! The command line of lockkeeper.
#![forbid(unsafe_code)]

mod args;
mod child;
mod cmd;
mod config;
mod duration;
mod event;
mod exit;
mod hand_down;
mod handle_file;
mod held;
mod lock;
mod locks;
mod nested;
mod output;
mod random;
mod reach;
mod remedy;
mod runtime;
mod secrets;
mod settings;
mod small_file;
mod this_process;
mod variables;
mod waiting;

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use args::{Cli, Command};
use child::{guard, shim, signals};
use cmd::run::Task;
use event::{LAST_LINES, Log, Reporter, Sink, Sinks};
use exit::{Exit, Failure};
use output::Verbosity;
use settings::Settings;

fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(role) if role == guard::ROLE => return guard::keep(),
        Some(role) if role == shim::ROLE => return shim::begin(),
        _ => {}
    }
    let exit = match Cli::try_parse() {
        Ok(cli) => start(&cli),
        Err(error) => explain(&error),
    };
    exit.end()
}

/// Help goes to stdout and is no error; every other error of usage has one code.
fn explain(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let is_help = error.kind() == clap::error::ErrorKind::DisplayHelp;
        let args = || {
            std::env::args_os()
                .skip(1)
                .map(|arg| arg.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
        };
        let text = if is_help { args::help(&args()) } else { error.render().to_string() };
        return match output::answer(&text) {
            Ok(()) => Exit::Ok,
            Err(failure) => fail(&failure),
        };
    }
    output::complain(&args::one_line(error, std::env::args_os().skip(1)));
    Exit::Usage
}

fn start(cli: &Cli) -> Exit {
    signals::outlive_a_file_limit();
    // Before any thread is started: all threads have to block the signals of a pause.
    if let Command::Run(_) | Command::Elect(_) | Command::Acquire(_) = &cli.command
        && let Err(error) = signals::take_over()
    {
        return fail(&runtime::refused("signals cannot be caught", &error));
    }
    let ending = match &cli.command {
        Command::Run(args) => run(cli, args.into()),
        Command::Elect(args) => run(cli, args.into()),
        Command::Inspect(args) => {
            with_settings(cli, async |settings| cmd::inspect::inspect(args, settings).await)
        }
        Command::Leader(args) => {
            with_settings(cli, async |settings| cmd::leader::leader(args, settings).await)
        }
        Command::List(args) => {
            with_settings(cli, async |settings| cmd::list::list(args, settings).await)
        }
        Command::Acquire(args) => {
            with_settings(cli, async |settings| cmd::handle::acquire(args, settings).await)
        }
        Command::Renew(args) => {
            with_settings(cli, async |settings| cmd::handle::renew(args, settings).await)
        }
        Command::Release(args) => {
            with_settings(cli, async |settings| cmd::handle::release(args, settings).await)
        }
        Command::Watch(args) => {
            with_settings(cli, async |settings| cmd::watch::watch(args, settings).await)
        }
        Command::Check(args) => {
            with_settings(cli, async |settings| cmd::check::check(args, settings).await)
        }
        Command::Break(args) => {
            with_settings(cli, async |settings| cmd::break_lock::break_lock(args, settings).await)
        }
        Command::Request(args) => {
            with_settings(cli, async |settings| cmd::request::request(args, settings).await)
        }
        Command::Bench(args) => {
            with_settings(cli, async |settings| cmd::bench::bench(args, settings).await)
        }
        Command::Doctor(args) => {
            with_settings(cli, async |settings| cmd::doctor::doctor(settings, args.init).await)
        }
        // These commands need only the program, so no setting can prevent them.
        Command::Completions(args) => cmd::completions::completions(args),
        Command::Man => cmd::man::man(),
    };
    ending.unwrap_or_else(|failure| fail(&failure))
}

fn fail(failure: &Failure) -> Exit {
    if !failure.is_silent() {
        output::complain(&failure.message);
    }
    failure.exit
}

/// A run reports its end even if it never began.
fn run(cli: &Cli, task: Task<'_>) -> Result<Exit, Failure> {
    let target = task.under.events.as_ref().map(|target| Ok((target, target.open()?))).transpose();
    let stderr = Sinks::stderr(cli.global.json)?;
    let stderr = match &task.under.metrics_textfile {
        Some(path) => stderr.and_textfile(path.clone())?,
        None => stderr,
    };
    let (sinks, opened) = match target {
        Ok(Some((target, file))) => (stderr.and(target, file)?, Ok(())),
        Ok(None) => (stderr, Ok(())),
        Err(failure) => (stderr, Err(failure)),
    };
    let reporter = Reporter::new(task.names, sinks.clone(), Verbosity::Errors);
    let log = sinks.stderr.clone();
    let ending = opened.and_then(|()| {
        with_log(cli, &log, async |settings| cmd::run::run(task, settings, sinks).await)
    });
    let exit = ending.unwrap_or_else(|failure| {
        reporter.complain(&failure.message);
        failure.exit
    });
    reporter.exited(exit);
    Ok(exit)
}

fn with_settings(
    cli: &Cli,
    command: impl AsyncFnOnce(&Settings) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let log = Sink::stderr(cli.global.json)?;
    let ending = with_log(cli, &log, command);
    log.flush(LAST_LINES);
    ending
}

/// The same, with the library's log: a stuck reader of stderr must not delay a renewal.
fn with_log(
    cli: &Cli,
    log: &Sink,
    command: impl AsyncFnOnce(&Settings) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    runtime::enough_descriptors()?;
    let settings = Settings::resolve(&cli.global, &|name| std::env::var_os(name))?;
    remedy::know(&cli.global);
    match cli.command {
        Command::Bench(_) => {}
        Command::Elect(_) => settings.refuse_memory().and_then(|()| settings.refuse_default())?,
        _ => settings.refuse_memory()?,
    }
    write_log(settings.log.as_deref(), log)?;
    for notice in settings.notices() {
        log.write(output::notice(&notice, settings.json));
    }
    let runtime = runtime::start()?;
    let ending = runtime.block_on(command(&settings));
    // A store that hangs must not keep us.
    runtime.shutdown_background();
    ending
}

fn write_log(filter: Option<&str>, log: &Sink) -> Result<(), Failure> {
    let Some(filter) = filter else { return Ok(()) };
    let refused = |problem: &dyn Display| {
        Failure::config(format!(
            "LOCKKEEPER_LOG: {problem}. Try: error, warn, info, debug or trace"
        ))
    };
    if let Some(word) = filter.split(',').find(|part| is_no_level(part)) {
        return Err(refused(&format_args!("{} is no level", output::shown(word))));
    }
    let filter = EnvFilter::builder().parse(filter).map_err(|error| refused(&error))?;
    let colours = output::colours(&io::stderr());
    let log = log.clone();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || Log(log.clone()))
        .with_ansi(colours)
        .init();
    Ok(())
}

/// A word alone that is no level names a part of the program, and would enable its whole log. Only
/// the parts of lockkeeper have a log that is of use, so another word is most likely a mistake.
fn is_no_level(part: &str) -> bool {
    let part = part.trim();
    let is_word = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    let is_level = part.parse::<LevelFilter>().is_ok();
    !part.is_empty() && is_word && !is_level && !part.starts_with("lockkeeper")
}
