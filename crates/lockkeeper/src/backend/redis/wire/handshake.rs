//! The first words on a connection: who we are, which database, which scripts; and who the server is.

use redis::Value;

use super::decoder::Decoder;
use super::error::{WireError, is_unknown_command};
use super::request::Request;
use super::settings::Settings;
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
    if let Some(password) = &settings.password {
        let user = settings.user.as_deref().unwrap_or("default");
        parts.extend([b"AUTH", user.as_bytes(), password.expose().as_bytes()]);
    }
    Request::command(&parts)
}

/// An old server, a proxy, or a user who may not say it: RESP2 is for all of them.
fn knows_no_hello(code: &str, details: Option<&str>) -> bool {
    matches!(code, "NOPROTO" | "NOPERM") || is_unknown_command(code, details.unwrap_or_default())
}

async fn authenticate(transport: &mut Transport, decoder: &mut Decoder, settings: &Settings) -> Result<(), WireError> {
    let Some(password) = &settings.password else { return Ok(()) };
    let password = password.expose().as_bytes();
    let request = match &settings.user {
        Some(user) => Request::command(&[b"AUTH", user.as_bytes(), password]),
        None => Request::command(&[b"AUTH", password]),
    };
    match ask(transport, decoder, &request).await? {
        Value::ServerError(refusal) => Err(without_secret(refusal.into(), settings)),
        _ => Ok(()),
    }
}

/// What does not know AUTH repeats its arguments, or the beginning of them.
fn without_secret(error: WireError, settings: &Settings) -> WireError {
    let WireError::Server { code, mut message } = error else { return error };
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
    WireError::Server { code, message }
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
        if settings.never_forgets {
            requests.push(Request::command(&[b"INFO", b"memory"]));
        }
        requests.extend(settings.scripts.iter().map(|script| load(script.text())));
    }
    let needed = requests.len();
    // What it calls us is only for people; an old server, or a user with few rights, refuses.
    requests.push(Request::command(&[b"CLIENT", b"SETNAME", settings.client_name.as_bytes()]));
    requests.push(Request::command(&[b"CLIENT", b"SETINFO", b"LIB-NAME", b"lockkeeper"]));
    let bytes: Vec<u8> = requests.iter().flat_map(|request| request.bytes.iter().copied()).collect();
    let answers = transport.converse(decoder, &bytes, requests.len()).await.map_err(WireError::NotSent)?;
    for (at, answer) in answers.into_iter().take(needed).enumerate() {
        match answer {
            Value::ServerError(refusal) if is_fatal(at, refusal.code(), settings) => return Err(refusal.into()),
            Value::ServerError(_) => {}
            answer => read_info(server, &answer),
        }
    }
    Ok(())
}

pub(super) fn load(text: &str) -> Request {
    Request::command(&[b"SCRIPT", b"LOAD", text.as_bytes()])
}

/// Whether the connection is of no use without what was refused. What a user may not do without need is not.
fn is_fatal(at: usize, code: &str, settings: &Settings) -> bool {
    let is_select = at == 1 && settings.db != 0;
    is_select || matches!(code, "NOAUTH" | "LOADING" | "MASTERDOWN" | "DENIED")
}

async fn ask(transport: &mut Transport, decoder: &mut Decoder, request: &Request) -> Result<Value, WireError> {
    let answers = transport.converse(decoder, &request.bytes, 1).await.map_err(WireError::NotSent)?;
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
            ("valkey_version", version) => (server.valkey, server.version) = (true, parse_version(version)),
            ("maxmemory_policy", policy) if policy != "noeviction" => server.forgets = Some(policy.to_owned()),
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
