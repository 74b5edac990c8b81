//! The errors of connections and servers, in the words of the store.

use crate::checks::{self, SHOWN_RIGHTS};
use crate::net::{OF_AUTHORITY, OTHER_NAME, UNFIT, UNKNOWN_SIGNER, WANTS_CERTIFICATE};
use crate::wire::{
    FORGETFUL, HALF_WAY, IS_SENTINEL, LACKING, LACKS, NO_SERVER, Who, WireError, is_unknown_command,
};
use crate::{Error, ErrorKind};

/// The error of a request, with what is known about its effect.
pub fn of(error: WireError) -> Error {
    explained(error, |_, _| None)
}

/// The same for a store that explains some refusals better, those about its data. `own` gets the
/// code and the message of the server.
pub fn explained(error: WireError, own: impl FnOnce(&str, &str) -> Option<Error>) -> Error {
    match error {
        WireError::NotSent(why) => {
            let remedy = remedy_of(&why);
            Error::new(ErrorKind::Unavailable, why).with_remedy(remedy)
        }
        WireError::Broken(why) => Error::new(ErrorKind::Unavailable, why).with_unknown_effect(),
        WireError::Server { code, message, by } => {
            own(&code, &message).unwrap_or_else(|| refused(&code, &message, by.as_ref()))
        }
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

/// The server has answered with an error. The codes that are known here come before any change: a
/// script tries every command that may be refused before it changes anything (`lua/write.lua`).
fn refused(code: &str, message: &str, by: Option<&Who>) -> Error {
    let who = by.map_or_else(|| "the server".to_owned(), Who::to_string);
    let is_sentinel = matches!(by, Some(Who::Sentinel(_)));
    let short = short(message);
    let said = match code {
        // The rest of the message is about HELLO.
        "NOAUTH" => format!("{who} asks for a password (NOAUTH)"),
        _ => format!("{who} says {code} {short}"),
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
        "ERR" if message.starts_with("Unknown Redis command") => denied(SHOWN_RIGHTS),
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
        // A script that fails half-way has done the first half.
        _ => Error::new(ErrorKind::Internal, format!("{who} says {code} {message}"))
            .with_unknown_effect()
            .with_remedy("a report of this bug"),
    }
}

/// The error about a value of another program in the place of a store's id, under this key.
pub fn foreign_id(key: &str, what: &str) -> Error {
    let problem = format!("the key {key} holds something that lockkeeper has not written: {what}");
    Error::new(ErrorKind::Unsupported, problem).with_remedy(format!(
        "redis-cli RENAME '{key}' to another name, or another database for lockkeeper"
    ))
}

/// The message of a server without the place in the script, which does not help a user.
pub fn short(message: &str) -> &str {
    let (short, _) = message.split_once(" script: ").unwrap_or((message, ""));
    short.trim_end_matches('.')
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
