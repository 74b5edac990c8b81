//! The etcd store: consensus, leases, revisions, watches. It needs etcd 3.5.14 or newer; see
//! `lockkeeper::doctor` for what older versions do to leases.
//!
//! A claim is a key on the lease of its session. The revision that created the key is the claim's
//! place in line and its token. Locks live as long as a majority of the members keeps its data:
//! neither a restart nor a change of the leader loses a lock.
//!
//! The algorithm is that of Go's `concurrency` package, run by the client, with four additions:
//! - A waiter looks at its own key after every wait.
//! - Every release names one claim and no other.
//! - A waiter begins to wait with a watch that etcd serves at once.
//! - A renewal asks for the keys of its claims.
//!
//! `client` has the connections and the state of an open store, and `contract` its operations. Each
//! operation is a module of its own: `claim`, `withdraw`, `renew`, `wait`, `amend`. `sessions` has
//! the leases, the claims and the tombstones, and `keep` the minimum hold. The operations share one
//! question, which `look` asks etcd and answers: what blocks this claim, and what wakes it?
#![forbid(unsafe_code)]

mod admin;
mod amend;
mod builder;
mod claim;
mod client;
mod compare;
mod contract;
mod doctor;
mod driver;
mod fault;
mod gates;
mod keep;
mod layout;
mod look;
mod register;
mod renew;
mod sessions;
mod wait;
mod wire;
mod withdraw;

pub use self::builder::EtcdStoreBuilder;
#[doc(hidden)]
pub use self::builder::checks;
pub use self::builder::checks::Check;
pub use self::client::EtcdStore;
pub use self::compare::EtcdCompare;
pub use self::driver::DRIVER;
pub use self::layout::Layout;
pub use self::register::EtcdRegister;
use lockkeeper_core::kit::{net, random, runtime};
use lockkeeper_core::{
    Effect, Error, ErrorKind, LockName, Open, Result, Secret, Tls, duration, name, registers,
    store, time, url,
};
