//! Connections to Redis and Valkey, for the stores of lockkeeper: one server, a master behind
//! Sentinels, or a Cluster.
//!
//! [`wire`] has one connection to one server. [`route`] finds the server of a request, and follows
//! it. [`setup`] is what a URL or a builder says. [`checks`], [`rights`] and [`opening`] refuse
//! servers on which locks cannot be relied on, [`report`] has what `doctor` says of a server, and
//! [`fault`] says in the words of users what went wrong. [`renewals`] puts the answers of several
//! servers together, and [`subscriptions`] has the channels on which they push.
//!
//! This crate is a part of lockkeeper, and no client of Redis for other programs: its API changes
//! without notice.
#![forbid(unsafe_code)]

pub mod checks;
pub mod fault;
pub mod opening;
mod options;
#[cfg(any(test, feature = "peer"))]
pub mod peer;
pub mod refused;
pub mod renewals;
pub mod report;
pub mod rights;
pub mod route;
mod scan;
pub mod setup;
mod slot;
pub mod subscriptions;
pub mod wire;

pub use self::scan::scan;
pub use self::slot::slot;
use lockkeeper_core::kit::{net, random, runtime};
use lockkeeper_core::{Error, ErrorKind, Result, Secret, time, url};
