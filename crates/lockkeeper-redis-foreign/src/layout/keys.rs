//! The keys and the channel of a name, by the rules of Redisson, and their slot in a Cluster.

use super::Layout;
use crate::store::ClaimId;
use crate::{Error, LockName, Result};
use lockkeeper_redis_client::slot;

/// The keys of a lock in a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    name: LockName,
    layout: Layout,
    /// Has the records of our claims.
    side: Vec<u8>,
    /// A further key of the layout; without one it is the side key.
    more: Vec<u8>,
    /// The times of the waiters, if the layout has a queue.
    times: Option<Vec<u8>>,
}

impl Keys {
    pub(crate) fn of(layout: Layout, name: &LockName) -> Self {
        let text = name.as_str();
        let side = side_of(text);
        let more = match layout {
            Layout::Redisson | Layout::RedissonFenced => prefixed("redisson_lock_token", text),
            Layout::RedissonFair => prefixed("redisson_lock_queue", text),
            Layout::RedissonSemaphore => suffixed(text, "timeout"),
            _ => side.clone(),
        };
        let times =
            (layout == Layout::RedissonFair).then(|| prefixed("redisson_lock_timeout", text));
        Self { name: name.clone(), layout, side, more, times }
    }

    pub(crate) fn name(&self) -> &LockName {
        &self.name
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// A further key of the layout, if it has one.
    pub(crate) fn more(&self) -> &[u8] {
        &self.more
    }

    pub(crate) fn side(&self) -> &[u8] {
        &self.side
    }

    /// The keys, each with the type that it has if it is there.
    pub(crate) fn types(&self) -> impl Iterator<Item = (&[u8], &'static str)> {
        let (main, more) = match self.layout {
            Layout::Plain => ("string", "hash"),
            Layout::RedissonRw => ("hash", "hash"),
            Layout::Redisson | Layout::RedissonFenced => ("hash", "string"),
            Layout::RedissonFair => ("hash", "list"),
            Layout::RedissonSemaphore => ("string", "zset"),
        };
        let times = self.times.iter().map(|times| (&times[..], "zset"));
        [(self.main(), main), (&self.side, "hash"), (&self.more, more)].into_iter().chain(times)
    }

    /// The key that the other library gives the lock.
    pub(crate) fn main(&self) -> &[u8] {
        self.name.as_str().as_bytes()
    }

    /// The keys of a script about the line: four, or five with a queue.
    pub(crate) fn of_line(&self) -> Vec<Vec<u8>> {
        self.with_times([self.side.clone(), self.more.clone()])
    }

    /// The keys of a script about a claim, as many.
    pub(crate) fn of_claim(&self, id: &ClaimId) -> Vec<Vec<u8>> {
        let gone = [&self.side[..], b":gone:", hex(id).as_bytes()].concat();
        self.with_times([gone, self.of_reader(&super::owner(self.layout, id))])
    }

    fn with_times(&self, own: [Vec<u8>; 2]) -> Vec<Vec<u8>> {
        let main = [self.main().to_vec(), self.side.clone()];
        main.into_iter().chain(own).chain(self.times.clone()).collect()
    }

    /// The further key of a claim with this owner: in a read-write lock the string of a reader.
    pub(crate) fn of_reader(&self, owner: &[u8]) -> Vec<u8> {
        match self.layout == Layout::RedissonRw {
            true => {
                let owner = String::from_utf8_lossy(owner);
                suffixed(self.name.as_str(), &format!("{owner}:rwlock_timeout:1"))
            }
            false => self.more.clone(),
        }
    }

    /// The channel on which a release is published.
    pub(crate) fn channel(&self) -> Vec<u8> {
        let name = self.name.as_str();
        match self.layout {
            Layout::Plain => [&side_of(name)[..], b":channel"].concat(),
            Layout::Redisson | Layout::RedissonFenced | Layout::RedissonFair => {
                prefixed("redisson_lock__channel", name)
            }
            Layout::RedissonRw => prefixed("redisson_rwlock", name),
            Layout::RedissonSemaphore => prefixed("redisson_sc", name),
        }
    }

    /// The channel on which lockkeeper publishes grants to observers.
    pub(crate) fn grants(&self) -> Vec<u8> {
        [&self.side[..], b":grants"].concat()
    }

    /// The channel on which a claim that waits gets its messages.
    pub(crate) fn channel_of(&self, id: &ClaimId) -> Vec<u8> {
        [&self.channel()[..], b":", &super::owner(self.layout, id)].concat()
    }

    /// The slot of the keys in a Cluster.
    pub(crate) fn slot(&self) -> u16 {
        slot(self.main())
    }

    /// Refuses a name whose keys are in several slots of a Cluster.
    pub(crate) fn check_slot(&self) -> Result<()> {
        let all = [slot(&self.side), slot(&self.more), slot(&self.channel())];
        if all.iter().all(|other| *other == self.slot()) {
            return Ok(());
        }
        let problem =
            "a brace in the name puts the keys of the lock into several slots of the Cluster";
        Err(Error::invalid(problem)
            .with_remedy("a name without braces, or with one pair and text in it: {tag}")
            .about(self.name.clone()))
    }
}

/// `prefixName` of Redisson.
fn prefixed(prefix: &str, name: &str) -> Vec<u8> {
    match name.contains('{') {
        true => format!("{prefix}:{name}"),
        false => format!("{prefix}:{{{name}}}"),
    }
    .into_bytes()
}

/// `suffixName` of Redisson.
fn suffixed(name: &str, suffix: &str) -> Vec<u8> {
    match name.contains('{') {
        true => format!("{name}:{suffix}"),
        false => format!("{{{name}}}:{suffix}"),
    }
    .into_bytes()
}

/// The side key. As in [`prefixed`] it keeps the tag of the name. Two names never share it: unlike
/// there, `a` and `{a}` differ.
fn side_of(name: &str) -> Vec<u8> {
    match name.contains('{') {
        true => format!("lkf::{name}"),
        false => format!("lkf:{{{name}}}"),
    }
    .into_bytes()
}

/// The name whose side key this is: the reverse of [`side_of`].
pub(crate) fn name_of_side(key: &[u8]) -> Option<LockName> {
    let text = std::str::from_utf8(key).ok()?.strip_prefix("lkf:")?;
    let name = match text.strip_prefix(':') {
        Some(name) => name,
        None => text.strip_prefix('{')?.strip_suffix('}')?,
    };
    LockName::new(name).ok().filter(|name| side_of(name.as_str()) == key)
}

/// The text in a pattern of the server, where it stands for itself.
pub(crate) fn escaped(text: &str) -> Vec<u8> {
    let mut escaped = Vec::new();
    for byte in text.bytes() {
        if b"*?[]\\".contains(&byte) {
            escaped.push(b'\\');
        }
        escaped.push(byte);
    }
    escaped
}

/// The pattern of `SCAN` for keys that belong to locks whose names begin with `prefix`.
pub(crate) fn pattern(layout: Layout, prefix: &str) -> Vec<u8> {
    let escaped = escaped(prefix);
    match layout {
        // `lkf:{NAME}` or `lkf::NAME`.
        Layout::Plain => [b"lkf:?", &escaped[..], b"*"].concat(),
        // `{NAME}:timeout` or `NAME:timeout`.
        Layout::RedissonSemaphore => [b"*", &escaped[..], b"*:timeout"].concat(),
        _ => [&escaped[..], b"*"].concat(),
    }
}

/// The names of locks that this key of `SCAN` may belong to.
pub(crate) fn names_of(layout: Layout, key: &[u8]) -> Vec<LockName> {
    let text = || std::str::from_utf8(key).ok();
    let named = |name: Option<&str>| name.and_then(|name| LockName::new(name).ok());
    match layout {
        // Any string may be a key of an application, so only the locks are listed that a client of
        // lockkeeper has used.
        Layout::Plain => name_of_side(key).into_iter().collect(),
        Layout::RedissonSemaphore => {
            let name = text().and_then(|text| text.strip_suffix(":timeout"));
            let inner = name.and_then(|name| name.strip_prefix('{')?.strip_suffix('}'));
            [name, inner].into_iter().filter_map(named).collect()
        }
        _ => named(text()).into_iter().collect(),
    }
}

fn hex(id: &ClaimId) -> String {
    data_encoding::HEXLOWER.encode(id.as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(layout: Layout, name: &str) -> Keys {
        Keys::of(layout, &name.parse().unwrap())
    }

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn keys_and_channels_are_those_of_redisson() {
        let id = ClaimId::from_bytes([0xab; 16]);
        let rw = keys(Layout::RedissonRw, "stock");
        assert_eq!(
            text(&rw.of_claim(&id)[3]),
            "{stock}:abababab-abab-abab-abab-abababababab:1:rwlock_timeout:1"
        );
        assert_eq!(text(&rw.channel()), "redisson_rwlock:{stock}");
        let fenced = keys(Layout::RedissonFenced, "stock");
        assert_eq!(text(&fenced.of_line()[3]), "redisson_lock_token:{stock}");
        assert_eq!(text(&fenced.channel()), "redisson_lock__channel:{stock}");
        let tagged = keys(Layout::RedissonSemaphore, "{shop}:stock");
        assert_eq!(text(&tagged.of_line()[3]), "{shop}:stock:timeout");
        assert_eq!(text(&tagged.channel()), "redisson_sc:{shop}:stock");
        assert_eq!(tagged.main(), b"{shop}:stock");
        let fair = keys(Layout::RedissonFair, "stock");
        let queue = ["redisson_lock_queue:{stock}", "redisson_lock_timeout:{stock}"];
        assert_eq!([text(&fair.of_line()[3]), text(&fair.of_claim(&id)[4])], queue);
        assert_eq!(
            text(&fair.channel_of(&id)),
            "redisson_lock__channel:{stock}:abababab-abab-abab-abab-abababababab:1"
        );
    }

    #[test]
    fn a_name_whose_keys_a_cluster_would_scatter_is_refused() {
        for layout in Layout::ALL {
            for name in ["a", "{a}", "{a}:b", "a{b}c", "日本語"] {
                keys(layout, name).check_slot().unwrap();
            }
            for name in ["a}b", "a{b", "{}"] {
                let Err(error) = keys(layout, name).check_slot() else { continue };
                assert!(error.to_string().contains("brace"), "{error}");
            }
            assert!(keys(layout, "a}b").check_slot().is_err(), "{layout:?}");
        }
    }

    proptest! {
        #[test]
        fn a_side_key_leads_back_to_its_name(name in "\\PC{1,30}") {
            let Ok(name) = LockName::new(&name) else { return Ok(()) };
            prop_assert_eq!(name_of_side(&side_of(name.as_str())), Some(name));
        }

        #[test]
        fn two_names_have_two_side_keys(a in "[{}a:]{1,6}", b in "[{}a:]{1,6}") {
            prop_assert_eq!(a == b, side_of(&a) == side_of(&b));
        }

        #[test]
        fn any_key_can_be_scanned(key in prop::collection::vec(any::<u8>(), 0..40)) {
            for layout in Layout::ALL {
                drop(names_of(layout, &key));
            }
        }
    }
}
