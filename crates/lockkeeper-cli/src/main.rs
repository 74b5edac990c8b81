//! The command line of lockkeeper.
#![forbid(unsafe_code)]

mod args;
mod child;
mod cmd;
mod config;
mod duration;
mod event;
mod exit;
mod handle_file;
mod lock;
mod output;
mod secrets;
mod settings;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use args::{Cli, Command};
use child::guard;
use event::Reporter;
use exit::{Exit, Failure};
use output::Verbosity;
use settings::Settings;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|role| role == guard::ROLE) {
        return guard::keep();
    }
    let exit = match Cli::try_parse() {
        Ok(cli) => start(&cli),
        Err(error) => explain(&error),
    };
    ExitCode::from(exit.code())
}

/// Help goes to stdout and is no error; everything else that was typed wrongly has one code.
fn explain(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        return match output::answer(&error.render().to_string()) {
            Ok(()) => Exit::Ok,
            Err(failure) => failure.exit,
        };
    }
    output::complain(&args::one_line(error));
    Exit::Usage
}

fn start(cli: &Cli) -> Exit {
    dispatch(cli).unwrap_or_else(|failure| {
        output::complain(&failure.message);
        // A run tells of its end even if it never began.
        if let Command::Run(args) = &cli.command {
            Reporter::new(&args.name, cli.global.json, Verbosity::Errors).exited(failure.exit);
        }
        failure.exit
    })
}

fn dispatch(cli: &Cli) -> Result<Exit, Failure> {
    match &cli.command {
        // These speak of the program alone, so no setting can keep them from it.
        Command::Completions(args) => return cmd::completions::completions(args),
        Command::Man => return cmd::man::man(),
        _ => {}
    }
    let settings = Settings::resolve(&cli.global, &|name| std::env::var_os(name))?;
    log_to_stderr(settings.log.as_deref())?;
    if let Some(notice) = settings.notice() {
        output::complain(&notice);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Internal, format!("no runtime: {error}")))?;
    let ending = runtime.block_on(async {
        match &cli.command {
            Command::Run(args) => Ok(cmd::run::run(args, &settings).await),
            Command::Acquire(args) => cmd::handle::acquire(args, &settings).await,
            Command::Renew(args) => cmd::handle::renew(args, &settings).await,
            Command::Release(args) => cmd::handle::release(args, &settings).await,
            Command::Inspect(args) => cmd::inspect::inspect(args, &settings).await,
            Command::List(args) => cmd::list::list(args, &settings).await,
            Command::Doctor => cmd::doctor::doctor(&settings).await,
            Command::Completions(_) | Command::Man => Ok(Exit::Ok),
        }
    });
    // A store that hangs must not keep us.
    runtime.shutdown_background();
    ending
}

fn log_to_stderr(filter: Option<&str>) -> Result<(), Failure> {
    let Some(filter) = filter else { return Ok(()) };
    let filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|error| Failure::config(format!("LOCKKEEPER_LOG: {error}. Try: error, warn, info, debug or trace")))?;
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(colours).init();
    Ok(())
}
