//! Where things are.
//!
//! Native: `<prefix>/<encoded name>/<lease>-<seat>`. Concurrency: `<name>/<lease>-<seat>`, as Go has it but for the seat,
//! without which two claims of one lease would be the same contender. Order is that of the revisions in which keys were
//! created.
//!
//! A seat is used by one claim after the other: etcd remembers every key that there ever was until it is compacted, and
//! walks over them whenever it looks at the line. A claim that another process may have to find has its id for a seat.

use bytes::Bytes;
use data_encoding::HEXLOWER;

use super::Layout;
use crate::store::{ClaimId, ClaimKey};
use crate::{LockName, name};

/// Where the native layout is when nobody says otherwise.
const PREFIX: &str = "/lockkeeper";

/// Some keys, from one on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Span {
    /// The first.
    pub(in super::super) from: Bytes,
    /// What comes behind the last; empty for one key.
    pub(in super::super) to: Bytes,
}

impl Span {
    /// Everything that begins with this, which ends with a slash.
    fn under(folder: String) -> Self {
        let mut end = folder.clone().into_bytes();
        if let Some(last) = end.last_mut() {
            // A slash is followed by a zero.
            *last += 1;
        }
        Self { from: folder.into(), to: end.into() }
    }
}

/// Where a store keeps its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Lines {
    pub(in super::super) layout: Layout,
    /// Before every name; ends without a slash.
    prefix: String,
}

impl Lines {
    /// Lines under this prefix; `None` for what is usual.
    pub(in super::super) fn new(layout: Layout, prefix: Option<&str>) -> Self {
        let usual = if layout == Layout::Native { PREFIX } else { "" };
        let prefix = prefix.map(|prefix| prefix.trim_end_matches('/')).filter(|prefix| !prefix.is_empty());
        Self { layout, prefix: prefix.unwrap_or(usual).to_owned() }
    }

    /// The prefix, if it is not the usual one.
    pub(in super::super) fn prefix(&self) -> Option<&str> {
        (self.prefix != PREFIX && !self.prefix.is_empty()).then_some(&self.prefix)
    }

    /// The line of a name.
    pub(in super::super) fn of(&self, name: &LockName) -> Span {
        Span::under(self.folder(name))
    }

    /// Where a claim is that has a seat of its own.
    pub(in super::super) fn claim(&self, key: &ClaimKey) -> Bytes {
        let (folder, id) = (self.folder(&key.name), HEXLOWER.encode(key.id.as_bytes()));
        format!("{folder}{}-{id}", key.session.as_str()).into()
    }

    /// Where a claim is that has this seat of its session.
    pub(in super::super) fn seat(&self, key: &ClaimKey, seat: u32) -> Bytes {
        format!("{}{}-{seat}", self.folder(&key.name), key.session.as_str()).into()
    }

    /// Whether a key is one of a claim of ours: on a seat of a lease.
    pub(in super::super) fn is_claim(&self, key: &[u8]) -> bool {
        let last = key.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        self.name_in(key).is_some() && last.contains(&b'-')
    }

    /// Whether a key under the folder of a name is a contender for that name, and not for one that begins like it.
    pub(in super::super) fn contends(&self, line: &Span, key: &[u8]) -> bool {
        key.strip_prefix(&*line.from).is_some_and(|rest| !rest.contains(&b'/'))
    }

    /// Says that an id is gone, while it is there.
    pub(in super::super) fn gone(&self, id: ClaimId) -> Bytes {
        format!("{}/.gone/{}", self.own(), HEXLOWER.encode(id.as_bytes())).into()
    }

    /// Where a client hears that something was done to claims of its.
    pub(in super::super) fn bell(&self, client: &str) -> Bytes {
        format!("{}/.bell/{client}", self.own()).into()
    }

    /// Where a register is.
    pub(in super::super) fn register(&self, key: &str) -> Bytes {
        format!("{}/.register/{}", self.own(), name::encode(key)).into()
    }

