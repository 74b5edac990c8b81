//! `lockkeeper request NAME`: asks the holders of a lock to let go.

use lockkeeper::LockName;
use serde::Serialize;

use crate::args::RequestArgs;
use crate::exit::{Exit, Failure};
use crate::lock::{self, Terms};
use crate::output::{Verbosity, answer, complain, json_line};
use crate::remedy::{named, quoted};
use crate::settings::Settings;

#[derive(Serialize)]
struct Report<'a> {
    lock: &'a str,
    asked: bool,
}

/// Requests the release, and prints the holders; without a holder the answer is "no".
pub(crate) async fn request(args: &RequestArgs, settings: &Settings) -> Result<Exit, Failure> {
    LockName::new(&args.name)?;
    let keeper = lock::look(settings, Terms::default()).await?;
    let asked = keeper.admin()?.request_release(args.name.as_str(), &args.reason).await;
    let asked = asked.map_err(|error| named(error, &args.name))?;
    if settings.json {
        answer(&json_line(&Report { lock: &args.name, asked })?)?;
    } else if asked {
        answer(&format!("asked: the holders of lock {:?} get the request\n", args.name))?;
    }
    if !asked && settings.verbosity >= Verbosity::Warnings {
        let (name, word) = (&args.name, quoted(&args.name));
        complain(&format!("lock {name:?}: nobody holds it. Try: lockkeeper inspect {word}"));
    }
    Ok(if asked { Exit::Ok } else { Exit::No })
}
