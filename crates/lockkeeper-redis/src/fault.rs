//! The errors of connections and servers, in the words of the store.

use super::checks::{self, SHOWN_RIGHTS};
use super::layout::SESSION_KEYS;
use super::wire::{
    FORGETFUL, HALF_WAY, IS_SENTINEL, LACKING, LACKS, NO_SERVER, Who, WireError, is_unknown_command,
};
use crate::net::{OF_AUTHORITY, OTHER_NAME, UNFIT, UNKNOWN_SIGNER, WANTS_CERTIFICATE};
use crate::{Error, ErrorKind};

/// The error of a request, with what is known about its effect.
pub(super) fn of(error: WireError) -> Error {
    about(error, "lk:{NAME}")
}

/// The same for a request about this key.
pub(super) fn about(error: WireError, key: &str) -> Error {
    match error {
        WireError::NotSent(why) => {
            let remedy = remedy_of(&why);
            Error::new(ErrorKind::Unavailable, why).with_remedy(remedy)
        }
        WireError::Broken(why) => Error::new(ErrorKind::Unavailable, why).with_unknown_effect(),
        WireError::Server { code, message, by } => refused(&code, &message, by.as_ref(), key),
    }
}

/// The remedy if there is no connection. The words are those of `wire` and of the system.
fn remedy_of(why: &str) -> &'static str {
    let says = |words: &str| why.contains(words);
    match () {
        () if says(WANTS_CERTIFICATE) => {
            "cert=FILE and key=FILE in the URL: the server asks for a certificate"
        }
        () if says(UNKNOWN_SIGNER) => "ca=FILE in the URL: who has signed the server's certificate",
        () if says(OTHER_NAME) => "server-name=NAME in the URL: a name that is in the certificate",
        () if says(OF_AUTHORITY) => "a server certificate that is not a CA",
        () if says(UNFIT) => "another certificate of the server",
        () if says("TLS failed") => "redis:// instead of rediss://, if the server has no TLS",
        () if says(FORGETFUL) => checks::NEVER_FORGET,
        () if says(TOO_LITTLE_SUPPORT) && says("WRONGPASS") => RIGHT_SENTINEL_PASSWORD,
        () if says(TOO_LITTLE_SUPPORT) && says("NOAUTH") => A_SENTINEL_PASSWORD,
        () if says("WRONGPASS") => RIGHT_PASSWORD,
        () if says("NOAUTH") => A_PASSWORD,
        () if says("protected mode") => UNPROTECTED,
        () if says("NOPERM") || says(LACKS) => SHOWN_RIGHTS,
        () if says(IS_SENTINEL) => "redis+sentinel:// in the URL, and the name of the master",
        () if says(TOO_LITTLE_SUPPORT) => {
            "in the URL the Sentinels that there are, or a look why those do not answer"
        }
        () if says("its name was not found") => "another host name",
        () if says("reset by peer") || says("closed the connection") => {
            "rediss:// instead of redis://, if the server has TLS"
        }
        () if says("the Redis protocol") => {
            "the port of a Redis; rediss:// instead of redis://, if it has TLS"
        }
        () => "lockkeeper doctor, or a look whether the server runs",
    }
}

const A_PASSWORD: &str =
    "LOCKKEEPER_PASSWORD, or a password in the configuration; a user goes into the URL";
/// A server without a password accepts no clients of other machines.
const UNPROTECTED: &str = "a password at the server (requirepass, or an ACL), and in the URL";
const RIGHT_PASSWORD: &str = "the right password, and the right user in the URL";
const A_SENTINEL_PASSWORD: &str =
    "sentinel-password= in the URL, in LOCKKEEPER_STORE or the configuration";
const RIGHT_SENTINEL_PASSWORD: &str = "the right sentinel-password= and sentinel-user= in the URL, in LOCKKEEPER_STORE or the configuration";
/// How `route` says that most of the Sentinels have not answered.
const TOO_LITTLE_SUPPORT: &str = "too few to believe them";

/// How a script says that it does not know the layout of a value. The number follows.
const LAYOUT: &str = "lockkeeper layout ";

