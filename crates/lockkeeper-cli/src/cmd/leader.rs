//! `lockkeeper leader NAME`: shows the leader.

use data_encoding::BASE64;
use lockkeeper::{Leader, LockName};
use serde::Serialize;

use crate::args::LeaderArgs;
use crate::duration::millis;
use crate::exit::{Exit, Failure};
use crate::lock::{self, Terms};
use crate::output::{Verbosity, answer, complain, json_line, printable};
use crate::settings::Settings;

#[derive(Serialize)]
struct Report<'a> {
    lock: &'a str,
    value: Option<&'a str>,
    /// The value, if it is not a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    owner: Option<&'a str>,
    token: Option<String>,
    since_ms: Option<u64>,
}

/// Prints the leader's value; without a leader the answer is "no".
pub(crate) async fn leader(args: &LeaderArgs, settings: &Settings) -> Result<Exit, Failure> {
    LockName::new(&args.name)?;
    let keeper = lock::look(settings, Terms::default()).await?;
    let election = keeper.election(args.name.as_str())?;
    let leader = election.leader().await?;
    let text = match &leader {
        leader if settings.json => json_line(&report(election.name().as_str(), leader.as_ref()))?,
        Some(leader) => format!("{}\n", text(&leader.value)),
        None => String::new(),
    };
    answer(&text)?;
    if let Some(leader) = leader.as_ref().filter(|leader| leader.value.is_empty())
        && settings.verbosity >= Verbosity::Warnings
    {
        let (name, owner) = (&args.name, printable(&leader.owner));
        complain(&format!(
            "lock {name:?}: {owner} holds it and shows no value, as a command under run does"
        ));
    }
    Ok(if leader.is_some() { Exit::Ok } else { Exit::No })
}

fn report<'a>(lock: &'a str, leader: Option<&'a Leader>) -> Report<'a> {
    let value = leader.map(|leader| leader.value.as_slice());
    let text = value.and_then(|value| str::from_utf8(value).ok());
    Report {
        lock,
        value: text,
        value_base64: value.filter(|_| text.is_none()).map(|value| BASE64.encode(value)),
        owner: leader.map(|leader| leader.owner.as_str()),
        token: leader.map(|leader| leader.token.to_string()),
        since_ms: leader.and_then(|leader| leader.led).map(millis),
    }
}

/// The value in one line, whatever other clients wrote: control characters and bytes that are no
/// text are escaped.
fn text(value: &[u8]) -> String {
    let chunks = value.utf8_chunks().map(|chunk| {
        let bytes = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
        format!("{}{}", printable(chunk.valid()), bytes.collect::<String>())
    });
    chunks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_line_whatever_its_bytes() {
        for (value, line) in [
            (&b"10.0.0.7:8080"[..], "10.0.0.7:8080"),
            ("é 漢".as_bytes(), "é 漢"),
            (b"a\nb\x1b[2J", "a\\nb\\u{1b}[2J"),
            (b"a\xff\xfeb", "a\\xff\\xfeb"),
            (b"", ""),
        ] {
            assert_eq!(text(value), line);
        }
    }
}
