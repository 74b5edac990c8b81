//! The first words on a connection: who we are, which database; and who the server is.

use redis::Value;

use super::decoder::Decoder;
use super::error::{LACKING, NO_SERVER, WireError, is_unknown_command};
use super::request::Request;
use super::settings::{Settings, Trial};
use super::transport::converse;
use crate::net::Stream as Transport;

/// What a server is to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Master,
    Replica,
    /// It does not say.
    Unknown,
}

/// What kind of server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Standalone,
    Cluster,
    Sentinel,
}

/// The server at the other end, as far as it tells us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// Zeros when it does not say.
    pub(crate) version: (u8, u8, u8),
    pub(crate) valkey: bool,
    pub(crate) role: Role,
    pub(crate) mode: Mode,
    /// Another one after each start. `None` where the user may not ask for it.
    pub(crate) run_id: Option<String>,
    /// The policy by which it removes keys when it is full, where it has one and was asked for it.
    pub(crate) forgets: Option<String>,
    /// Whether messages come on the same connection.
    pub(crate) resp3: bool,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Requests, and messages where the protocol allows.
    Requests,
    /// Only messages, in RESP2.
    Messages,
}

/// Speaks the first words.
///
/// # Errors
/// What the server refuses, or what happened to the connection.
pub(super) async fn greet(
    transport: &mut Transport,
    decoder: &mut Decoder,
    settings: &Settings,
    purpose: Purpose,
) -> Result<Server, WireError> {
    let mut server = Server {
        version: (0, 0, 0),
        valkey: false,
        role: Role::Unknown,
        mode: Mode::Standalone,
        run_id: None,
        forgets: None,
        resp3: false,
    };
    if purpose == Purpose::Requests && !settings.resp2 {
        match ask(transport, decoder, &hello(settings)).await? {
            Value::ServerError(refusal) if knows_no_hello(refusal.code(), refusal.details()) => {}
            Value::ServerError(refusal) => return Err(without_secret(refusal.into(), settings)),
            answer => {
                server.resp3 = true;
                read_hello(&mut server, answer);
            }
        }
    }
    if !server.resp3 {
        authenticate(transport, decoder, settings).await?;
    }
    prepare(transport, decoder, settings, purpose, &mut server).await?;
    Ok(server)
}

fn hello(settings: &Settings) -> Request {
    let mut parts: Vec<&[u8]> = vec![b"HELLO", b"3"];
    if let Some((user, password)) = login(settings) {
        parts.extend([b"AUTH", user.unwrap_or("default").as_bytes(), password.as_bytes()]);
    }
    Request::command(&parts)
}

/// Who we are, if we say it. A user without a password has the empty one: never are we somebody
/// else.
fn login(settings: &Settings) -> Option<(Option<&str>, &str)> {
    let (user, password) = (settings.user.as_deref(), settings.password.as_ref());
    (user.is_some() || password.is_some())
        .then(|| (user, password.map_or("", |password| password.expose())))
}

/// An old server, a proxy, or a user who may not say it: RESP2 is for all of them.
fn knows_no_hello(code: &str, details: Option<&str>) -> bool {
    matches!(code, "NOPROTO" | "NOPERM") || is_unknown_command(code, details.unwrap_or_default())
}

async fn authenticate(
    transport: &mut Transport,
    decoder: &mut Decoder,
    settings: &Settings,
) -> Result<(), WireError> {
    let request = match login(settings) {
        Some((Some(user), password)) => {
            Request::command(&[b"AUTH", user.as_bytes(), password.as_bytes()])
        }
        Some((None, password)) => Request::command(&[b"AUTH", password.as_bytes()]),
        None => return Ok(()),
    };
    match ask(transport, decoder, &request).await? {
        Value::ServerError(refusal) => Err(without_secret(refusal.into(), settings)),
        _ => Ok(()),
    }
}

/// What does not know AUTH repeats its arguments, or the beginning of them.
fn without_secret(error: WireError, settings: &Settings) -> WireError {
    let WireError::Server { code, mut message, .. } = error else { return error };
    let secret = settings.password.as_ref().filter(|password| !password.is_empty());
    if let Some(arguments) = message.find("with args beginning with") {
        message.truncate(arguments);
        message.truncate(message.trim_end_matches([',', ' ']).len());
    }
    let repeats = |said: &str| secret.is_some_and(|secret| said.contains(secret.expose()));
    // Words that say the same whatever the password is.
    if repeats(&message) && !message.starts_with("AUTH <password> called") {
        message = "what it says repeats the password".to_owned();
    }
    let code = if repeats(&code) { "ERR".to_owned() } else { code };
    WireError::server(code, message)
}