/// The server has answered with an error. The codes that are known here come before any change: a
/// script tries every command that may be refused before it changes anything (`lua/write.lua`).
fn refused(code: &str, message: &str, by: Option<&Who>, key: &str) -> Error {
    let who = by.map_or_else(|| "the server".to_owned(), Who::to_string);
    let is_sentinel = matches!(by, Some(Who::Sentinel(_)));
    // The place in the script does not help a user.
    let (short, _) = message.split_once(" script: ").unwrap_or((message, ""));
    let said = match code {
        // The rest of the message is about HELLO.
        "NOAUTH" => format!("{who} asks for a password (NOAUTH)"),
        _ => format!("{who} says {code} {}", short.trim_end_matches('.')),
    };
    let denied = |remedy: &str| Error::new(ErrorKind::Denied, said.clone()).with_remedy(remedy);
    let not_now =
        |remedy: &str| Error::new(ErrorKind::Unavailable, said.clone()).with_remedy(remedy);
    match code {
        "NOAUTH" => denied(if is_sentinel { A_SENTINEL_PASSWORD } else { A_PASSWORD }),
        "WRONGPASS" => denied(if is_sentinel { RIGHT_SENTINEL_PASSWORD } else { RIGHT_PASSWORD }),
        NO_SERVER => Error::invalid(format!("{who} is a Sentinel"))
            .with_remedy(format!("{message}://{who}/MASTER")),
        "NOPERM" => denied(SHOWN_RIGHTS),
        "DENIED" => denied(UNPROTECTED),
        "READONLY" => not_now("the address of the master"),
        "ERR" if message.contains("DB index is out of range") => Error::invalid(said)
            .with_remedy("the number of a database that the server has; 0 has every one"),
        "ERR" if message.starts_with("AUTH ") => {
            denied("the URL without a password: the server has none")
        }
        "ERR" if message.starts_with("max number of clients") => {
            not_now("a higher maxclients of the server, or fewer connections")
        }
        "ERR" if message.starts_with("This instance has cluster support disabled") => {
            Error::invalid(said)
                .with_remedy("redis:// in the URL: the server is no node of a Cluster")
        }
        FORGETFUL => checks::forgetful(message),
        LACKING => checks::lacking(message),
        "ERR" if message.contains(LAYOUT) => unknown_layout(message, key),
        "ERR" if message.starts_with("Unknown Redis command") => denied(SHOWN_RIGHTS),
        // The scripts check the type of the main key themselves.
        "WRONGTYPE" => foreign_beside(key, "a value of another type"),
        _ if is_unknown_command(code, message) && message.contains("SENTINEL") => Error::invalid(
            said,
        )
        .with_remedy("the addresses of the Sentinels in the URL, or redis://: this is a server"),
        _ if is_unknown_command(code, message) => denied(&format!(
            "{SHOWN_RIGHTS}; or the server itself instead of what stands before it"
        )),
        "NOSCRIPT" | "LOADING" | "BUSY" | "TRYAGAIN" | "MASTERDOWN" => not_now("again in a moment"),
        "CLUSTERDOWN" | "MOVED" | "ASK" | "CROSSSLOT" => match by {
            Some(node) => not_now(&format!("redis-cli --cluster check {node}")),
            None => not_now("redis+cluster:// in the URL, or redis-cli --cluster check"),
        },
        // A demotion ends each command that waits, and the connection.
        HALF_WAY | "UNBLOCKED" => not_now("again in a moment").with_unknown_effect(),
        "MISCONF" => not_now("some room on the server's disk"),
        "OOM" => not_now("a higher maxmemory of the server"),
        "NOREPLICAS" => not_now("more replicas, or a lower min-replicas-to-write of the server"),
        "ERR" if is_at_a_loss(message) => {
            foreign_beside(key, short.trim_end_matches('.')).with_unknown_effect()
        }
        // A script that fails half-way has done the first half.
        _ => Error::new(ErrorKind::Internal, format!("{who} says {code} {message}"))
            .with_unknown_effect()
            .with_remedy("a report of this bug"),
    }
}

