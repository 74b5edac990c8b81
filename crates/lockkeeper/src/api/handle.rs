//! The handle of a detached lock: one line of text with which a process can renew or release the
//! lock.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::engine::Hold;
use crate::store::{ClaimId, ClaimKey, SessionId, SessionSpec};
use crate::{Error, FencingToken, LockName, Mode};

/// The version of the format.
const PREFIX: &str = "lkh1.";

/// The handle of a lock that outlives the process that acquired it, from
/// [`Acquire::detached`](crate::Acquire::detached). [`Keeper::adopt`](crate::Keeper::adopt) makes a
/// guard from the handle.
///
/// A handle does nothing by itself. Dropping it leaves the lock taken until the life of the lock
/// ends.
///
/// **A handle is a secret.** Every process with the handle can release the lock.
/// [`expose`](Self::expose) or serialization gives the text, and `parse` reads it. Write the text
/// only to a place that only its users can read. `Debug` shows neither the id of the claim nor the
/// session, and there is no `Display`. The text is one line without blanks: `lkh1.` and the
/// base64url of a JSON object.
#[derive(Clone)]
#[must_use = "without its handle the lock stays taken until its life ends"]
pub struct Handle {
    store: String,
    key: ClaimKey,
    token: FencingToken,
    mode: Mode,
    ttl: Duration,
    lock_delay: Duration,
}

impl Handle {
    pub(crate) fn new(
        full: LockName,
        hold: &Hold,
        store: String,
        token: FencingToken,
        mode: Mode,
    ) -> Self {
        let (ttl, lock_delay) = (hold.ttl(), hold.session.spec.lock_delay);
        let key = ClaimKey { name: full, ..hold.key.clone() };
        Self { store, key, token, mode, ttl, lock_delay }
    }

    /// The name of the lock in the store, with the prefix of the keeper that acquired it.
    pub fn full_name(&self) -> &LockName {
        &self.key.name
    }

    /// The fencing token of the grant.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// The mode in which the lock is held.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The store that keeps the lock, without secrets.
    pub fn store(&self) -> &str {
        &self.store
    }

    /// How long the lock lives after its grant, and after each renewal.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The text of the handle, for the one place that keeps it.
    pub fn expose(&self) -> String {
        let fields = Fields {
            store: Cow::Borrowed(&self.store),
            name: Cow::Borrowed(self.key.name.as_str()),
            session: Cow::Borrowed(self.key.session.as_str()),
            id: HEXLOWER.encode(self.key.id.as_bytes()),
            token: self.token,
            mode: self.mode,
            ttl_ms: millis(self.ttl),
            lock_delay_ms: millis(self.lock_delay),
        };
        // Strings and numbers always serialise.
        let json = serde_json::to_vec(&fields).unwrap_or_default();
        format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&json))
    }

    pub(crate) fn key(&self) -> ClaimKey {
        self.key.clone()
    }

    pub(crate) fn spec(&self) -> SessionSpec {
        let mut spec = SessionSpec::new(self.ttl, self.lock_delay);
        spec.detached = true;
        spec
    }
}

/// The JSON object. This version refuses a field of a later version instead of ignoring it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    store: Cow<'a, str>,
    name: Cow<'a, str>,
    session: Cow<'a, str>,
    id: String,
    token: FencingToken,
    #[serde(with = "code", default = "exclusive", skip_serializing_if = "is_exclusive")]
    mode: Mode,
    ttl_ms: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    lock_delay_ms: u64,
}

fn exclusive() -> Mode {
    Mode::Exclusive
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_exclusive(mode: &Mode) -> bool {
    *mode == Mode::Exclusive
}

/// A mode, in the form of a sequencer.
mod code {
    use std::borrow::Cow;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::Mode;

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
    pub(super) fn serialize<S: Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&mode.code())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Mode, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Mode::of_code(&text).ok_or_else(|| D::Error::custom("no mode"))
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(ms: &u64) -> bool {
    *ms == 0
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

impl FromStr for Handle {
    type Err = Error;

    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for any other text. The error does not repeat the
    /// text.
    fn from_str(text: &str) -> Result<Self, Error> {
        read(text).ok_or_else(|| {
            Error::invalid("this is not a handle")
                .with_remedy(format!("the whole line that begins with {PREFIX}"))
        })
    }
}

fn read(text: &str) -> Option<Handle> {
    let json = BASE64URL_NOPAD.decode(text.strip_prefix(PREFIX)?.as_bytes()).ok()?;
    let fields: Fields<'_> = serde_json::from_slice(&json).ok()?;
    let id = HEXLOWER.decode(fields.id.as_bytes()).ok()?.try_into().ok()?;
    let session = SessionId::new(fields.session.into_owned());
    let key =
        ClaimKey { name: LockName::new(&fields.name).ok()?, session, id: ClaimId::from_bytes(id) };
    let (ttl, lock_delay) =
        (Duration::from_millis(fields.ttl_ms), Duration::from_millis(fields.lock_delay_ms));
    if ttl.is_zero() {
        return None;
    }
    Some(Handle {
        store: fields.store.into_owned(),
        key,
        token: fields.token,
        mode: fields.mode,
        ttl,
        lock_delay,
    })
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, key, token, .. } = self;
        f.debug_struct("Handle")
            .field("name", &key.name)
            .field("token", token)
            .field("store", store)
            .finish_non_exhaustive()
    }
}

