//! The keys of the store.
//!
//! Native: `<prefix>/.lock/<encoded name>/<lease>-<slot>`. Concurrency: `<name>/<lease>-<slot>`, as
//! Go has it but for the slot, without which two claims of one lease would be the same contender.
//! Order is that of the revisions in which keys were created.
//!
//! Native: etcd is asked for the last few keys of a line, and decides by them. So nothing else may
//! lie there: no encoded name begins with a dot, and no prefix has a part that is one of `OWN`.
//! Every key of a native line is a contender. Claims use a slot one after the other: etcd remembers
//! every key that there ever was until it is compacted, and walks over them whenever it looks at
//! the line. A claim that another process may have to find has its id for a slot.

use bytes::Bytes;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::Layout;
use super::session::lease_of;
use crate::store::{ClaimId, ClaimKey, SessionId};
use crate::wire::messages::RangeRequest;
use crate::{Error, LockName, Result, name};

/// The default prefix of the native layout.
const PREFIX: &str = "/lockkeeper";
/// The parts of keys that no other key may have.
const OWN: [&str; 8] =
    [LOCK, ".layout", ".gone", ".notify", ".register", ".id", ".session", ".ended"];
/// The beginning of the encoded form of a name that is too long for a key.
const HASHED: &str = "h.";
/// Below it are the lines of the native layout.
const LOCK: &str = ".lock";

/// A key, as one revision created it. The claims of a session use a key slot one after the other,
/// so a key alone does not name a claim; the key and its create revision do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Incarnation {
    pub(crate) key: Bytes,
    /// The revision that created the key; 0 if that is not known.
    pub(crate) created: i64,
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first key.
    pub(crate) from: Bytes,
    /// The end, which is not part of the range; empty for one key.
    pub(crate) to: Bytes,
}

impl Span {
    /// One key.
    pub(crate) fn one(key: &Bytes) -> Self {
        Self { from: key.clone(), to: Bytes::new() }
    }

    /// The whole line in which this key is.
    pub(crate) fn line_of(key: &Bytes) -> Self {
        let end = key.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let mut behind = key[..end].to_vec();
        if let Some(last) = behind.last_mut() {
            *last += 1;
        }
        Self { from: key.slice(..end), to: behind.into() }
    }

    /// All of them.
    pub(crate) fn all(self) -> RangeRequest {
        RangeRequest { key: self.from, range_end: self.to, ..RangeRequest::default() }
    }

    /// Every key that begins with this folder, which ends with a slash.
    fn under(folder: String) -> Self {
        let mut end = folder.clone().into_bytes();
        if let Some(last) = end.last_mut() {
            // A slash is followed by a zero.
            *last += 1;
        }
        Self { from: folder.into(), to: end.into() }
    }
}

/// What a key below a detached session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionPart {
    /// A lease beside the first one, for those who hold or for those who wait.
    Lease { id: i64, holds: bool },
    /// Says that a client has missed a claim in its list.
    Missed,
}

/// A claim that a client has missed in its list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missed {
    /// What says so.
    pub(crate) key: Bytes,
    /// The revision in which it was said.
    pub(crate) created: i64,
    /// The key of the claim.
    pub(crate) claim: Bytes,
}

/// Where a store keeps its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) layout: Layout,
    /// Before every name; ends without a slash.
    prefix: String,
}

impl Lines {
    /// Lines under this prefix; `None` for what is usual.
    pub(crate) fn new(layout: Layout, prefix: Option<&str>) -> Self {
        let usual = if layout == Layout::Native { PREFIX } else { "" };
        let prefix =
            prefix.map(|prefix| prefix.trim_end_matches('/')).filter(|prefix| !prefix.is_empty());
        Self { layout, prefix: prefix.unwrap_or(usual).to_owned() }
    }