/// Whether a script could not make sense of the data that it has read.
fn is_at_a_loss(message: &str) -> bool {
    let is_in_a_script = message.contains("user_script") && !message.contains("half-way");
    let about_data = ["attempt to ", "bad argument", "is not an integer", "is not a valid float"];
    is_in_a_script && about_data.iter().any(|words| message.contains(words))
}

/// The error about a lock in a layout that this version does not write.
fn unknown_layout(message: &str, key: &str) -> Error {
    let said = message.split(LAYOUT).nth(1).unwrap_or_default();
    let (number, rest) =
        said.split_at(said.find(|c: char| !c.is_ascii_digit()).unwrap_or(said.len()));
    if number == "0" {
        let what = rest.trim_start_matches(" (").split(')').next().unwrap_or_default();
        return foreign(key, what);
    }
    let problem = format!("{key} is kept in layout {number}, and this version knows layout 2");
    Error::new(ErrorKind::Unsupported, problem)
        .with_remedy("the version of lockkeeper that the other clients have")
}

/// The error about a key that another program has written. A client that held the lock before may
/// rely on it for a ttl still.
pub(super) fn foreign(key: &str, what: &str) -> Error {
    let problem = format!("the key {key} holds something that lockkeeper has not written: {what}");
    Error::new(ErrorKind::Unsupported, problem).with_remedy(format!(
        "redis-cli TYPE '{key}', and DEL of it if nobody needs it and nobody has held the lock for a ttl; or another \
         name or database"
    ))
}

/// The same for a request about a detached session, whose key is `key`.
pub(super) fn of_session(error: WireError, key: &str) -> Error {
    let is_key = |message: &str| message.contains(" key");
    let may_not = matches!(&error, WireError::Server { code, message, .. } if code == "NOPERM" && is_key(message));
    let error = about(error, key);
    if may_not { error.with_remedy(right_to_sessions()) } else { error }
}

/// The remedy for a user without the right to the keys of detached sessions.
pub(super) fn right_to_sessions() -> String {
    format!("ACL SETUSER NAME {SESSION_KEYS}, the right to the keys of detached sessions")
}

/// The same for the request of the store's id.
pub(super) fn of_id(error: WireError) -> Error {
    match error {
        WireError::Server { code, .. } if code == "WRONGTYPE" => {
            foreign_id("a value of another type")
        }
        error => of(error),
    }
}

/// The error about a value of another program in the place of the store's id.
pub(super) fn foreign_id(what: &str) -> Error {
    let key = super::layout::ID_KEY;
    let problem = format!("the key {key} holds something that lockkeeper has not written: {what}");
    Error::new(ErrorKind::Unsupported, problem).with_remedy(format!(
        "redis-cli RENAME '{key}' to another name, or another database for lockkeeper"
    ))
}

