//! The layouts of other libraries: the keys, channels and scripts of each, and what each can do.
//! Nothing here does I/O.

mod answer;
mod holders;
mod keys;
mod owner;
mod request;
mod scripts;

use std::time::Duration;

use lockkeeper_core::url::nearest;

pub(crate) use self::answer::{
    Place, Released, amend_answer, claim_answer, evict_answer, id_answer, is_closed, line_answer,
    line_answers, look_answer, renew_answer, swept_answer, withdraw_answer,
};
pub(crate) use self::holders::Holders;
pub(crate) use self::keys::{Keys, escaped, names_of, pattern};
pub(crate) use self::owner::{claim_id, owner, shown};
pub(crate) use self::request::{
    Breaking, ID_KEY, Message, Messages, amend, claim, close_session, evict, id, line,
    line_of_readers, lines, look, renew, session_key, sweep, withdraw,
};
#[cfg(test)]
pub(crate) use self::scripts::commands;
use crate::store::{Admission, Capabilities, Elsewhere, Fencing, Wakes};

/// How the keys of a lock look: as another library writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// The simple lock: `SET name owner NX PX ttl`, released by a script that compares the owner.
    /// redis-py, redsync, bsm/redislock, rslock and node-redlock with one server, and many programs
    /// write it.
    Plain,
    /// `RLock` of Redisson.
    Redisson,
    /// `RFencedLock` of Redisson, whose clients share the counter of tokens.
    RedissonFenced,
    /// `RFairLock` of Redisson, whose clients share its queue.
    RedissonFair,
    /// `RReadWriteLock` of Redisson.
    RedissonRw,
    /// `RPermitExpirableSemaphore` of Redisson.
    RedissonSemaphore,
}

/// `lockWatchdogTimeout` of Redisson, as it is by default.
const WATCHDOG: Duration = Duration::from_secs(30);
/// The layouts that have the other kinds of locks.
const ELSEWHERE: Elsewhere = Elsewhere {
    mutexes: "layout=redisson",
    read_write_locks: "layout=redisson-rw",
    semaphores: "layout=redisson-semaphore",
    longer: None,
};
/// What a lock can do that one holder has at a time.
const EXCLUSIVE: Capabilities = Capabilities {
    admission: Admission::Exclusive,
    fencing: Fencing::None,
    queue: false,
    wake: Wakes::Push,
    min_hold_max: Duration::ZERO,
    max_waiters: 0,
    elsewhere: ELSEWHERE,
    ..Capabilities::full()
};
/// The clients of other libraries publish nothing.
const PLAIN: Capabilities = Capabilities { wake: Wakes::Poll, ..EXCLUSIVE };
/// Redisson counts on from the last token.
const FENCED: Capabilities =
    Capabilities { fencing: Fencing::UntilFailover, epochs: false, ..EXCLUSIVE };
/// Each renewal of a waiter counts those ahead of it, and so does each grant of Redisson.
const FAIR: Capabilities = Capabilities { queue: true, max_waiters: 1000, ..EXCLUSIVE };
const RW: Capabilities = Capabilities {
    admission: Admission::ReadWrite,
    ttl_max: WATCHDOG,
    lock_delay_max: WATCHDOG,
    keep_max: WATCHDOG,
    elsewhere: Elsewhere {
        longer: Some("watchdog=, if each Redisson has a longer lockWatchdogTimeout"),
        ..ELSEWHERE
    },
    ..EXCLUSIVE
};
const SEMAPHORE: Capabilities = Capabilities { admission: Admission::Permits, ..EXCLUSIVE };

impl Layout {
    /// All layouts.
    pub const ALL: [Self; 6] = [
        Self::Plain,
        Self::Redisson,
        Self::RedissonFenced,
        Self::RedissonFair,
        Self::RedissonRw,
        Self::RedissonSemaphore,
    ];

    /// The name in a URL: `layout=NAME`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Redisson => "redisson",
            Self::RedissonFenced => "redisson-fenced",
            Self::RedissonFair => "redisson-fair",
            Self::RedissonRw => "redisson-rw",
            Self::RedissonSemaphore => "redisson-semaphore",
        }
    }

    /// The layout of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// The name that a mistyped name most likely means. `own` are names of other layouts.
    #[doc(hidden)]
    pub fn nearest(name: &str, own: &[&'static str]) -> Option<&'static str> {
        let all = Self::ALL.into_iter().map(Self::name);
        nearest(name, own.iter().copied().chain(all))
    }

    /// What the store can do in this layout.
    pub const fn capabilities(self) -> &'static Capabilities {
        match self {
            Self::Plain => &PLAIN,
            Self::Redisson => &EXCLUSIVE,
            Self::RedissonFenced => &FENCED,
            Self::RedissonFair => &FAIR,
            Self::RedissonRw => &RW,
            Self::RedissonSemaphore => &SEMAPHORE,
        }
    }

    /// The lock of this layout, for people.
    pub(crate) const fn lock(self) -> &'static str {
        match self {
            Self::Plain => "a lock made by SET NX PX",
            Self::Redisson => "an RLock",
            Self::RedissonFenced => "an RFencedLock",
            Self::RedissonFair => "an RFairLock",
            Self::RedissonRw => "an RReadWriteLock",
            Self::RedissonSemaphore => "an RPermitExpirableSemaphore",
        }
    }

    /// What ends a holder without a ttl, for people.
    pub(crate) const fn end(self) -> &'static str {
        match self {
            Self::Plain => {
                "if the key is a lock, and no data of an application, adopt-ttl=30s in the URL \
                 gives it one, or redis-cli PEXPIRE"
            }
            Self::Redisson | Self::RedissonFenced | Self::RedissonFair | Self::RedissonRw => {
                "redis-cli PEXPIRE gives it one, or lockkeeper break --now removes it"
            }
            Self::RedissonSemaphore => {
                "acquire of Redisson with a lease time gives it one, or lockkeeper break --now \
                 removes it"
            }
        }
    }

    /// Whether several claims hold a lock together.
    pub(crate) const fn is_shared(self) -> bool {
        matches!(self, Self::RedissonRw | Self::RedissonSemaphore)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_has_one_name_and_a_mistyped_name_finds_it() {
        for layout in Layout::ALL {
            assert_eq!(Layout::from_name(layout.name()), Some(layout));
        }
        assert_eq!(Layout::from_name("native"), None);
        assert_eq!(Layout::nearest("redison", &["native"]), Some("redisson"));
        assert_eq!(Layout::nearest("redisson-fence", &["native"]), Some("redisson-fenced"));
        assert_eq!(Layout::nearest("nativ", &["native"]), Some("native"));
        assert_eq!(Layout::nearest("sqlite", &["native"]), None);
    }
}
