//! The errors of connections and of etcd, as errors of the library.

use tonic::Code;

use crate::net::{OF_AUTHORITY, OTHER_NAME, UNFIT, UNKNOWN_SIGNER, WANTS_CERTIFICATE};
use crate::wire::{Cut, OLD_TOKEN, OLD_TOKEN_ITSELF, WireError};
use crate::{Error, ErrorKind, sessions};

/// The error of a request, with what is known of its effect.
pub(super) fn of(error: WireError) -> Error {
    match error {
        WireError::NotSent(cut) => {
            let remedy = remedy_of(&cut);
            Error::new(ErrorKind::Unavailable, cut.why).with_remedy(remedy)
        }
        WireError::Broken(cut) => {
            let remedy = remedy_of_broken(&cut);
            Error::new(ErrorKind::Unavailable, cut.why).with_unknown_effect().with_remedy(remedy)
        }
        WireError::Refused { code, message } => refused(code, &message),
    }
}

/// An error of a request that puts a key on a lease. etcd refuses such a request as a whole if the
/// lease has ended: the session is lost.
pub(super) fn of_a_put(error: WireError) -> Error {
    match error.is_no_lease() {
        true => sessions::lost(),
        false => of(error),
    }
}

/// The claim was changed again and again between a read and the transaction that depends on it.
pub(super) fn always_changes() -> Error {
    Error::new(ErrorKind::Unavailable, "others change this claim all the time")
        .with_remedy("again in a moment")
}

/// The claim is not there, and the answer to another claim, which may have deleted it, was lost.
pub(super) fn lost_with_a_claim() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the answer of etcd that shows what ended the claim was lost",
    )
    .with_unknown_effect()
    .with_remedy("again in a moment")
}

/// The store's runtime has ended in the middle of a request.
pub(super) fn ended() -> Error {
    Error::new(ErrorKind::Closed, "the runtime in which the store was connected has ended")
        .with_unknown_effect()
        .with_remedy("connect in a runtime that lives as long as the store")
}

/// The remedy where only the way to the member, or the member, can be at fault.
const OUTAGE: &str = "lockkeeper doctor, or a look whether etcd runs";

/// The remedy if there is no connection. The words are from `net` and from the system. A member
/// that has answered may have another certificate since, but the URL fits it.
fn remedy_of(cut: &Cut) -> &'static str {
    let says = |words: &str| cut.why.contains(words);
    match () {
        () if says(WANTS_CERTIFICATE) => {
            "cert=FILE and key=FILE in the URL: etcd asks for a certificate"
        }
        () if says(UNKNOWN_SIGNER) => "ca=FILE in the URL: who has signed etcd's certificate",
        () if says(OTHER_NAME) => "server-name=NAME in the URL: a name that is in the certificate",
        () if says(OF_AUTHORITY) => "a server certificate that is not a CA",
        () if says(UNFIT) => "another certificate of etcd",
        () if cut.has_answered => OUTAGE,
        () if says("TLS failed") => "etcd:// instead of etcds://, if etcd has no TLS",
        () if says("its name was not found") => "another host name",
        () => OUTAGE,
    }
}

/// The remedy if the connection could not be used. The words are from the HTTP/2 library.
fn remedy_of_broken(cut: &Cut) -> &'static str {
    let says = |words: &str| cut.why.contains(words);
    let is_closed = says("broken pipe") || says("connection closed");
    match () {
        () if cut.has_answered && (is_closed || says("frame with invalid size")) => OUTAGE,
        () if says("frame with invalid size") => {
            "the port of etcd for clients, 2379 as a rule; etcds:// instead of etcd://, if it has TLS"
        }
        () if is_closed => {
            "etcds:// instead of etcd://, if etcd has TLS; cert=FILE and key=FILE in the URL, if it asks for a \
             certificate; or a look whether etcd runs"
        }
        () => "lockkeeper doctor, or a look whether a majority of the members runs",
    }
}