impl Serialize for Handle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.expose())
    }
}

impl<'de> Deserialize<'de> for Handle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(lock_delay: Duration) -> Handle {
        let (name, session) = ("db/é \"x\"".parse().unwrap(), SessionId::new("top-secret"));
        let key = ClaimKey { name, session, id: ClaimId::from_bytes([0xab; 16]) };
        let token = "1763705000000123".parse().unwrap();
        let (mode, ttl) = (Mode::Exclusive, Duration::from_secs(600));
        Handle { store: "file:/var/lib/locks.db".into(), key, token, mode, ttl, lock_delay }
    }

    fn written(json: &str) -> String {
        format!("{PREFIX}{}", BASE64URL_NOPAD.encode(json.as_bytes()))
    }

    #[test]
    fn the_text_is_the_one_that_is_documented() {
        let json = r#"{"store":"file:/var/lib/locks.db","name":"db/é \"x\"","session":"top-secret","id":"abababababababababababababababab","token":"1763705000000123","ttl_ms":600000}"#;
        assert_eq!(handle(Duration::ZERO).expose(), written(json));
        assert!(!written(json).contains(char::is_whitespace));
    }

    #[test]
    fn what_is_written_is_read() {
        for (lock_delay_ms, mode) in
            [(0, Mode::Exclusive), (1500, Mode::Shared), (1, Mode::Permits(3))]
        {
            let lock_delay = Duration::from_millis(lock_delay_ms);
            let handle = Handle { mode, ..handle(lock_delay) };
            let read: Handle = handle.expose().parse().unwrap();
            assert_eq!(read.key, handle.key);
            assert_eq!(
                (read.store(), read.token(), read.ttl()),
                (handle.store(), handle.token(), handle.ttl())
            );
            assert_eq!((read.lock_delay, read.mode()), (lock_delay, mode));
            let json = serde_json::to_string(&handle).unwrap();
            assert_eq!(serde_json::from_str::<Handle>(&json).unwrap().expose(), handle.expose());
        }
    }

    #[test]
    fn what_is_no_handle_is_refused_and_not_repeated() {
        let good = r#"{"store":"s","name":"n","session":"hush","id":"abababababababababababababababab","token":"7","ttl_ms":1}"#;
        assert!(written(good).parse::<Handle>().is_ok());
        let texts = [
            String::new(),
            "lkh1.".to_owned(),
            "lkh1.hush".to_owned(),
            written(good).replace("lkh1", "lkh2"),
            written(good)[..60].to_owned(),
            format!("{}\n", written(good)),
            written(&good.replace("ttl_ms\":1", "ttl_ms\":0")),
            written(&good.replace("\"7\"", "\"0\"")),
            written(&good.replace("abab", "ab")),
            written(&good.replace("\"n\"", "\"\"")),
            written(&good.replace("ttl_ms", "ttl")),
            written(&good.replace("\"ttl_ms\"", "\"mode\":\"p0\",\"ttl_ms\"")),
            written(&good.replace("\"ttl_ms\"", "\"mode\":\"shared\",\"ttl_ms\"")),
        ];
        for text in texts {
            let error = text.parse::<Handle>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Invalid, "{text:?}");
            assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
        }
    }

    #[test]
    fn neither_its_id_nor_its_session_is_shown() {
        let shown = format!("{:?} {:#?}", handle(Duration::ZERO), handle(Duration::ZERO));
        assert!(
            !shown.contains("abab") && !shown.contains("secret") && !shown.contains("lkh1"),
            "{shown}"
        );
        assert!(
            shown.contains("1763705000000123") && shown.contains("file:/var/lib/locks.db"),
            "{shown}"
        );
    }
}
