//! Checks whether CMD can be executed with its arguments and variables. CMD fails before the run
//! has a place in the queue, and not after the grant.

use std::ffi::OsString;

use lockkeeper::{FencingToken, LockName, Mode, Sequencer};
use rustix::process::{Resource, getrlimit};

use crate::child::environment;
use crate::exit::{Exit, Failure};
use crate::held::Held;
use crate::settings::Settings;

/// The longest variable, with its name and its end.
const VARIABLE_MAX: usize = 128 << 10;
/// The kernel gives arguments and variables together at least `LEAST` and at most `MOST`, whatever
/// the size of the stack.
const LEAST: usize = 128 << 10;
const MOST: usize = 6 << 20;
/// The kernel counts a pointer for each argument and variable.
const POINTER: usize = size_of::<usize>();
/// The other needs of our own start of CMD: PATH a second time, CMD's file, and less than this.
const START: usize = 1024;

/// Checks that CMD fits with the longest tokens that its locks can have.
pub(super) fn check(
    names: &[String],
    argv: &[OsString],
    outer: &[String],
    settings: &Settings,
) -> Result<(), Failure> {
    // The store refuses a name that is too long with its prefix.
    let held: Vec<_> = names.iter().filter_map(|name| longest(name, settings)).collect();
    let set = environment::set(&held, outer);
    let count = names.len();
    for (variable, value) in &set {
        let length = value.len();
        if variable.len() + 1 + length + 1 > VARIABLE_MAX {
            return Err(Failure::usage(format!(
                "{count} NAMEs need up to {length} bytes in {variable}, and Linux allows {VARIABLE_MAX} bytes for a \
                 variable with its name. Try: fewer or shorter NAMEs"
            )));
        }
    }
    let given =
        std::env::vars_os().filter(|(name, _)| set.iter().all(|(variable, _)| name != variable));
    let given = given.map(|(name, value)| name.len() + 1 + value.len());
    let set =
        set.iter().chain(&settings.handed_down).map(|(name, value)| name.len() + 1 + value.len());
    let path = std::env::var_os("PATH").map_or(0, |path| path.len());
    let strings = argv.iter().map(|argument| argument.len()).chain(given).chain(set);
    let need = START + path + strings.map(|length| length + 1 + POINTER).sum::<usize>();
    let limit = limit();
    if need <= limit {
        return Ok(());
    }
    Err(Failure::new(
        Exit::NotExecutable,
        format!(
            "CMD needs up to {need} bytes for its arguments and variables, those of {count} NAMEs included, and the \
             limit is {limit}. Try: fewer or shorter NAMEs, arguments and variables, or a larger stack (ulimit -s)"
        ),
    ))
}

fn longest(name: &str, settings: &Settings) -> Option<Held> {
    let whole = LockName::new(&format!("{}{name}", settings.name_prefix())).ok()?;
    let token = FencingToken::new(FencingToken::MAX_EPOCH, (1 << 54) - 1)?;
    let sequencer = Sequencer::new(whole, Mode::Permits(u32::MAX), token).to_string();
    Some(Held { name: name.to_owned(), token: token.to_string(), sequencer, mode: "exclusive" })
}

/// A quarter of the limit of the stack.
fn limit() -> usize {
    let stack = getrlimit(Resource::Stack).current.and_then(|stack| usize::try_from(stack).ok());
    stack.map_or(MOST, |stack| (stack / 4).clamp(LEAST, MOST))
}
