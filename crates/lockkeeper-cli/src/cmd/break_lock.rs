//! `lockkeeper break NAME`: takes a lock from its holder.

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::Duration;

use lockkeeper::{Break, FencingToken, IdHash, Keeper, LockInfo, LockName, Target};
use serde::Serialize;

use crate::args::BreakArgs;
use crate::duration::{human, millis};
use crate::exit::{Exit, Failure};
use crate::lock::{self, Terms};
use crate::output::{Verbosity, answer, complain, json_line, printable};
use crate::remedy::{named, quoted};
use crate::settings::Settings;

/// The claim that loses the lock, or its place in the queue.
struct Claim {
    id: IdHash,
    owner: String,
    /// Only a holder has a token.
    token: Option<FencingToken>,
    reason: Option<String>,
    since: Option<Duration>,
    holds: bool,
    /// Only the minimum hold of the claim is left; it has no holder.
    kept: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    lock: &'a str,
    id: String,
    owner: &'a str,
    token: Option<String>,
    removed: bool,
    free_in_ms: Option<u64>,
}

/// Marks or removes one claim, and prints which one; without such a claim the answer is "no".
pub(crate) async fn break_lock(args: &BreakArgs, settings: &Settings) -> Result<Exit, Failure> {
    LockName::new(&args.name)?;
    let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !(args.yes || can_ask) {
        return Err(Failure::usage(
            "break asks for confirmation, and there is no terminal to ask on. Try: --yes",
        ));
    }
    let keeper = lock::look(settings, Terms::default()).await?;
    let info = keeper.inspect(args.name.as_str()).await?;
    let Some(claim) = find(&info, args) else { return Ok(nothing(args, settings)) };
    if args.now && claim.holds && !claim.kept && settings.verbosity >= Verbosity::Warnings {
        complain(&warning(&args.name, &claim));
    }
    if !args.yes && !agreed(&question(&args.name, &claim)) {
        complain("nothing was broken");
        return Ok(Exit::No);
    }
    let how = if args.now { Break::Now } else { Break::Mark };
    // The id names one attempt, so a claim that came after the look is not affected.
    let target = Target::IdHash(claim.id);
    let broken = keeper.admin()?.break_lock(args.name.as_str(), target, &args.reason, how).await;
    if !broken.map_err(|error| named(error, &args.name))? {
        return Ok(nothing(args, settings));
    }
    let free_in = free_in(&keeper, args, &claim).await;
    answer(&if settings.json {
        json(&info, args, &claim, free_in)?
    } else {
        text(args, &claim, free_in)
    })?;
    Ok(Exit::Ok)
}

/// What `--now` does to a holder. A program without lockkeeper has no token.
fn warning(name: &str, claim: &Claim) -> String {
    let owner = printable(&claim.owner);
    let frees = format!("lock {name:?}: --now frees the lock while {owner} may still work");
    match claim.token {
        Some(_) => {
            format!(
                "{frees}, for up to its ttl; only a resource that checks fencing tokens is safe"
            )
        }
        None => format!(
            "{frees}; it has no fencing token, so no resource can refuse its writes: end it first"
        ),
    }
}

fn nothing(args: &BreakArgs, settings: &Settings) -> Exit {
    if settings.verbosity >= Verbosity::Warnings {
        let victim = match (args.token, args.id) {
            (Some(token), _) => format!("holds it with the token {token}"),
            (_, Some(id)) => format!("holds it or waits for it with the id {id}"),
            _ => "is meant".to_owned(),
        };
        complain(&format!(
            "lock {:?}: nobody {victim}{}",
            args.name,
            what_else(&args.name, settings.name_prefix())
        ));
    }
    Exit::No
}