/// An error that etcd has answered.
fn refused(code: Code, message: &str) -> Error {
    let words = message.strip_prefix("etcdserver: ").unwrap_or(message);
    let said = format!("etcd says: {words}");
    let says = |text: &str| words.contains(text);
    let denied = |remedy: &str| Error::new(ErrorKind::Denied, said.clone()).with_remedy(remedy);
    let not_now =
        |remedy: &str| Error::new(ErrorKind::Unavailable, said.clone()).with_remedy(remedy);
    match code {
        _ if says("user name is empty") || says("user name not found") => {
            denied("a user in the URL, and LOCKKEEPER_PASSWORD")
        }
        _ if says("authentication failed") => {
            denied("the right user in the URL, and the right password: LOCKKEEPER_PASSWORD, or in the configuration")
        }
        _ if says("has been compacted") => not_now("again: etcd was compacted in between"),
        // etcd checks the token before it does anything.
        _ if says(OLD_TOKEN) || says(OLD_TOKEN_ITSELF) => not_now("again in a moment: rights are being changed"),
        _ if says("authentication is not enabled") => denied("the URL without a user: etcd asks for none"),
        Code::PermissionDenied => denied("a role with the rights that lockkeeper doctor shows"),
        Code::Unauthenticated => denied("a user in the URL, and LOCKKEEPER_PASSWORD"),
        // etcd processes the request that fills the database all the same.
        Code::ResourceExhausted if says("space exceeded") => {
            not_now("etcdctl compact and defrag, then etcdctl alarm disarm; or a higher --quota-backend-bytes")
                .with_unknown_effect()
        }
        // etcd refuses the request before it does anything.
        Code::ResourceExhausted => not_now("again in a moment"),
        Code::Unimplemented => Error::invalid(format!("{said}: this is no etcd, or one before 3.5"))
            .with_remedy("the client port of etcd, 2379 as a rule"),
        Code::Unavailable => {
            not_now("lockkeeper doctor, or a look whether a majority of the members runs").with_unknown_effect()
        }
        _ => Error::new(ErrorKind::Internal, said).with_unknown_effect().with_remedy("a report of this bug"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Effect;

    fn error_of(code: Code, message: &str) -> Error {
        of(WireError::Refused { code, message: message.to_owned() })
    }

    #[test]
    fn only_what_cannot_have_been_done_is_without_effect() {
        assert_eq!(of(WireError::not_sent("no connection")).effect(), Effect::None);
        assert_eq!(of(WireError::broken("cut")).effect(), Effect::Unknown);
        assert_eq!(
            error_of(Code::Unavailable, "etcdserver: request timed out").effect(),
            Effect::Unknown
        );
        assert_eq!(
            error_of(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded").effect(),
            Effect::Unknown
        );
        assert_eq!(
            error_of(Code::ResourceExhausted, "etcdserver: too many requests").effect(),
            Effect::None
        );
        assert_eq!(error_of(Code::Internal, "x").effect(), Effect::Unknown);
        let old = "etcdserver: revision of auth store is old";
        assert_eq!(error_of(Code::InvalidArgument, old).effect(), Effect::None);
    }

    #[test]
    fn a_certificate_that_is_no_server_certificate_is_no_reason_to_skip_tls() {
        for (why, remedy) in [
            (OF_AUTHORITY, "a server certificate that is not a CA"),
            (UNFIT, "another certificate of etcd"),
        ] {
            let error = of(WireError::not_sent(format!(
                "h:1 cannot be reached: TLS failed: {why}: and so on"
            )));
            assert_eq!(error.remedy(), Some(remedy), "{error}");
        }
    }

    /// A connection that has worked has shown that the URL is right about TLS.
    #[test]
    fn only_a_first_contact_is_a_reason_to_doubt_the_url() {
        type Make = fn(String) -> WireError;
        let (not_sent, broken): (Make, Make) = (WireError::not_sent, WireError::broken);
        for (make, why, doubt) in [
            (
                not_sent,
                "h:1 cannot be reached: TLS failed: it did not answer",
                "etcd:// instead of",
            ),
            (not_sent, "h:1 cannot be reached: its name was not found: x", "another host name"),
            (broken, "broken pipe", "etcds:// instead of"),
            (broken, "connection closed before message completed", "etcds:// instead of"),
            (broken, "frame with invalid size", "the port of etcd for clients"),
        ] {
            let (first, later) = (of(make(why.into())), of(make(why.into()).after_an_answer()));
            assert!(first.remedy().is_some_and(|shown| shown.starts_with(doubt)), "{first}");
            assert_eq!(later.remedy(), Some(OUTAGE), "{later}");
        }
        let renewed = format!("h:1 cannot be reached: TLS failed: {OTHER_NAME}: and so on");
        let later = of(WireError::not_sent(renewed).after_an_answer());
        assert!(later.remedy().is_some_and(|remedy| remedy.contains("server-name=")), "{later}");
    }

    #[test]
    fn what_a_person_can_mend_is_reported_with_how() {
        for (code, message, kind, remedy) in [
            (
                Code::InvalidArgument,
                "etcdserver: user name is empty",
                ErrorKind::Denied,
                "a user in the URL",
            ),
            (
                Code::InvalidArgument,
                "etcdserver: authentication failed, invalid user",
                ErrorKind::Denied,
                "the right user",
            ),
            (
                Code::FailedPrecondition,
                "etcdserver: authentication is not enabled",
                ErrorKind::Denied,
                "the URL without",
            ),
            (
                Code::InvalidArgument,
                "etcdserver: revision of auth store is old",
                ErrorKind::Unavailable,
                "again in a moment",
            ),
            (Code::PermissionDenied, "etcdserver: permission denied", ErrorKind::Denied, "a role"),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                ErrorKind::Unavailable,
                "etcdctl",
            ),
            (Code::Unimplemented, "unknown service", ErrorKind::Invalid, "the client port"),
        ] {
            let error = error_of(code, message);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.remedy().is_some_and(|shown| shown.starts_with(remedy)), "{error}");
        }
    }
}
