//! The arguments of the scripts.

use std::time::Duration;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::scripts::{self, LOOK, SESSION, SWEEP};
use super::{Keys, Layout, owner};
use crate::random;
use crate::store::{Amend, Claim, ClaimId, ClaimKey, Meta, SessionId, TOMBSTONE_MIN};
use crate::wire::{Request, Script};

/// The command with which a script publishes.
pub(crate) type Messages = &'static str;

/// The arguments of one call.
struct Call {
    keys: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
    script: &'static Script,
}

impl Call {
    /// A call about a claim.
    fn about(
        script: &'static Script,
        keys: &Keys,
        layout: Layout,
        id: &ClaimId,
        messages: Messages,
    ) -> Self {
        let args = vec![owner(layout, id), keys.channel(), messages.into()];
        Self { keys: keys.of_claim(id), args, script }
    }

    fn arg(mut self, arg: impl Into<Vec<u8>>) -> Self {
        self.args.push(arg.into());
        self
    }

    fn number(self, number: impl ToString) -> Self {
        self.arg(number.to_string())
    }

    fn optional(self, text: Option<&[u8]>) -> Self {
        self.arg(text.map_or_else(Vec::new, |text| [b"+", text].concat()))
    }

    fn meta(self, meta: &Meta) -> Self {
        self.number(meta.epoch)
            .arg(meta.owner.as_bytes())
            .optional(meta.reason.as_deref().map(str::as_bytes))
            .optional(meta.value.as_deref())
    }

    fn request(&self) -> Request {
        fn slices(all: &[Vec<u8>]) -> Vec<&[u8]> {
            all.iter().map(Vec::as_slice).collect()
        }
        Request::eval(self.script, &slices(&self.keys), &slices(&self.args))
    }
}

pub(crate) fn claim(layout: Layout, claim: &Claim, messages: Messages, adopt: Duration) -> Request {
    let keys = Keys::of(layout, &claim.key.name);
    let script = &scripts::of(layout).claim;
    let mut call = Call::about(script, &keys, layout, &claim.key.id, messages)
        .number(micros(claim.ttl))
        .number(micros(claim.lock_delay))
        .number(claim.weight)
        .number(claim.capacity)
        .number(u8::from(claim.resend))
        .number(millis(claim.ttl.max(TOMBSTONE_MIN)))
        .meta(&claim.meta);
    let replaced = claim.replaces.map(|id| owner(layout, &id));
    let can = layout.capabilities();
    call = call
        .arg(replaced.clone().unwrap_or_default())
        .number(millis(adopt))
        .number(u8::from(claim.queue && can.queue))
        .number(micros(claim.wait_ttl))
        .number(claim.max_waiters.min(can.max_waiters));
    if let Some(replaced) = replaced.filter(|_| layout == Layout::RedissonRw) {
        call.keys.push(keys.of_reader(&replaced));
    }
    call.request()
}

pub(crate) fn renew(layout: Layout, key: &ClaimKey, messages: Messages) -> Request {
    let keys = Keys::of(layout, &key.name);
    Call::about(&scripts::of(layout).renew, &keys, layout, &key.id, messages).request()
}

/// Looks at a claim that waits.
pub(crate) fn look(layout: Layout, key: &ClaimKey, messages: Messages) -> Request {
    let keys = Keys::of(layout, &key.name);
    Call::about(&LOOK, &keys, layout, &key.id, messages).request()
}

pub(crate) fn withdraw(
    layout: Layout,
    key: &ClaimKey,
    messages: Messages,
    tombstone: Option<Duration>,
) -> Request {
    let keys = Keys::of(layout, &key.name);
    Call::about(&scripts::of(layout).withdraw, &keys, layout, &key.id, messages)
        .number(tombstone.map_or(0, millis))
        .request()
}

pub(crate) fn amend(
    layout: Layout,
    key: &ClaimKey,
    messages: Messages,
    number: u64,
    change: &Amend,
) -> Option<Request> {
    let keys = Keys::of(layout, &key.name);
    let call = Call::about(&scripts::of(layout).amend, &keys, layout, &key.id, messages);
    let call = call.number(number);
    let call = match change {
        Amend::Lower(weight) => call.arg("l").number(weight),
        Amend::Value(value) => call.arg("v").arg(&value[..]),
        Amend::Meta(meta) => call.arg("m").meta(meta),
        Amend::MinHold(_) => return None,
    };
    Some(call.request())
}

