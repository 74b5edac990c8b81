//! The keys of a name on a node.

use data_encoding::HEXLOWER;
use lockkeeper_core::LockName;
use lockkeeper_core::store::ClaimId;

/// How the key of a line begins; the name in its form for stores follows, and a brace.
const OPEN: &str = "lk:r:{";

/// Since when the claims of a node count.
pub(crate) const BORN_KEY: &str = "lk:born";

/// The key of the store's id.
pub(crate) const ID_KEY: &str = "lk:r:id";

/// The line of the lock under which the id is chosen. No lock has this key.
const ID_LINE: &str = "lk:r:id:line";

/// The keys of one name. The servers are no cluster, so the keys need no common slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    line: String,
}

impl Keys {
    pub(crate) fn of(name: &LockName) -> Self {
        Self { line: format!("{OPEN}{}}}", name.encoded()) }
    }

    /// The keys of the lock under which the id of the store is chosen.
    pub(crate) fn of_id() -> Self {
        Self { line: ID_LINE.to_owned() }
    }

    /// The keys of the line whose key `SCAN` has found. A key of another form is no line.
    pub(crate) fn scanned(key: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(key).ok()?;
        let keys = Self { line: line.to_owned() };
        let encoded = line.strip_prefix(OPEN)?.strip_suffix('}')?;
        let is_form_of = |name: &LockName| name.encoded() == encoded;
        (is_hash(encoded) || decoded(encoded).as_ref().is_some_and(is_form_of)).then_some(keys)
    }

    /// The pattern of `SCAN` for all lines.
    pub(crate) fn pattern() -> String {
        format!("{OPEN}*}}")
    }

    /// The name, unless the key holds only its hash.
    pub(crate) fn name(&self) -> Option<LockName> {
        let encoded = self.line.strip_prefix(OPEN)?.strip_suffix('}')?;
        if is_hash(encoded) { None } else { decoded(encoded) }
    }

    pub(crate) fn line(&self) -> &str {
        &self.line
    }

    /// The waiters of the name.
    pub(crate) fn waiters(&self) -> String {
        format!("{}:w", self.line)
    }

    /// The tombstone of this claim.
    pub(crate) fn tombstone(&self, id: &ClaimId) -> String {
        format!("{}:g:{}", self.line, HEXLOWER.encode(id.as_bytes()))
    }
}

/// The channel on which a client learns that it may claim next.
pub(crate) fn channel(client: &str) -> Vec<u8> {
    format!("lk:r:w:{client}").into_bytes()
}

/// Whether this stands for a name that is too long for a key.
fn is_hash(encoded: &str) -> bool {
    let hash = encoded.strip_prefix("h.").map(|hash| hash.as_bytes());
    hash.is_some_and(|hash| {
        data_encoding::BASE32_NOPAD.decode(hash).is_ok_and(|hash| hash.len() == 32)
    })
}

fn decoded(encoded: &str) -> Option<LockName> {
    let name: Vec<u8> = percent_encoding::percent_decode(encoded.as_bytes()).collect();
    LockName::new(std::str::from_utf8(&name).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_name_and_other_keys_have_none() {
        let name: LockName = "stock/42".parse().unwrap();
        let keys = Keys::of(&name);
        assert_eq!(keys.line(), "lk:r:{stock%2F42}");
        assert_eq!(Keys::scanned(keys.line().as_bytes()), Some(keys.clone()));
        assert_eq!(keys.name(), Some(name));
        for other in [keys.waiters().as_str(), "lk:r:{a%2f}", "lk:{a}", "lk:r:{}", "lk:r:{a"] {
            assert_eq!(Keys::scanned(other.as_bytes()), None, "{other}");
        }
    }
}
