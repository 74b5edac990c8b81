//! The connection to etcd: each request goes to one member, and to the next one when a member
//! fails. All watches are in one stream.
//!
//! `calls` is what the rest of the store uses; `member` is a connection; `watches` is the stream.
//! `messages` is made from `proto/etcd.proto`.

mod calls;
mod error;
mod member;
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::use_self,
    clippy::enum_variant_names,
    reason = "made by a program; private"
)]
pub(super) mod messages;
mod watches;

pub(super) use self::calls::{Calls, Login, Settings, all};
pub(super) use self::error::{Cut, OLD_TOKEN, OLD_TOKEN_ITSELF, WireError};
pub(super) use self::watches::{Reader, Watch, What};