/// What an administrator does to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Breaking {
    Mark = b'm',
    Remove = b'n',
    Ask = b'a',
}

/// The owner is as the key of the lock has it, since it may be no client of lockkeeper.
pub(crate) fn evict(
    layout: Layout,
    keys: &Keys,
    of: &[u8],
    messages: Messages,
    how: Breaking,
    (by, reason): (&str, &str),
) -> Request {
    let script = &scripts::of(layout).evict;
    let mut call = Call::about(script, keys, layout, &super::claim_id(layout, of), messages);
    call.args[0] = of.to_vec();
    call.keys[3] = keys.of_reader(of);
    call.arg([how as u8]).arg(by).arg(reason).request()
}

/// What clients of lockkeeper publish only while another client waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Message {
    Release = b'w',
    Grant = b'f',
}

/// Asks for a line. With `waits` this message is published for so long.
pub(crate) fn line(layout: Layout, keys: &Keys, waits: Option<(Message, Duration)>) -> Request {
    lines_of(layout, std::slice::from_ref(keys), keys.of_line().len(), waits, &[])
}

/// Asks for the lines of several names.
pub(crate) fn lines(layout: Layout, keys: &[Keys]) -> Request {
    let each = keys.first().map_or(0, |first| first.of_line().len());
    lines_of(layout, keys, each, None, &[])
}

/// Asks for a line, with the life of each of these readers.
pub(crate) fn line_of_readers(layout: Layout, keys: &Keys, readers: &[Vec<u8>]) -> Request {
    lines_of(layout, std::slice::from_ref(keys), 0, None, readers)
}

fn lines_of(
    layout: Layout,
    keys: &[Keys],
    each: usize,
    waits: Option<(Message, Duration)>,
    readers: &[Vec<u8>],
) -> Request {
    let mut call = Call {
        keys: keys.iter().flat_map(Keys::of_line).collect(),
        args: vec![Vec::new(), Vec::new(), Vec::new()],
        script: &scripts::of(layout).line,
    }
    .number(each)
    .arg(
        waits
            .map_or_else(String::new, |(of, time)| format!("{}{}", of as u8 as char, millis(time))),
    );
    call.with_readers(keys, readers);
    call.request()
}

/// Removes the readers of this list that have died.
pub(crate) fn sweep(keys: &Keys, readers: &[Vec<u8>], messages: Messages) -> Request {
    let mut call = Call {
        keys: keys.of_line(),
        args: vec![Vec::new(), keys.channel(), messages.into()],
        script: &SWEEP,
    };
    call.with_readers(std::slice::from_ref(keys), readers);
    call.request()
}

impl Call {
    /// Adds readers: to ARGV, and their strings to KEYS.
    fn with_readers(&mut self, keys: &[Keys], readers: &[Vec<u8>]) {
        for reader in readers {
            self.args.push(reader.clone());
            self.keys.extend(keys.first().map(|keys| keys.of_reader(reader)));
        }
    }
}

/// The key of the store's id.
pub(crate) const ID_KEY: &str = "lkf:id";

pub(crate) fn id() -> Request {
    Request::eval(&scripts::ID, &[ID_KEY.as_bytes()], &[&random::bits128()])
}

/// The key that says that a detached session was closed. It has a hash of the id, since the id is a
/// secret.
pub(crate) fn session_key(id: &SessionId) -> Vec<u8> {
    let hash = HEXLOWER.encode(&Sha256::digest(id.as_str())[..16]);
    format!("lkf:s:{{{hash}}}").into_bytes()
}

/// Asks whether a detached session was closed, and lets the server remember for so long that it is.
pub(crate) fn close_session(key: &[u8], remembered: Duration) -> Request {
    Request::eval(&SESSION, &[key], &[millis(remembered).to_string().as_bytes()])
}

/// In microseconds, rounded up.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX)
}

/// In milliseconds, rounded up.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
