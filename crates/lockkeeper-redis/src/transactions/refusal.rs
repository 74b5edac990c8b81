//! Why a transaction was not done, in our words.

use super::super::fault;
use super::watched::Stage;
use crate::wire::WireError;
use crate::{Error, ErrorKind};

impl Stage {
    /// An error of this connection, before anything was changed.
    pub(super) fn refused(&self, error: WireError) -> Error {
        if self.store.0.servers.note_redirect(self.slot, &self.link, &error) {
            return refused(error).without_effect();
        }
        several_slots(format!("a command is about a key of another slot of the Cluster ({error})"))
    }
}

/// The error about keys or commands of several slots.
fn several_slots(problem: String) -> Error {
    Error::invalid(problem)
        .with_remedy("keys with the same hash tag in braces, as {stock}:42 and {stock}:43")
}

/// The commands are the caller's, so a refusal of the server is no bug of lockkeeper.
fn refused(error: WireError) -> Error {
    let said = format!("the server says {error}");
    if error.is("CROSSSLOT") {
        return several_slots(said);
    }
    if error.is("NOPERM") {
        return Error::new(ErrorKind::Denied, said)
            .with_remedy("a user with +watch +unwatch +multi +exec, and the commands and keys of the transaction");
    }
    let is_about_a_command = error.is("ERR") || error.is("NOSCRIPT") || error.is("WRONGTYPE");
    let known = fault::of(error);
    if is_about_a_command || known.kind() == ErrorKind::Internal {
        return Error::invalid(said).with_remedy(
            "a command that the server knows, with arguments that fit it and its key",
        );
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockkeeper_core::Effect;

    #[test]
    fn what_the_server_refuses_of_the_callers_is_reported_to_the_caller() {
        for (code, kind) in [
            ("ERR", ErrorKind::Invalid),
            ("WRONGTYPE", ErrorKind::Invalid),
            ("NOSCRIPT", ErrorKind::Invalid),
            ("EXECABORT", ErrorKind::Invalid),
            ("CROSSSLOT", ErrorKind::Invalid),
            ("NOPERM", ErrorKind::Denied),
            ("NOAUTH", ErrorKind::Denied),
            ("READONLY", ErrorKind::Unavailable),
            ("LOADING", ErrorKind::Unavailable),
            ("TRYAGAIN", ErrorKind::Unavailable),
            ("MOVED", ErrorKind::Unavailable),
            ("OOM", ErrorKind::Unavailable),
        ] {
            let error = refused(WireError::server(code, "said so"));
            assert_eq!(error.kind(), kind, "{code}");
            assert!(error.remedy().is_some() && error.effect() == Effect::None, "{error}");
        }
    }
}