/// All the rest, in one write.
async fn prepare(
    transport: &mut Transport,
    decoder: &mut Decoder,
    settings: &Settings,
    purpose: Purpose,
    server: &mut Server,
) -> Result<(), WireError> {
    let db = settings.db.to_string();
    let mut requests = vec![Request::command(&[b"PING"])];
    if purpose == Purpose::Requests {
        if settings.db != 0 {
            requests.push(Request::command(&[b"SELECT", db.as_bytes()]));
        }
        requests.push(Request::command(&[b"INFO", b"server"]));
        if !server.resp3 {
            requests.push(Request::command(&[b"INFO", b"replication"]));
        }
    }
    let looks = settings.never_forgets && purpose == Purpose::Requests;
    if looks {
        requests.push(Request::command(&[b"INFO", b"memory"]));
    }
    let trials =
        if purpose == Purpose::Requests && !settings.once { &settings.trials[..] } else { &[] };
    let first_trial = requests.len();
    requests.extend(trials.iter().map(|trial| trial.request.clone()));
    let needed = requests.len();
    // What it calls us is only for people; an old server, or a user with few rights, refuses.
    requests.push(Request::command(&[b"CLIENT", b"SETNAME", settings.client_name.as_bytes()]));
    requests.push(Request::command(&[b"CLIENT", b"SETINFO", b"LIB-NAME", b"lockkeeper"]));
    let bytes: Vec<u8> =
        requests.iter().flat_map(|request| request.bytes.iter().copied()).collect();
    let answers =
        converse(transport, decoder, &bytes, requests.len()).await.map_err(WireError::NotSent)?;
    let mut answers = answers.into_iter();
    let first: Vec<_> = answers.by_ref().take(first_trial).collect();
    first.iter().for_each(|answer| read_info(server, answer));
    if server.mode == Mode::Sentinel && !settings.sentinel {
        let s = if settings.tls.is_some() { "s" } else { "" };
        return Err(WireError::server(NO_SERVER, format!("redis{s}+sentinel")));
    }
    for (at, answer) in first.into_iter().enumerate() {
        match answer {
            Value::ServerError(refusal) if is_fatal(at, refusal.code(), settings) => {
                return Err(refusal.into());
            }
            // Nobody knows then whether it forgets keys.
            Value::ServerError(refusal) if looks && at + 1 == first_trial => {
                return Err(refusal.into());
            }
            _ => {}
        }
    }
    judge(trials, answers.take(needed - first_trial))
}

/// As many of the commands that were refused are named.
const SHOWN: usize = 5;

/// Refuses a server on which the user may not do what locks need.
fn judge(trials: &[Trial], answers: impl Iterator<Item = Value>) -> Result<(), WireError> {
    let mut refused = trials.iter().zip(answers).filter_map(|(trial, answer)| match answer {
        Value::ServerError(refusal) => {
            let (code, said) = (refusal.code(), refusal.details().unwrap_or_default());
            let is_needless = trial.may_be_unknown && is_unknown_command(code, said);
            (!is_needless && lacks_right(code, said))
                .then(|| (trial.word, format!("{code} {said}")))
        }
        _ => None,
    });
    let Some((first, said)) = refused.next() else { return Ok(()) };
    let mut words: Vec<_> = std::iter::once(first)
        .chain(refused.map(|(word, _)| word))
        .map(str::to_uppercase)
        .collect();
    let more = words.split_off(words.len().min(SHOWN)).len();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Err(WireError::server(LACKING, format!("{}{more} ({said})", words.join(", "))))
}

/// Whether the user may not run it, or not publish. Which keys a user may touch, only the names
/// that are used can tell.
fn lacks_right(code: &str, said: &str) -> bool {
    let is_about_keys = said.contains("access") && said.contains("key");
    is_unknown_command(code, said) || code == "NOPERM" && !is_about_keys
}

/// Whether the connection is of no use without what was refused. What a user may not do without
/// need is not.
fn is_fatal(at: usize, code: &str, settings: &Settings) -> bool {
    let is_select = at == 1 && settings.db != 0;
    // The answers are counted by questions whose answer is known.
    let is_ping = at == 0 && code == "NOPERM";
    is_select || is_ping || matches!(code, "NOAUTH" | "LOADING" | "BUSY" | "MASTERDOWN" | "DENIED")
}

async fn ask(
    transport: &mut Transport,
    decoder: &mut Decoder,
    request: &Request,
) -> Result<Value, WireError> {
    let answers =
        converse(transport, decoder, &request.bytes, 1).await.map_err(WireError::NotSent)?;
    Ok(answers.into_iter().next().unwrap_or(Value::Nil))
}

fn read_hello(server: &mut Server, answer: Value) {
    let Value::Map(fields) = answer else { return };
    for (key, value) in &fields {
        let (Some(key), Some(value)) = (text(key), text(value)) else { continue };
        match (key, value) {
            ("server", "valkey") => server.valkey = true,
            ("version", version) => server.version = parse_version(version),
            ("role", "master") => server.role = Role::Master,
            ("role", "replica" | "slave") => server.role = Role::Replica,
            ("mode", "cluster") => server.mode = Mode::Cluster,
            ("mode", "sentinel") => server.mode = Mode::Sentinel,
            _ => {}
        }
    }
}

fn read_info(server: &mut Server, answer: &Value) {
    let Some(info) = text(answer) else { return };
    for line in info.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        match (key, value.trim_end()) {
            ("redis_version", version) if !server.valkey => server.version = parse_version(version),
            ("valkey_version", version) => {
                (server.valkey, server.version) = (true, parse_version(version))
            }
            ("maxmemory_policy", policy) if policy != "noeviction" => {
                server.forgets = Some(policy.to_owned())
            }
            ("run_id", id) => server.run_id = Some(id.to_owned()),
            ("role", "master") => server.role = Role::Master,
            ("role", "slave" | "replica") => server.role = Role::Replica,
            ("redis_mode" | "server_mode", "cluster") => server.mode = Mode::Cluster,
            ("redis_mode" | "server_mode", "sentinel") => server.mode = Mode::Sentinel,
            _ => {}
        }
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

fn parse_version(version: &str) -> (u8, u8, u8) {
    let mut parts = version.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}
