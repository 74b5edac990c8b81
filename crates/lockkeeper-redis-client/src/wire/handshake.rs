//! The handshake of a connection: the login, the database, and the kind of the server.

use redis::Value;

use super::decoder::Decoder;
use super::error::{LACKING, NO_SERVER, WireError, is_unknown_command};
use super::request::Request;
use super::settings::{Settings, Trial};
use super::transport::converse;
use crate::net::Stream as Transport;

/// The role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Master,
    Replica,
    /// The server does not say.
    Unknown,
}

/// The server of a connection, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub role: Role,
    pub is_sentinel: bool,
    /// Differs after each start. `None` if the user may not ask.
    pub run_id: Option<String>,
    /// The history of the server's data (`master_replid`), if the handshake asked. A server begins
    /// a history of its own each time it becomes a master.
    pub history: Option<String>,
    /// The policy by which the server removes keys when it is full, if there is one and the
    /// handshake asked.
    pub forgets: Option<String>,
    /// Whether messages come on the same connection.
    pub resp3: bool,
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Requests, and messages where the protocol allows.
    Requests,
    /// Only messages, in RESP2.
    Messages,
}

/// Makes the handshake.
///
/// # Errors
/// The refusal of the server, or what happened to the connection.
pub(super) async fn greet(
    transport: &mut Transport,
    decoder: &mut Decoder,
    settings: &Settings,
    purpose: Purpose,
) -> Result<Server, WireError> {
    let mut server = Server {
        role: Role::Unknown,
        is_sentinel: false,
        run_id: None,
        history: None,
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

/// The user and the password, if there is a login. A user without a password logs in with the empty
/// one, and never as another user.
fn login(settings: &Settings) -> Option<(Option<&str>, &str)> {
    let (user, password) = (settings.user.as_deref(), settings.password.as_ref());
    (user.is_some() || password.is_some())
        .then(|| (user, password.map_or("", |password| password.expose())))
}

/// Whether the connection needs RESP2: the server is old, a proxy answers, or the user may not send
/// HELLO.
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

/// Removes the password from an error. A server without AUTH repeats the arguments, or their
/// beginning.
fn without_secret(error: WireError, settings: &Settings) -> WireError {
    let WireError::Server { code, mut message, .. } = error else { return error };
    let secret = settings.password.as_ref().filter(|password| !password.is_empty());
    if let Some(arguments) = message.find("with args beginning with") {
        message.truncate(arguments);
        message.truncate(message.trim_end_matches([',', ' ']).len());
    }
    let repeats = |said: &str| secret.is_some_and(|secret| said.contains(secret.expose()));
    // The exception has the same words whatever the password is.
    if repeats(&message) && !message.starts_with("AUTH <password> called") {
        message = "what it says repeats the password".to_owned();
    }
    let code = if repeats(&code) { "ERR".to_owned() } else { code };
    WireError::server(code, message)
}

/// The rest of the handshake, in one write.
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
        if !server.resp3 || settings.asks_history {
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
    // The name of the client is only for people. An old server refuses it, or a user may lack the
    // right.
    requests.push(Request::command(&[b"CLIENT", b"SETNAME", b"lockkeeper"]));
    requests.push(Request::command(&[b"CLIENT", b"SETINFO", b"LIB-NAME", b"lockkeeper"]));
    let bytes: Vec<u8> =
        requests.iter().flat_map(|request| request.bytes.iter().copied()).collect();
    let answers =
        converse(transport, decoder, &bytes, requests.len()).await.map_err(WireError::NotSent)?;
    let mut answers = answers.into_iter();
    let first: Vec<_> = answers.by_ref().take(first_trial).collect();
    first.iter().for_each(|answer| read_info(server, answer));
    if server.is_sentinel && !settings.sentinel {
        let s = if settings.tls.is_some() { "s" } else { "" };
        return Err(WireError::server(NO_SERVER, format!("redis{s}+sentinel")));
    }
    for (at, answer) in first.into_iter().enumerate() {
        match answer {
            Value::ServerError(refusal) if is_fatal(at, refusal.code(), settings) => {
                return Err(refusal.into());
            }
            // The server does not say whether it forgets keys.
            Value::ServerError(refusal) if looks && at + 1 == first_trial => {
                return Err(refusal.into());
            }
            _ => {}
        }
    }
    judge(trials, answers.take(needed - first_trial))
}

/// At most this many refused commands are named.
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
    let words: Vec<_> = std::iter::once(first)
        .chain(refused.map(|(word, _)| word))
        .map(str::to_uppercase)
        .collect();
    Err(WireError::server(LACKING, format!("{} ({said})", listed(&words))))
}

/// The first of the refused commands, and how many more there are.
pub fn listed(commands: &[String]) -> String {
    let (first, more) = commands.split_at(commands.len().min(SHOWN));
    match more.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Whether the user may not run the command, or not publish. A refusal of a key does not count: the
/// names of the locks decide which keys the user needs.
fn lacks_right(code: &str, said: &str) -> bool {
    let is_about_keys = said.contains("access") && said.contains("key");
    is_unknown_command(code, said) || code == "NOPERM" && !is_about_keys
}

/// Whether the connection is of no use after this refusal. A right that the connection does not
/// need is no reason.
fn is_fatal(at: usize, code: &str, settings: &Settings) -> bool {
    let is_select = at == 1 && settings.db != 0;
    // The link matches answers with requests by `PING`.
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
            ("role", "master") => server.role = Role::Master,
            ("role", "replica" | "slave") => server.role = Role::Replica,
            ("mode", "sentinel") => server.is_sentinel = true,
            _ => {}
        }
    }
}

fn read_info(server: &mut Server, answer: &Value) {
    let Some(info) = text(answer) else { return };
    for line in info.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        match (key, value.trim_end()) {
            ("maxmemory_policy", policy) if policy != "noeviction" => {
                server.forgets = Some(policy.to_owned())
            }
            ("run_id", id) => server.run_id = Some(id.to_owned()),
            ("master_replid", id) => server.history = Some(id.to_owned()),
            ("role", "master") => server.role = Role::Master,
            ("role", "slave" | "replica") => server.role = Role::Replica,
            ("redis_mode" | "server_mode", "sentinel") => server.is_sentinel = true,
            _ => {}
        }
    }
}

/// The text of an answer, in either protocol.
pub fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}