/// The error about a side key that another program has written. Clients may hold the lock.
pub(super) fn foreign_beside(key: &str, what: &str) -> Error {
    let problem = format!(
        "one of the keys {key}:q, {key}:g (sorted sets) and {key}:w (a hash) holds something that lockkeeper has not \
         written: {what}"
    );
    Error::new(ErrorKind::Unsupported, problem).with_remedy(
        "redis-cli TYPE of each, and RENAME of the one that is wrong; others may hold the lock, so that its other keys \
         have to stay",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::said;
    use lockkeeper_core::Effect;

    fn server(code: &str) -> Error {
        of(WireError::server(code, "said so"))
    }

    #[test]
    fn only_what_cannot_have_been_done_is_without_effect() {
        assert_eq!(of(WireError::NotSent("no connection".into())).effect(), Effect::None);
        assert_eq!(of(WireError::Broken("cut".into())).effect(), Effect::Unknown);
        for code in [
            "NOAUTH",
            "NOPERM",
            "READONLY",
            "LOADING",
            "BUSY",
            "CLUSTERDOWN",
            "MISCONF",
            "OOM",
            "NOREPLICAS",
        ] {
            assert_eq!(server(code).effect(), Effect::None, "{code}");
            assert_ne!(server(code).kind(), ErrorKind::Internal, "{code}");
        }
        for code in [HALF_WAY, "UNBLOCKED"] {
            let error = server(code);
            let expected = (ErrorKind::Unavailable, Effect::Unknown);
            assert_eq!((error.kind(), error.effect()), expected, "{code}");
        }
        assert_eq!(
            (server("ERR").kind(), server("ERR").effect()),
            (ErrorKind::Internal, Effect::Unknown)
        );
    }

    #[test]
    fn what_a_person_can_mend_is_reported_with_how() {
        let remedy =
            |why: &str| of(WireError::NotSent(why.into())).remedy().unwrap_or_default().to_owned();
        assert!(
            remedy("h:1 cannot be reached: TLS failed: it did not answer")
                .starts_with("redis:// instead")
        );
        assert!(
            remedy("h:1 cannot be reached: it closed the connection")
                .starts_with("rediss:// instead")
        );
        assert!(
            remedy("h:1 cannot be reached: Connection refused").starts_with("lockkeeper doctor")
        );
        let readonly =
            "You can't write against a read only replica. script: 00bc33da, on @user_script:125.";
        let text = of(WireError::server("READONLY", readonly)).to_string();
        assert!(text.ends_with("a read only replica. Try: the address of the master"), "{text}");
        let unpackable = "user_script:45: bad argument #2 to 'up' (data string too short) script: 00bc, on @user_script:45.";
        let lost = about(WireError::server("ERR", unpackable), "lk:{a}");
        assert_eq!((lost.kind(), lost.effect()), (ErrorKind::Unsupported, Effect::Unknown));
        let text = lost.to_string();
        assert!(
            text.contains("lk:{a}:w (a hash) holds something that lockkeeper has not written"),
            "{text}"
        );
        assert!(!text.contains("DEL"), "others may hold the lock: {text}");
        assert_eq!(
            of(WireError::server("ERR", "DB index is out of range")).kind(),
            ErrorKind::Invalid
        );
    }

    #[test]
    fn what_tls_cannot_do_without_is_reported_by_its_parameter() {
        use tokio_rustls::rustls::{AlertDescription, CertificateError, Error as Tls};
        for (error, parameter) in [
            (Tls::InvalidCertificate(CertificateError::UnknownIssuer), "ca="),
            (Tls::InvalidCertificate(CertificateError::BadSignature), "ca="),
            (Tls::InvalidCertificate(CertificateError::NotValidForName), "server-name="),
            (Tls::AlertReceived(AlertDescription::CertificateRequired), "cert="),
            (Tls::AlertReceived(AlertDescription::ProtocolVersion), "redis:// instead"),
            (Tls::InvalidCertificate(CertificateError::Expired), "another certificate"),
        ] {
            let said = said(&std::io::Error::other(error));
            let text = of(WireError::NotSent(format!("h:1 cannot be reached: TLS failed: {said}")));
            assert!(text.remedy().unwrap_or_default().starts_with(parameter), "{text}");
        }
    }

    /// The words of Redis 6.2 and 7.0, and of 7.2 and Valkey.
    #[test]
    fn who_may_not_touch_a_session_is_told_the_rule_of_its_keys() {
        let remedy = |message: &str| {
            of_session(WireError::server("NOPERM", message), "lk:s:{0}").remedy().map(str::to_owned)
        };
        let keys = [
            "this user has no permissions to access one of the keys used as arguments",
            "No permissions to access a key",
        ];
        for message in keys {
            assert!(remedy(message).is_some_and(|remedy| remedy.contains("~lk:s:{*")), "{message}");
        }
        let command = "this user has no permissions to run the 'evalsha' command";
        assert_eq!(remedy(command).as_deref(), Some(SHOWN_RIGHTS));
    }

    /// A server without a password answers so to clients of other machines, to each in place of the
    /// handshake.
    #[test]
    fn a_server_in_protected_mode_is_no_bug_of_lockkeeper() {
        let said = "Redis is running in protected mode because protected mode is enabled and no \
                    password is set for the default user.";
        let error = of(WireError::server("DENIED", said));
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Denied, Effect::None), "{error}");
    }

    #[test]
    fn a_lack_of_rights_is_no_outage() {
        assert_eq!(server("NOPERM").kind(), ErrorKind::Denied);
        assert_eq!(server("READONLY").kind(), ErrorKind::Unavailable);
        assert!(server("READONLY").remedy().is_some());
    }
}
