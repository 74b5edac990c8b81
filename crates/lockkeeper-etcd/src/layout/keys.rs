//! The keys of the store.
//!
//! Native: `<prefix>/.lock/<encoded name>/<lease>-<slot>`. Concurrency: `<name>/<lease>-<slot>`, as
//! Go has it but for the slot, without which two claims of one lease would be the same contender.
//! Order is that of the revisions in which keys were created.
//!
//! Native: the store asks etcd for the last few keys of a line, and decides by them. So no other
//! key may be in a line: no encoded name begins with a dot, and no prefix has a part of `OWN`.
//! Every key of a native line is a contender. Claims use a slot one after the other: until etcd is
//! compacted, it remembers every key that a line ever had, and walks over these keys whenever it
//! reads the line. A claim that another process may have to find has its id for a slot.

use bytes::Bytes;
use data_encoding::HEXLOWER;

use super::Layout;
use super::session::lease_of;
use super::span::Span;
use crate::store::{ClaimId, ClaimKey, SessionId};
use crate::{Error, LockName, Result, name};

/// The default prefix of the native layout.
const PREFIX: &str = "/lockkeeper";
/// The parts of keys that no other key may have.
const OWN: [&str; 8] =
    [LOCK, ".layout", ".gone", ".notify", ".register", ".id", ".session", ".ended"];
/// The beginning of the encoded form of a name that is too long for a key.
const HASHED: &str = "h.";
/// The folder of the lines in the native layout.
const LOCK: &str = ".lock";

/// The names of the keys of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) layout: Layout,
    /// The beginning of every key, without a slash at the end.
    prefix: String,
}

impl Lines {
    /// Lines under this prefix; `None` for the default prefix.
    pub(crate) fn new(layout: Layout, prefix: Option<&str>) -> Self {
        let usual = if layout == Layout::Native { PREFIX } else { "" };
        let prefix =
            prefix.map(|prefix| prefix.trim_end_matches('/')).filter(|prefix| !prefix.is_empty());
        Self { layout, prefix: prefix.unwrap_or(usual).to_owned() }
    }

    /// Refuses a prefix below which keys of another store could be in a line.
    ///
    /// # Errors
    /// `Invalid` for a prefix with a part that is one of lockkeeper's own.
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
    /// `Invalid` for a name with a part that is one of lockkeeper's own, where names are not
    /// encoded.
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

    /// The prefix, unless it is the default one.
    pub(crate) fn prefix(&self) -> Option<&str> {
        (self.prefix != PREFIX && !self.prefix.is_empty()).then_some(&self.prefix)
    }

    /// The first lease of a session of this store.
    pub(crate) fn lease_of(&self, id: &SessionId) -> i64 {
        lease_of(self.layout, &self.prefix, id)
    }

    /// The line of a name.
    pub(crate) fn of(&self, name: &LockName) -> Span {
        Span::under(self.folder(name))
    }

    /// The key of a claim that has its own slot.
    pub(crate) fn claim(&self, key: &ClaimKey) -> Bytes {
        let (folder, id) = (self.folder(&key.name), HEXLOWER.encode(key.id.as_bytes()));
        format!("{folder}{:x}-{id}", self.lease_of(&key.session)).into()
    }

    /// The key of a claim in this slot of its session.
    pub(crate) fn slot(&self, key: &ClaimKey, slot: u32) -> Bytes {
        format!("{}{:x}-{slot}", self.folder(&key.name), self.lease_of(&key.session)).into()
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

    /// The key that names the layout of the claims of this prefix.
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

    /// The notification key of a client: an operator's change to a claim of the client is reported
    /// there.
    pub(crate) fn notice(&self, client: &str) -> Bytes {
        format!("{}/.notify/{client}", self.own()).into()
    }

    /// The key that asks the holder of a claim to let go.
    pub(crate) fn request(&self, client: &str, id: &str) -> Bytes {
        format!("{}/.notify/{client}/{id}", self.own()).into()
    }

    /// All notification keys of a client.
    pub(crate) fn notices(&self, client: &str) -> Span {
        // A zero follows the slash.
        Span { from: self.notice(client), to: format!("{}/.notify/{client}0", self.own()).into() }
    }

    /// The key of a register.
    pub(crate) fn register(&self, key: &str) -> Bytes {
        format!("{}/.register/{}", self.own(), name::encode(key)).into()
    }

    /// The key of the store's id.
    pub(crate) fn id(&self) -> Bytes {
        format!("{}/.id", self.own()).into()
    }

    /// The text that distinguishes these lines from other lines with the same key for the id.
    pub(crate) fn part(&self) -> Option<String> {
        (self.layout == Layout::Concurrency).then(|| format!("concurrency {}", self.prefix))
    }

    /// Every key that may be in a line whose name begins with this, in spans that have no key in
    /// common.
    pub(crate) fn spans(&self, text: &str) -> Vec<Span> {
        // The encoded form of a name depends on dots at its end.
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
            // The encoded form of a name depends on its end.
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

    /// The beginnings of all keys that the store reads or writes for names with this beginning: the
    /// rights that a user needs.
    pub(crate) fn beginnings(&self, text: &str) -> Vec<String> {
        let lines = match self.layout {
            Layout::Native => return vec![format!("{}/", self.prefix)],
            Layout::Concurrency if self.prefix.is_empty() => text.to_owned(),
            Layout::Concurrency => format!("{}/{text}", self.prefix),
        };
        // Every key begins with an empty text.
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

    /// The prefix of the keys that other programs do not know.
    pub(super) fn own(&self) -> &str {
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