/// A user who typed the store's full name has looked for another lock.
fn what_else(name: &str, prefix: &str) -> String {
    match name.strip_prefix(prefix).filter(|rest| !prefix.is_empty() && !rest.is_empty()) {
        Some(rest) => format!(
            "; lockkeeper puts the prefix {prefix:?} before this name, and looked for {:?}. Try: the name {rest:?}, or \
             lockkeeper inspect {}",
            format!("{prefix}{name}"),
            quoted(rest)
        ),
        None => format!(". Try: lockkeeper inspect {}", quoted(name)),
    }
}

fn find(info: &LockInfo, args: &BreakArgs) -> Option<Claim> {
    let holders = info.holders.iter().map(|holder| Claim {
        id: holder.id,
        owner: holder.owner.clone(),
        token: holder.token,
        reason: holder.reason.clone(),
        since: holder.held,
        holds: true,
        kept: holder.kept,
    });
    let waiters = info.waiters.iter().map(|waiter| Claim {
        id: waiter.id,
        owner: waiter.owner.clone(),
        token: None,
        reason: waiter.reason.clone(),
        since: waiter.waited,
        holds: false,
        kept: false,
    });
    let is_meant = |claim: &Claim| match args.id {
        Some(id) => claim.id == id,
        None => claim.token.is_some() && claim.token == args.token,
    };
    holders.chain(waiters).find(is_meant)
}

fn question(name: &str, claim: &Claim) -> String {
    let does = match (claim.kept, claim.holds) {
        (true, _) => "is kept after",
        (false, true) => "is held by",
        (false, false) => "is waited for by",
    };
    let mut question = format!("lock {name:?} {does} {}", printable(&claim.owner));
    if let Some(token) = claim.token {
        question.push_str(&format!(", token {token}"));
    }
    if let Some(since) = claim.since {
        question.push_str(&format!(", for {}", human(since)));
    }
    if let Some(reason) = &claim.reason {
        question.push_str(&format!(" ({})", printable(reason)));
    }
    question + ". Break it? [y/N] "
}

/// Returns whether the user says yes; every other answer is no.
fn agreed(question: &str) -> bool {
    let mut stderr = io::stderr().lock();
    let mut line = String::new();
    let asked = stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush());
    let read = asked.and_then(|()| io::stdin().lock().read_line(&mut line));
    read.is_ok() && matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}

/// How long the claim still lasts; `None` if the store does not know.
async fn free_in(keeper: &Keeper, args: &BreakArgs, claim: &Claim) -> Option<Duration> {
    let info = keeper.inspect(args.name.as_str()).await.ok()?;
    let holders = info.holders.iter().map(|holder| (holder.id, holder.expires_in));
    let mut claims =
        holders.chain(info.waiters.iter().map(|waiter| (waiter.id, waiter.expires_in)));
    claims
        .find(|(id, _)| *id == claim.id)
        .map_or(Some(Duration::ZERO), |(_, expires_in)| expires_in)
}

fn json(
    info: &LockInfo,
    args: &BreakArgs,
    claim: &Claim,
    free_in: Option<Duration>,
) -> Result<String, Failure> {
    json_line(&Report {
        lock: info.name.as_str(),
        id: claim.id.to_string(),
        owner: &claim.owner,
        token: claim.token.map(|token| token.to_string()),
        removed: args.now,
        free_in_ms: free_in.map(millis),
    })
}

fn text(args: &BreakArgs, claim: &Claim, free_in: Option<Duration>) -> String {
    let owner = printable(&claim.owner);
    match (args.now, claim.holds, free_in) {
        (true, true, _) => format!("removed: {owner} no longer holds the lock\n"),
        (_, false, _) => format!("broken: {owner} has lost its place in the queue\n"),
        (false, true, Some(free_in)) if free_in.is_zero() => {
            format!("broken: {owner} no longer holds the lock\n")
        }
        (false, true, Some(free_in)) => {
            format!(
                "broken: {owner} cannot renew the lock; the lock is free within {}\n",
                human(free_in)
            )
        }
        (false, true, None) => format!("broken: {owner} cannot renew the lock\n"),
    }
}
