//! `lockkeeper inspect NAME`: who holds a lock, and who waits for it.

use std::time::Duration;

use lockkeeper::{HolderInfo, LockInfo, LockName, Mode};
use serde::Serialize;

use crate::args::InspectArgs;
use crate::duration::{human, millis};
use crate::exit::{Exit, Failure};
use crate::held::mode_word;
use crate::lock::{self, Terms};
use crate::output::{answer, json_line, printable, table, titled_table};
use crate::settings::Settings;

/// Prints the state of one lock; a free one is a "no".
pub(crate) async fn inspect(args: &InspectArgs, settings: &Settings) -> Result<Exit, Failure> {
    LockName::new(&args.name)?;
    let keeper = lock::look(settings, Terms::default()).await?;
    let info = keeper.inspect(args.name.as_str()).await?;
    answer(&if settings.json { json(&info)? } else { text(&info) })?;
    Ok(if info.is_held() { Exit::Ok } else { Exit::No })
}

#[derive(Serialize)]
struct Report<'a> {
    lock: &'a str,
    state: &'static str,
    mode: Option<&'static str>,
    capacity: Option<u32>,
    holders: Vec<HolderReport<'a>>,
    waiters: Vec<WaiterReport<'a>>,
    last_token: Option<String>,
    /// Why the line of the lock cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Serialize)]
struct HolderReport<'a> {
    id: String,
    owner: &'a str,
    reason: Option<&'a str>,
    mode: &'static str,
    permits: Option<u32>,
    capacity: Option<u32>,
    token: Option<String>,
    held_ms: Option<u64>,
    expires_in_ms: Option<u64>,
    /// The lock has no holder any more: the store keeps it for the rest of its minimum hold.
    kept: bool,
    broken: Option<BrokenReport<'a>>,
}

/// The operator and the reason of a break. The holder may not know of the break yet.
#[derive(Serialize)]
struct BrokenReport<'a> {
    by: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct WaiterReport<'a> {
    id: String,
    owner: &'a str,
    reason: Option<&'a str>,
    mode: &'static str,
    permits: Option<u32>,
    capacity: Option<u32>,
    waited_ms: Option<u64>,
}

/// One line of JSON.
pub(crate) fn json(info: &LockInfo) -> Result<String, Failure> {
    let holders = info.holders.iter().map(|holder| HolderReport {
        id: holder.id.to_string(),
        owner: &holder.owner,
        reason: holder.reason.as_deref(),
        mode: mode_word(&mode(holder.weight, holder.capacity)),
        permits: holder.capacity.map(|_| holder.weight),
        capacity: holder.capacity,
        token: holder.token.map(|token| token.to_string()),
        held_ms: holder.held.map(millis),
        expires_in_ms: holder.expires_in.map(millis),
        kept: holder.kept,
        broken: holder
            .broken
            .as_ref()
            .map(|broken| BrokenReport { by: &broken.by, reason: &broken.reason }),
    });
    let waiters = info.waiters.iter().map(|waiter| WaiterReport {
        id: waiter.id.to_string(),
        owner: &waiter.owner,
        reason: waiter.reason.as_deref(),
        mode: mode_word(&mode(waiter.weight, waiter.capacity)),
        permits: waiter.capacity.map(|_| waiter.weight),
        capacity: waiter.capacity,
        waited_ms: waiter.waited.map(millis),
    });
    let report = Report {
        lock: info.name.as_str(),
        state: state(info),
        mode: info.mode.as_ref().map(mode_word),
        capacity: info.capacity,
        holders: holders.collect(),
        waiters: waiters.collect(),
        last_token: info.last_token.map(|token| token.to_string()),
        problem: info.problem.as_ref().map(ToString::to_string),
    };
    json_line(&report)
}

fn state(info: &LockInfo) -> &'static str {
    match info.problem {
        Some(_) => "unreadable",
        None if info.is_held() && info.holders.iter().all(|holder| holder.kept) => "kept",
        None if info.is_held() => "held",
        None => "free",
    }
}