    /// Refuses a prefix below which keys of another store could be in a line.
    ///
    /// # Errors
    /// `Invalid` for one with a part that is one of our own.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(part) = part_of_ours(&self.prefix) else { return Ok(()) };
        Err(Error::invalid(format!(
            "{:?} cannot be what keys begin with: {part} is lockkeeper's own",
            self.prefix
        ))
        .with_remedy(format!("a path without {part}")))
    }

    /// Refuses a name whose keys would be among the keys of another layout.
    ///
    /// # Errors
    /// `Invalid` for one with a part that is one of our own, where names are not encoded.
    pub(crate) fn check_name(&self, name: &LockName) -> Result<()> {
        let part =
            (self.layout == Layout::Concurrency).then(|| part_of_ours(name.as_str())).flatten();
        let Some(part) = part else { return Ok(()) };
        Err(Error::invalid(format!(
            "{part} in the name of a lock is lockkeeper's own in layout=concurrency"
        ))
        .about(name.clone())
        .with_remedy(format!("a name without {part}")))
    }

    /// The prefix, if it is not the usual one.
    pub(crate) fn prefix(&self) -> Option<&str> {
        (self.prefix != PREFIX && !self.prefix.is_empty()).then_some(&self.prefix)
    }

    /// The line of a name.
    pub(crate) fn of(&self, name: &LockName) -> Span {
        Span::under(self.folder(name))
    }

    /// The key of a claim that has its own slot.
    pub(crate) fn claim(&self, key: &ClaimKey) -> Bytes {
        let (folder, id) = (self.folder(&key.name), HEXLOWER.encode(key.id.as_bytes()));
        format!("{folder}{:x}-{id}", lease_of(&key.session)).into()
    }

    /// The key of a claim in this slot of its session.
    pub(crate) fn slot(&self, key: &ClaimKey, slot: u32) -> Bytes {
        format!("{}{:x}-{slot}", self.folder(&key.name), lease_of(&key.session)).into()
    }

    /// Whether a key is a claim of lockkeeper: a slot of a lease.
    pub(crate) fn is_claim(&self, key: &[u8]) -> bool {
        let last = key.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        self.name_in(key).is_some() && last.contains(&b'-')
    }

    /// Whether a key under the folder of a name is a contender for that name, and not for a longer
    /// name. In the native layout every key is one, even if an operator has put it there: reads of
    /// the last few keys would miss a claim if a key were skipped. In the other layout, the line
    /// may also have the own keys of a store whose path is the name.
    pub(crate) fn contends(&self, line: &Span, key: &[u8]) -> bool {
        let rest = key.strip_prefix(&*line.from);
        rest.is_some_and(|rest| {
            self.layout == Layout::Native || !(rest.contains(&b'/') || is_ours(rest))
        })
    }

    /// Says which layout the claims of this prefix have.
    pub(crate) fn marker(&self) -> Bytes {
        format!("{}/.layout", self.prefix).into()
    }

    /// All keys of the prefix. The claims of the first layout are among them: `<prefix>/<encoded
    /// name>/<lease>-<slot>`.
    pub(crate) fn everything(&self) -> Span {
        Span::under(format!("{}/", self.prefix))
    }

    /// Whether a key is where the first layout had a claim.
    pub(crate) fn is_old_claim(&self, key: &[u8]) -> bool {
        let Some(rest) =
            key.strip_prefix(self.prefix.as_bytes()).and_then(|rest| rest.strip_prefix(b"/"))
        else {
            return false;
        };
        let mut parts = rest.split(|byte| *byte == b'/');
        let (name, claim, more) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        !name.is_empty()
            && !name.starts_with(b".")
            && more.is_none()
            && claim.is_some_and(is_claim_part)
    }

    /// Whether a key of a native line is no claim.
    pub(crate) fn is_stray(&self, key: &[u8], lease: i64) -> bool {
        let line = self.beginning_with("");
        let Some(rest) = key.strip_prefix(&*line.from) else { return false };
        let mut parts = rest.split(|byte| *byte == b'/').skip(1);
        let is_claim = parts.next().is_some_and(is_claim_part) && parts.next().is_none();
        self.layout == Layout::Native && (lease == 0 || !is_claim)
    }

    /// The tombstone of an id.
    pub(crate) fn gone(&self, id: ClaimId) -> Bytes {
        format!("{}/.gone/{}", self.own(), HEXLOWER.encode(id.as_bytes())).into()
    }

    /// What a detached session says of itself, on its first lease.
    pub(crate) fn session(&self, id: &SessionId) -> Bytes {
        format!("{}/.session/{:x}", self.own(), lease_of(id)).into()
    }

    /// All keys of a detached session but its claims.
    pub(crate) fn of_session(&self, id: &SessionId) -> Span {
        // What comes behind the slash.
        Span {
            from: self.session(id),
            to: format!("{}/.session/{:x}0", self.own(), lease_of(id)).into(),
        }
    }

    /// Shows the clients of a detached session a lease of it, which the key is on.
    pub(crate) fn session_lease(&self, id: &SessionId, lease: i64, holds: bool) -> Bytes {
        let purpose = if holds { "hold" } else { "wait" };
        format!("{}/.session/{:x}/{purpose}-{lease:x}", self.own(), lease_of(id)).into()
    }

    /// Says that a client of a detached session has missed this claim in its list.
    pub(crate) fn missed(&self, id: &SessionId, claim: &Bytes) -> Bytes {
        let hash = HEXLOWER.encode(&Sha256::digest(claim)[..16]);
        format!("{}/.session/{:x}/missed-{hash}", self.own(), lease_of(id)).into()
    }

    /// What a key below a detached session is.
    pub(crate) fn part_of_session(&self, id: &SessionId, key: &Bytes) -> Option<SessionPart> {
        let part = key.strip_prefix(&*self.session(id))?.strip_prefix(b"/")?;
        let part = std::str::from_utf8(part).ok()?;
        if part.starts_with("missed-") {
            return Some(SessionPart::Missed);
        }
        let holds = part.starts_with("hold-");
        let lease = part.strip_prefix("hold-").or_else(|| part.strip_prefix("wait-"))?;
        Some(SessionPart::Lease { id: i64::from_str_radix(lease, 16).ok()?, holds })
    }

    /// Whether a key on the first lease of a session is one of that session: itself, or a claim of
    /// it.
    pub(crate) fn is_of_session(&self, id: &SessionId, key: &Bytes) -> bool {
        let last = key.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let slot = format!("{:x}-", lease_of(id));
        let is_claim = || self.name_in(key).is_some() && last.starts_with(slot.as_bytes());
        *key == self.session(id) || self.part_of_session(id, key).is_some() || is_claim()
    }

    /// Says that a session was closed, while it is there.
    pub(crate) fn ended(&self, id: &SessionId) -> Bytes {
        format!("{}/.ended/{:x}", self.own(), lease_of(id)).into()
    }

    /// The notification key of a client: an operator's change to a claim of the client is reported
    /// there.
    pub(crate) fn notice(&self, client: &str) -> Bytes {
        format!("{}/.notify/{client}", self.own()).into()
    }

    /// Where the holder of a claim is asked to let go.
    pub(crate) fn request(&self, client: &str, id: &str) -> Bytes {
        format!("{}/.notify/{client}/{id}", self.own()).into()
    }

    /// All notification keys of a client.
    pub(crate) fn notices(&self, client: &str) -> Span {
        // What comes behind the slash.
        Span { from: self.notice(client), to: format!("{}/.notify/{client}0", self.own()).into() }
    }

    /// Where a register is.
    pub(crate) fn register(&self, key: &str) -> Bytes {
        format!("{}/.register/{}", self.own(), name::encode(key)).into()
    }

    /// Where the id of the store is.
    pub(crate) fn id(&self) -> Bytes {
        format!("{}/.id", self.own()).into()
    }

    /// Distinguishes these lines from others whose id is at the same place.
    pub(crate) fn part(&self) -> Option<String> {
        (self.layout == Layout::Concurrency).then(|| format!("concurrency {}", self.prefix))
    }

    /// Every key that may be in a line whose name begins with this, in spans that have no key in
    /// common.
    pub(crate) fn spans(&self, text: &str) -> Vec<Span> {
        // What a name is encoded as depends on dots at its end.
        let stable = name::encode(text.trim_end_matches('.'));
        if self.layout == Layout::Concurrency || stable.is_empty() {
            return vec![self.beginning_with(text)];
        }
        // A name that is too long for a key distinguishes nothing there.
        let beginnings = if stable.starts_with(HASHED) || HASHED.starts_with(&stable) {
            vec!["h"]
        } else {
            vec![&*stable, HASHED]
        };
        let span = |beginning: &str| {
            let from = format!("{}/{LOCK}/{beginning}", self.prefix).into_bytes();
            // UTF-8 has no 0xff.
            let to = [&from[..], &[0xff]].concat();
            Span { from: from.into(), to: to.into() }
        };
        beginnings.into_iter().map(span).collect()
    }

    /// Every key that may be in a line whose name begins with this.
    pub(crate) fn beginning_with(&self, text: &str) -> Span {
        match self.layout {
            // What a name is encoded as depends on its end.
            Layout::Native => Span::under(format!("{}/{LOCK}/", self.prefix)),
            Layout::Concurrency if self.prefix.is_empty() && text.is_empty() => {
                Span { from: Bytes::from_static(b"\0"), to: Bytes::from_static(b"\0") }
            }
            Layout::Concurrency => {
                let from = if self.prefix.is_empty() {
                    text.to_owned()
                } else {
                    format!("{}/{text}", self.prefix)
                };
                let mut to = from.clone().into_bytes();
                // UTF-8 has no 0xff.
                to.push(0xff);
                Span { from: from.into(), to: to.into() }
            }
        }
    }

    /// With what all keys begin that are read or written for names that begin with this: the rights
    /// that a user needs.
    pub(crate) fn beginnings(&self, text: &str) -> Vec<String> {
        let lines = match self.layout {
            Layout::Native => return vec![format!("{}/", self.prefix)],
            Layout::Concurrency if self.prefix.is_empty() => text.to_owned(),
            Layout::Concurrency => format!("{}/{text}", self.prefix),
        };
        // An empty one is that of all keys.
        if lines.is_empty() { vec![lines] } else { vec![lines, format!("{PREFIX}/.")] }
    }

    /// The name of the line in which this key is, encoded as it stands there.
    pub(crate) fn name_in<'a>(&self, key: &'a [u8]) -> Option<&'a str> {
        let rest = match self.prefix.as_str() {
            "" => key,
            prefix => key.strip_prefix(prefix.as_bytes())?.strip_prefix(b"/")?,
        };
        let name = match self.layout {
            Layout::Native => {
                let rest = rest.strip_prefix(LOCK.as_bytes())?.strip_prefix(b"/")?;
                &rest[..rest.iter().position(|byte| *byte == b'/')?]
            }
            Layout::Concurrency => &rest[..rest.iter().rposition(|byte| *byte == b'/')?],
        };
        std::str::from_utf8(name)
            .ok()
            .filter(|name| !name.is_empty() && part_of_ours(name).is_none())
    }

    fn folder(&self, name: &LockName) -> String {
        match self.layout {
            Layout::Native => format!("{}/{LOCK}/{}/", self.prefix, name.encoded()),
            Layout::Concurrency if self.prefix.is_empty() => format!("{name}/"),
            Layout::Concurrency => format!("{}/{name}/", self.prefix),
        }
    }

    /// Where we keep what others do not know.
    fn own(&self) -> &str {
        match self.layout {
            Layout::Native => &self.prefix,
            Layout::Concurrency => PREFIX,
        }
    }
}

/// The part of this text, between slashes, that is lockkeeper's own.
fn part_of_ours(text: &str) -> Option<&'static str> {
    text.split('/').find_map(|part| OWN.into_iter().find(|own| *own == part))
}

fn is_ours(part: &[u8]) -> bool {
    OWN.into_iter().any(|own| own.as_bytes() == part)
}

/// `<lease>-<slot>`
fn is_claim_part(part: &[u8]) -> bool {
    let mut halves = part.splitn(2, |byte| *byte == b'-');
    let mut is_hex = || {
        halves.next().is_some_and(|half| !half.is_empty() && half.iter().all(u8::is_ascii_hexdigit))
    };
    is_hex() && is_hex()
}
