//! The commands of a transaction.

use crate::wire::Request;
use crate::{Error, Result};

/// Commands that are about the connection or its transaction, and not about data.
const OF_THE_CONNECTION: &str = "ASKING AUTH CLIENT DISCARD EXEC HELLO MONITOR MULTI PSUBSCRIBE \
    PSYNC PUNSUBSCRIBE QUIT READONLY READWRITE REPLCONF RESET SELECT SSUBSCRIBE SUBSCRIBE \
    SUNSUBSCRIBE SYNC UNSUBSCRIBE UNWATCH WATCH WAIT WAITAOF";

/// The commands of a transaction, which are done together, in this order, or not at all.
///
/// ```
/// use lockkeeper::optimistic::redis::Changes;
///
/// let left = 6;
/// let changes = Changes::none().and(&["SET", "stock:42", &left.to_string()]).and(&["RPUSH", "orders", "42"]);
/// # let _ = changes;
/// ```
#[derive(Clone, Debug)]
#[must_use = "what is not returned is not done"]
pub struct Changes(pub(super) Result<Vec<Request>>);

impl Changes {
    /// No commands. The transaction still makes sure that everything that was read belongs
    /// together.
    pub fn none() -> Self {
        Self(Ok(Vec::new()))
    }

    /// Adds a command: its name, and its arguments. [`run`](super::Transaction::run) reports a
    /// command that cannot be sent.
    pub fn and<A: AsRef<[u8]>>(mut self, command: &[A]) -> Self {
        self.0 = self.0.and_then(|mut requests| {
            requests.push(request(command)?);
            Ok(requests)
        });
        self
    }
}

impl Default for Changes {
    fn default() -> Self {
        Self::none()
    }
}

/// Checks and packs a command of the caller.
pub(super) fn request<A: AsRef<[u8]>>(command: &[A]) -> Result<Request> {
    let parts: Vec<&[u8]> = command.iter().map(AsRef::as_ref).collect();
    let name = parts.first().copied().unwrap_or_default().to_ascii_uppercase();
    if name.is_empty() {
        return Err(Error::invalid("a command without a name")
            .with_remedy("its name first, as in [\"GET\", \"key\"]"));
    }
    match OF_THE_CONNECTION.split(' ').find(|other| other.as_bytes() == name) {
        Some(name) => Err(Error::invalid(format!(
            "{name} is about the connection, which belongs to the transaction"
        ))
        .with_remedy("commands about data; what is to be watched goes to watch()")),
        None => Ok(Request::command(&parts)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn what_is_about_the_connection_is_refused_however_it_is_written() {
        for name in ["EXEC", "unwatch", "Select", "client", ""] {
            let error = request(&[name, "x"]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name}");
            assert!(error.remedy().is_some());
        }
        assert!(request(&[] as &[&str]).is_err());
        assert!(OF_THE_CONNECTION.split(' ').all(|name| request(&[name]).is_err()));
    }

    #[test]
    fn one_bad_command_refuses_all() {
        let good = || Changes::none().and(&["SET", "k", "v"]).and(&[&b"DEL"[..], b"\xff"]);
        assert_eq!(good().0.unwrap().len(), 2);
        assert!(Changes::none().and(&["MULTI"]).and(&["GET", "k"]).0.is_err());
        assert!(good().and(&[""]).0.is_err());
        assert!(Changes::default().0.unwrap().is_empty());
    }
}