/// A value that the store does not know is shown as a dash.
pub(crate) fn dash(d: Option<Duration>) -> String {
    d.map_or_else(|| "-".to_owned(), human)
}

fn text(info: &LockInfo) -> String {
    let mut lines = vec![row("lock", info.name.to_string()), row("state", state(info).to_owned())];
    if let Some(mode) = &info.mode {
        lines.push(row("mode", mode_word(mode).to_owned()));
    }
    if let Some(capacity) = info.capacity {
        let taken: u64 = info.holders.iter().map(|holder| u64::from(holder.weight)).sum();
        lines.push(row("permits", format!("{taken} of {capacity} taken")));
    }
    if let Some(token) = &info.last_token {
        lines.push(row("last token", token.to_string()));
    }
    let mut text = table(&lines);
    if !info.holders.is_empty() {
        text.push('\n');
        text.push_str(&titled_table(&holders(info)));
    }
    if !info.waiters.is_empty() {
        text.push('\n');
        text.push_str(&titled_table(&waiters(info)));
    }
    text
}

fn row(key: &str, value: String) -> Vec<String> {
    vec![key.to_owned(), value]
}

fn holders(info: &LockInfo) -> Vec<Vec<String>> {
    let mut rows = vec![
        ["HOLDER", "MODE", "TOKEN", "HELD", "EXPIRES IN", "ID", "REASON"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(info.holders.iter().map(|holder| {
        let token = holder.token.map_or_else(|| "-".to_owned(), |token| token.to_string());
        let reason = reason(holder);
        vec![
            printable(&holder.owner).into_owned(),
            share(info, holder.weight, holder.capacity),
            token,
            dash(holder.held),
            dash(holder.expires_in),
            holder.id.to_string(),
            reason,
        ]
    }));
    rows
}

/// The share of the lock that a claim has or wants. It names the capacity too if that is not the
/// capacity that counts.
fn share(info: &LockInfo, weight: u32, capacity: Option<u32>) -> String {
    match (capacity, weight) {
        (Some(of), 1) if info.capacity == Some(of) => "1 permit".to_owned(),
        (Some(of), permits) if info.capacity == Some(of) => format!("{permits} permits"),
        (Some(of), permits) => format!("{permits} of {of} permits"),
        (None, _) => mode_word(&mode(weight, capacity)).to_owned(),
    }
}

/// The mode in which a claim has or wants the lock.
fn mode(weight: u32, capacity: Option<u32>) -> Mode {
    match (capacity, weight) {
        (Some(_), permits) => Mode::Permits(permits),
        (None, u32::MAX) => Mode::Exclusive,
        (None, _) => Mode::Shared,
    }
}

/// The reason of the hold; that the lock was broken, which its holder may not know yet; that the
/// lock has no holder any more.
fn reason(holder: &HolderInfo) -> String {
    let mut reason = printable(holder.reason.as_deref().unwrap_or_default()).into_owned();
    let gap = if reason.is_empty() { "" } else { " " };
    if holder.kept {
        reason.push_str(&format!("{gap}(no holder; kept for {})", dash(holder.expires_in)));
    }
    if let Some(broken) = &holder.broken {
        let (by, why) = (printable(&broken.by), printable(&broken.reason));
        reason.push_str(&format!("{gap}(broken by {by}: {why})"));
    }
    reason
}

fn waiters(info: &LockInfo) -> Vec<Vec<String>> {
    let mut rows = vec![["WAITER", "MODE", "WAITED", "ID"].map(str::to_owned).to_vec()];
    rows.extend(info.waiters.iter().map(|waiter| {
        let owner = printable(&waiter.owner).into_owned();
        let share = share(info, waiter.weight, waiter.capacity);
        vec![owner, share, dash(waiter.waited), waiter.id.to_string()]
    }));
    rows
}