    /// Every key that may be in a line whose name begins with this.
    pub(in super::super) fn beginning_with(&self, text: &str) -> Span {
        match self.layout {
            // What a name is encoded as depends on its end.
            Layout::Native => Span::under(format!("{}/", self.prefix)),
            Layout::Concurrency if self.prefix.is_empty() && text.is_empty() => {
                Span { from: Bytes::from_static(b"\0"), to: Bytes::from_static(b"\0") }
            }
            Layout::Concurrency => {
                let from = if self.prefix.is_empty() { text.to_owned() } else { format!("{}/{text}", self.prefix) };
                let mut to = from.clone().into_bytes();
                // UTF-8 has no 0xff.
                to.push(0xff);
                Span { from: from.into(), to: to.into() }
            }
        }
    }

    /// With what all keys begin that are read or written for names that begin with this: the rights that a user needs.
    pub(in super::super) fn beginnings(&self, text: &str) -> Vec<String> {
        let lines = match self.layout {
            Layout::Native => return vec![format!("{}/", self.prefix)],
            Layout::Concurrency if self.prefix.is_empty() => text.to_owned(),
            Layout::Concurrency => format!("{}/{text}", self.prefix),
        };
        // An empty one is that of all keys.
        if lines.is_empty() { vec![lines] } else { vec![lines, format!("{PREFIX}/.")] }
    }

    /// The name of the line in which this key is, encoded as it stands there.
    pub(in super::super) fn name_in<'a>(&self, key: &'a [u8]) -> Option<&'a str> {
        let rest = match self.prefix.as_str() {
            "" => key,
            prefix => key.strip_prefix(prefix.as_bytes())?.strip_prefix(b"/")?,
        };
        let end = rest.iter().rposition(|byte| *byte == b'/')?;
        std::str::from_utf8(&rest[..end]).ok().filter(|name| !name.is_empty() && !name.starts_with('.'))
    }

    fn folder(&self, name: &LockName) -> String {
        match self.layout {
            Layout::Native => format!("{}/{}/", self.prefix, name.encoded()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::SessionId;

    fn key(name: &str) -> ClaimKey {
        ClaimKey {
            name: name.parse().unwrap(),
            session: SessionId::new("6c0ffee"),
            id: ClaimId::from_bytes([0xab; 16]),
        }
    }

    #[test]
    fn a_claim_is_where_the_layout_has_it() {
        let id = "ab".repeat(16);
        for (layout, prefix, at) in [
            (Layout::Native, None, format!("/lockkeeper/stock%2F42/6c0ffee-{id}")),
            (Layout::Native, Some("/shop/"), format!("/shop/stock%2F42/6c0ffee-{id}")),
            (Layout::Concurrency, None, format!("stock/42/6c0ffee-{id}")),
            (Layout::Concurrency, Some("/locks"), format!("/locks/stock/42/6c0ffee-{id}")),
        ] {
            let (lines, key) = (Lines::new(layout, prefix), key("stock/42"));
            let found = lines.claim(&key);
            assert_eq!(found, at.as_bytes());
            assert!(lines.is_claim(&found) && lines.is_claim(&lines.seat(&key, 0)));
            assert_eq!(lines.seat(&key, 7), at.replace(&id, "7").as_bytes());
            let line = lines.of(&key.name);
            assert!(line.from <= found && found < line.to && lines.contends(&line, &found));
            let named = if layout == Layout::Native { "stock%2F42" } else { "stock/42" };
            assert_eq!(lines.name_in(&found), Some(named));
        }
    }

    #[test]
    fn a_name_that_begins_like_another_is_another_line() {
        let lines = Lines::new(Layout::Concurrency, None);
        let line = lines.of(&"stock".parse().unwrap());
        assert!(!lines.contends(&line, &lines.claim(&key("stock/42"))));
        assert!(lines.contends(&line, b"stock/694d8"));
        assert!(!lines.contends(&line, b"stocks/694d8"));
        assert!(!lines.is_claim(b"stock/694d8"));
    }

    #[test]
    fn what_is_our_own_is_in_nobodys_line() {
        let lines = Lines::new(Layout::Native, None);
        for own in [lines.gone(key("a").id), lines.bell("c"), lines.register("a/b")] {
            assert_eq!(lines.name_in(&own), None, "{own:?}");
        }
    }
}
